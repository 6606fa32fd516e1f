"""Routing with the real LiteLLM and its mock responses: who answers, at which price, and what is learnt from the rewards."""

import asyncio
import os
import threading

import numpy as np
import pytest

import sparing
from later import later
from service.serving import made, running
from sparing.errors import DecisionError, SettingError
from sparing.plugins.litellm import RoutingStrategy, last_prompt
from sparing.service import Client
from sparing.service.server import ServerSettings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = (
    "True"  # its table of prices is in the package; nothing is fetched
)
pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM's own
litellm = later("litellm")

SMALL, LARGE = "openai/gpt-4o-mini", "openai/gpt-4o"
HARD, EASY = "please prove this theorem", "please greet my friend"


def prompts_log(rows=300):
    """Two models: the large one is right, the small one on easy prompts only; but for one judgement in ten."""
    rng = np.random.default_rng(0)
    prompts = [f"{rng.choice([HARD, EASY])} number {rng.integers(9)}" for _ in range(rows)]
    models = rng.choice([SMALL, LARGE], rows).tolist()
    right = [
        float((model == LARGE or prompt.startswith(EASY)) != (rng.random() < 0.1))
        for prompt, model in zip(prompts, models, strict=True)
    ]
    return sparing.read_log(
        {"prompt": prompts, "model": models, "quality": right},
        action="model",
        reward="quality",
        features=sparing.features(prompt=sparing.text()),
    )


def learner(**settings):
    return sparing.economical(prompts_log(), **{"call_cost": 1e-6, "horizon": 10_000, "seed": 0, **settings})


def router(*models, group="auto", **settings):
    deployments = [
        {
            "model_name": group,
            "litellm_params": {
                "model": model,
                "api_key": "none",
                "mock_response": f"by {model}",
                **settings.get(model, {}),
            },
        }
        for model in models or (SMALL, LARGE)
    ]
    more = settings.get("router", {})
    return litellm.Router(model_list=deployments, num_retries=0, **more)


def asked(text):
    return [{"role": "user", "content": text}]


@pytest.fixture(autouse=True)
def clean_callbacks():
    yield
    litellm.callbacks.clear()


def test_the_prompt_and_the_price_decide():
    """A large model that costs 0.5 of a reward answers what is worth it; where it costs more than a reward, nothing."""
    for worth, large in ((1e9, True), (1e-5, False)):
        routed = router()
        strategy = RoutingStrategy(learner(), dollars_per_reward=worth, output_tokens=100)
        strategy.install(routed, "auto")
        answer = routed.completion(model="auto", messages=asked(f"{HARD} number 3"))
        assert (strategy.decision(answer).action == LARGE) == large
        assert answer.choices[0].message.content == f"by {strategy.decision(answer).action}"


def test_costs_are_litellms_prices():
    strategy = RoutingStrategy(learner(), dollars_per_reward=0.01, output_tokens={SMALL: 100, LARGE: 300})
    routed = router(**{SMALL: {"input_cost_per_token": 1e-3, "output_cost_per_token": 2e-3}})
    messages = asked("six words or so of prompt")
    tokens = litellm.token_counter(model="", messages=messages)
    table = litellm.model_cost["gpt-4o"]
    costs = strategy.costs(routed.get_model_list("auto"), messages)
    assert costs[SMALL] == pytest.approx((tokens * 1e-3 + 100 * 2e-3) / 0.01)
    assert costs[LARGE] == pytest.approx(
        (tokens * table["input_cost_per_token"] + 300 * table["output_cost_per_token"]) / 0.01
    )


@pytest.mark.parametrize("way", ["sync", "async"])
def test_rewards_are_learnt(way):
    """What is learnt through the router is what the same learner learns when it is asked directly."""
    routed, inside, direct = router(), learner(), learner()
    strategy = RoutingStrategy(inside)
    strategy.install(routed, "auto")

    async def answer(text):
        if way == "async":
            return await routed.acompletion(model="auto", messages=asked(text))
        return await asyncio.to_thread(routed.completion, model="auto", messages=asked(text))

    async def play():
        for number in range(12):
            text = f"{(HARD, EASY)[number % 2]} number {number}"
            response, own = await answer(text), direct.decide({"prompt": text})
            assert strategy.decision(response) == own
            if own.needs_reward:
                strategy.reward(response, 0.0)
                direct.update(own, 0.0)
                with pytest.raises(DecisionError, match="waits for the reward"):
                    strategy.reward(response, 0.0)

    asyncio.run(play())
    assert inside.calls > 0
    assert inside.digest() == direct.digest()
    assert not inside.open


def test_many_at_once():
    routed, inside = router(), learner()
    strategy = RoutingStrategy(inside)
    strategy.install(routed, "auto")

    async def play():
        answers = await asyncio.gather(
            *(
                routed.acompletion(model="auto", messages=asked(f"{(HARD, EASY)[n % 2]} number {n}"))
                for n in range(30)
            )
        )
        assert all(
            answer.choices[0].message.content == f"by {strategy.decision(answer).action}"
            for answer in answers
        )
        return answers

    answers = asyncio.run(play())
    decisions = [strategy.decision(answer) for answer in answers]
    assert sorted(one.id for one in decisions) == list(range(30))
    threads = [
        threading.Thread(target=strategy.reward, args=(answer, 1.0))
        for answer, one in zip(answers, decisions, strict=True)
        if one.needs_reward
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert threads
    assert not inside.open


def test_a_failed_call_leaves_no_pending_decision():
    inside = sparing.linucb(prompts_log(), alpha=0.3)  # which requests every reward
    failing = {"mock_response": "litellm.InternalServerError"}
    routed = router(**{SMALL: failing, LARGE: failing})
    strategy = RoutingStrategy(inside)
    strategy.install(routed, "auto")
    with pytest.raises(litellm.InternalServerError):
        routed.completion(model="auto", messages=asked(HARD))

    async def fail():
        with pytest.raises(litellm.InternalServerError):
            await routed.acompletion(model="auto", messages=asked(HARD))
        await asyncio.sleep(0.5)  # its callbacks run in the background

    asyncio.run(fail())
    assert inside.calls == inside.rounds == 2
    assert not inside.open


def test_a_streamed_answer_has_its_decision():
    routed, inside = router(), learner()
    strategy = RoutingStrategy(inside)
    strategy.install(routed, "auto")
    stream = routed.completion(model="auto", messages=asked(HARD), stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == f"by {strategy.decision(stream).action}"


def test_a_retry_under_the_callers_id_decides_again():
    """The first decision is forgotten, and the id leads to the one whose model answered."""
    failing = {"mock_response": "litellm.InternalServerError"}
    inside = sparing.linucb(prompts_log(), alpha=0.3)
    first = inside.copy().decide({"prompt": HARD}).action
    routed = router(**{first: failing}, router={"allowed_fails": 0})
    strategy = RoutingStrategy(inside)
    strategy.install(routed, "auto")
    answer = routed.completion(model="auto", messages=asked(HARD), litellm_call_id="mine", num_retries=2)
    decision = strategy.decision("mine")
    assert decision == strategy.decision(answer)
    assert answer.choices[0].message.content == f"by {decision.action}"
    assert decision.action != first
    assert inside.rounds >= 2
    assert set(inside.open) == {decision.id}


def test_a_model_that_cools_down_is_not_eligible():
    routed, inside = router(), learner()
    strategy = RoutingStrategy(inside)
    strategy.install(routed, "auto")
    first = strategy.decision(routed.completion(model="auto", messages=asked(HARD)))
    ids = {one["litellm_params"]["model"]: one["model_info"]["id"] for one in routed.get_model_list("auto")}
    routed.cooldown_cache.add_deployment_to_cooldown(
        model_id=ids[first.action],
        original_exception=ValueError("down"),
        exception_status=500,
        cooldown_time=60,
    )
    for way in ("sync", "async"):
        if way == "sync":
            answer = routed.completion(model="auto", messages=asked(HARD))
        else:
            answer = asyncio.run(routed.acompletion(model="auto", messages=asked(HARD)))
        assert strategy.decision(answer).action != first.action


def test_other_groups_keep_their_strategy():
    routed = litellm.Router(
        model_list=[
            {
                "model_name": name,
                "litellm_params": {"model": model, "api_key": "none", "mock_response": model},
            }
            for name, model in (("auto", SMALL), ("auto", LARGE), ("other", "openai/gpt-3.5-turbo"))
        ]
    )
    strategy = RoutingStrategy(learner())
    strategy.install(routed, "auto")
    answer = routed.completion(model="other", messages=asked(HARD))
    assert strategy.decision(answer) is None
    with pytest.raises(DecisionError, match="waits for the reward"):
        strategy.reward(answer, 1.0)


def test_what_cannot_work_is_refused_at_the_door():
    with pytest.raises(SettingError, match="is no action"):
        RoutingStrategy(learner()).install(router("openai/gpt-3.5-turbo"), "auto")
    with pytest.raises(SettingError, match="no deployment"):
        RoutingStrategy(learner()).install(router(), "another")
    named = RoutingStrategy(learner(), dollars_per_reward=1.0, labels={"openai/mine": SMALL})
    with pytest.raises(SettingError, match="knows no price"):
        named.install(router("openai/mine"), "auto")
    with pytest.raises(SettingError, match="above 0"):
        RoutingStrategy(learner(), dollars_per_reward=0.0)
    with pytest.raises(SettingError, match="no entry"):
        RoutingStrategy(learner(), dollars_per_reward=1.0, output_tokens={SMALL: 1}).install(router(), "auto")


def test_contexts():
    parts = [
        {"type": "text", "text": "look at"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "this"},
    ]
    chat = [*asked("first"), {"role": "assistant", "content": "yes"}, {"role": "user", "content": parts}]
    assert last_prompt(chat) == {"prompt": "look at\nthis"}
    assert last_prompt([{"role": "system", "content": "be kind"}]) == {"prompt": ""}


def test_the_service_decides_and_its_absence_is_survived(tmp_path):
    settings = ServerSettings(tmp_path / "store", durability="process")
    said = {"call_cost": 1e-6, "horizon": 10_000}
    with running(made(settings, "prompts", prompts_log(), "economical", said)) as url:
        client = Client(url, "prompts", timeout=10.0)
        strategy, routed = RoutingStrategy(client, dollars_per_reward=1.0), router()
        strategy.install(routed, "auto")
        for number in range(4):
            answer = routed.completion(model="auto", messages=asked(f"{HARD} number {number}"))
            decision = strategy.decision(answer)
            assert answer.choices[0].message.content == f"by {decision.action}"
            assert decision.cost > 0
            strategy.reward(answer, 1.0)
        about = client.about()
        assert (about.decisions, about.open) == (4, 0)
    client.timeout, client.tries = 0.05, 1
    answer = routed.completion(model="auto", messages=asked(HARD))
    assert answer.choices[0].message.content in (f"by {SMALL}", f"by {LARGE}")
    assert strategy.decision(answer) is None
    client.fallback = LARGE
    answer = asyncio.run(routed.acompletion(model="auto", messages=asked(HARD)))
    assert answer.choices[0].message.content == f"by {LARGE}"
    assert strategy.decision(answer).is_fallback
    strategy.reward(answer, 1.0)  # which takes none
