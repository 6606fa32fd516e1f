"""Shadow calls in the service: nobody is served an experiment, and all that holds for calls holds for them."""

import httpx
import msgspec
import numpy as np
import pytest

import sparing
from service.building import (
    LOG,
    NAME,
    WORLD,
    Clock,
    asking,
    contexts,
    decide,
    ran,
    replayed,
    reward,
    same,
    trial,
)
from service.serving import faults, made, numbers_log, refused, running
from sparing.service import Client, dashboard, erasure, events, experiments, maintenance, state_files
from sparing.service.corrections import correct
from sparing.service.errors import ServiceError
from sparing.service.export import export
from sparing.service.messages import Options
from sparing.service.server import ServerSettings
from sparing.service.store import open_store
from sparing.service.transactions import Activate, ChangeSettings, ExpirePending

SHADOW = Options(asking="shadow")
ROUNDS = 300


def model_of(writer):
    return writer.registry.get(NAME).model


def changed(writer, **options):
    body = msgspec.to_builtins(msgspec.structs.replace(model_of(writer).options, **options))
    return writer.submit(ChangeSettings(NAME, events.OPTIONS, body, "test"))


def value_of(action, x):
    return float(x @ WORLD.theta[LOG.action_names.index(action)]) if action in LOG.action_names else 0.3


async def live(writer, seed, rounds, *, late=0, missing=0.0, **asked):
    """Rounds in which the rewards that are asked for come `late` rounds later, some never; every served decision is checked."""
    rng, waiting, answers = np.random.default_rng(seed), [], []
    for number, x in enumerate(contexts(seed, rounds)):
        model = model_of(writer)
        mean, _ = model.learner.sets.evaluate(x)
        costs = model.learner.action_costs
        mean = np.where(model.active, mean if costs is None else mean - costs, -np.inf)
        answer = await decide(writer, x, **asked)
        answers.append(answer)
        if model.options.asking == "shadow" and model.mode == "live" and answer.arm == "policy":
            assert mean[model.number(answer.action)] == mean.max(), "nobody is served an experiment"
            assert answer.needs_reward == (answer.reason == "check")
        wanted = [(answer.decision_id, answer.action)] if answer.needs_reward else []
        wanted += [(answer.also.decision_id, answer.also.action)] if answer.also else []
        for named, action in wanted:
            if rng.random() >= missing:
                waiting.append((number + late, named, value_of(action, x) + rng.normal(0, 0.5)))
        for due in [one for one in waiting if one[0] <= number]:
            waiting.remove(due)
            await reward(writer, *due[1:])
    return answers


async def sound(writer):
    (verdict,) = await maintenance.verify(writer.store)
    assert not verdict.faults, verdict.faults
    return verdict


async def eventful(writer, clock):
    """Everything that can happen to shadow calls."""
    model = model_of(writer)
    await live(writer, 1, 50, late=5, missing=0.3)
    clock.seconds += 45
    deferred = [await writer.submit(asking(x)._replace(active=False)) for x in contexts(2, 4)]
    await writer.submit(Activate(NAME, deferred[0].decision_id))
    clock.seconds += 45
    assert await writer.submit(ExpirePending(NAME)) > 0
    await changed(writer, default_reward=0.1, aggregate="sum")
    await live(writer, 3, 30, late=2, missing=0.3, eligible=list(model.labels[:4]))
    clock.seconds += 90
    await writer.submit(ExpirePending(NAME))
    await changed(writer, asking="serve", aggregate="first", allow_mismatch=True)
    served = await live(writer, 4, 20, late=1)
    assert all(answer.also is None for answer in served)
    await writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "shadow"}, "test"))
    await changed(writer, asking="shadow")
    assert all(one.arm == "shadow" and one.also is None for one in await live(writer, 5, 10))
    await writer.submit(ChangeSettings(NAME, events.MODE, {"mode": "live"}, "test"))
    await writer.submit(ChangeSettings(NAME, events.ACTION, {"label": 99, "features": None}, "test"))
    await writer.submit(ChangeSettings(NAME, events.RETIRE, {"label": model.labels[0]}, "test"))
    await live(writer, 6, 40, late=3, missing=0.2)
    also = next(one.also for one in await live(writer, 7, 30, missing=1.0) if one.also)
    played = next(name for name in model.labels[1:] if name != also.action)
    await reward(writer, also.decision_id, 0.3, played)


@pytest.mark.parametrize(
    ("learner", "more"),
    [
        ("economical", {}),
        ("confident", {}),
        ("certified", {"growing": True}),
        ("lints", {}),
        ("economical", {"shift": "auto", "half_life": 40}),
    ],
)
def test_a_replay_and_a_snapshot_give_the_state_bit_for_bit(tmp_path, learner, more):
    async def story():
        clock = Clock()
        options = Options(asking="shadow", reward_window=60.0, holdout=0.1, check=0.1)
        async with trial(tmp_path, learner, options, clock=clock, **more) as writer:
            await eventful(writer, clock)
            model = model_of(writer)
            assert model.open, "some calls are open"
            same(await replayed(writer), model)
            state_files.save(model, tmp_path / "middle.state")
            same(state_files.load(tmp_path / "middle.state", 1, writer.store.salt), model)
            verdict = await sound(writer)
            assert verdict.recomputed == verdict.decisions > 200
            kinds = await writer.store.driver.read(
                "select distinct o.kind from outcomes o join decisions d on d.seq = o.decision_seq where d.arm = 'also'"
            )
            assert {kind for (kind,) in kinds} >= {"reward", "expired", "default", "part"}
            closed = next(iter(await writer.store.record(1, "d.arm = 'also' and o.kind = 'reward'")))
            await correct(writer, NAME, events.id_text(closed.decision.decision_id), 0.9, who="test")
            await live(writer, 8, 10)
            await sound(writer)
            same(await replayed(writer), model_of(writer))

    ran(story())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("update decisions set worth = worth + 1e-9 where arm = 'also'", "worth"),
        ("update decisions set action = (action + 1) % 6 where arm = 'also'", "action"),
        ("update decisions set arm = 'policy', served_id = null where arm = 'also'", "has no shadow call"),
        ("update decisions set reason = 'not-worth-it' where reason = 'also'", "reason"),
    ],
)
def test_verify_finds_shadow_calls_that_were_changed(tmp_path, change, words):
    async def story():
        async with trial(tmp_path, "economical", SHADOW) as writer:
            answers = await live(writer, 1, 12)
            assert any(answer.also for answer in answers)
            await sound(writer)
            await writer.store.exclusive((change, [()]))
            (verdict,) = await maintenance.verify(writer.store)
            assert any(words in fault for fault in verdict.faults), verdict.faults

    ran(story())


@pytest.mark.parametrize(
    ("options", "most"),
    [
        (Options(asking="shadow", budget_calls=7, budget_period=100.0, holdout=0.2, check=0.5), 7),
        (Options(asking="shadow", most_open=3, check=0.5), 3),
        (Options(asking="shadow", budget_calls=0), 0),
    ],
)
@pytest.mark.parametrize("learner", ["warm_started", "lints", "economical"])
def test_a_budget_is_never_exceeded(tmp_path, learner, options, most):
    async def story():
        clock = Clock(0.0)
        async with trial(tmp_path, learner, options, clock=clock) as writer:
            for period in range(2):
                before, answers = model_of(writer).calls, []
                clock.seconds = 100.0 * period + 1.0
                for x in contexts(period, 40):
                    answer = await decide(writer, x)
                    answers.append(answer)
                    if answer.reason == "budget":
                        assert not answer.needs_reward
                        assert answer.also is None
                calls = sum(one.needs_reward + (one.also is not None) for one in answers)
                assert calls == model_of(writer).calls - before
                limit = most if options.budget_calls is not None or not period else 0
                assert calls <= limit
                if learner != "economical":
                    assert calls == limit
                    assert any(one.reason == "budget" for one in answers)
            await sound(writer)

    ran(story())


def test_a_pending_shadow_call_counts(tmp_path):
    """A hundred requests at once do not buy the same knowledge a hundred times."""

    async def calls(folder, late):
        async with trial(folder, "economical", SHADOW, call_cost=0.05) as writer:
            answers = await live(writer, 11, 300, late=late)
            reasons = [answer.reason for answer in answers]
            return sum(answer.also is not None for answer in answers), reasons.count("pending")

    (at_once, _), (delayed, pending) = ran(calls(tmp_path / "a", 0)), ran(calls(tmp_path / "b", 1000))
    assert at_once > 10
    assert pending > 10
    assert delayed <= 1.5 * at_once


def test_a_repeated_request_gets_its_shadow_call_again(tmp_path):
    async def story():
        async with trial(tmp_path, "warm_started", SHADOW) as writer:
            work = asking(contexts(1, 1)[0], request_id="visit-1")
            first, second = await writer.submit_all([work, work._replace(decision_id=events.new_id())])
            assert first == second
            assert first.also is not None
            writer._recent.clear()
            assert await writer.submit(work) == first
            assert (await reward(writer, first.also.decision_id, 0.5)).status == "taken"
            assert (await reward(writer, first.also.decision_id, 0.5)).status == "duplicate"
            assert await writer.submit(work) == first
            with pytest.raises(ServiceError, match="first one counts"):
                await reward(writer, first.also.decision_id, 0.6)
            assert (await reward(writer, first, 0.9)).status == "unasked"
            assert model_of(writer).rounds == model_of(writer).calls == 1
            await sound(writer)

    ran(story())


def test_a_check_of_the_called_action_is_its_call(tmp_path):
    """A served decision whose reward is requested needs no shadow call of the same action."""

    async def story():
        async with trial(tmp_path, "warm_started", Options(asking="shadow", check=1.0)) as writer:
            answers = await live(writer, 1, 60)
            assert {answer.reason for answer in answers} == {"check"}
            alone = [answer for answer in answers if answer.also is None]
            assert alone
            assert all(answer.also.action != answer.action for answer in answers if answer.also)
            await sound(writer)

    ran(story())


@pytest.mark.parametrize("by", ["served", "call", "subject"])
def test_erasure_takes_both_contexts(tmp_path, by):
    secret = np.array([0.123456789, 0.987654321, 0.555555555])

    async def story():
        async with trial(tmp_path / "store", "warm_started", SHADOW) as writer:
            await live(writer, 1, 5)
            work = asking(secret)._replace(subject=b"s" * 16)
            answer = await writer.submit(work)
            await live(writer, 2, 5, missing=1.0)
            names = {"served": answer.decision_id, "call": answer.also.decision_id}
            target = {"subject": b"s" * 16} if by == "subject" else {"decision_id": names[by]}
            assert (await erasure.erase(writer, NAME, **target, who="test")).erased == 2
            for path in (tmp_path / "store").rglob("*"):
                assert not path.is_file() or secret.tobytes() not in path.read_bytes(), path
            with pytest.raises(ServiceError, match="void"):
                await reward(writer, answer.also.decision_id, 1.0)
            waiting = await dashboard.queue(writer.store, writer.registry.get(NAME), 0, 100)
            assert len(waiting.asks) == 5
            await live(writer, 3, 5)
            await sound(writer)
            same(await replayed(writer), model_of(writer))

    ran(story())


def test_retention_takes_both_contexts(tmp_path):
    async def story():
        clock = Clock()
        async with trial(
            tmp_path, "warm_started", Options(asking="shadow", retention=60.0), clock=clock
        ) as writer:
            await live(writer, 1, 3)
            clock.seconds += 61
            assert (await erasure.expire_contexts(writer, writer.registry.get(NAME), clock())).erased == 6
            await live(writer, 2, 3)
            await sound(writer)

    ran(story())


def test_exports_have_what_was_served_and_all_without_propensities(tmp_path):
    async def story():
        async with trial(tmp_path / "store", "economical", Options(asking="shadow", check=0.3)) as writer:
            return await live(writer, 1, 60)

    answers = ran(story())
    checks = sum(answer.needs_reward for answer in answers)
    calls = sum(answer.also is not None for answer in answers)
    assert min(checks, calls) > 5
    done = export(tmp_path / "store", NAME, "parquet", tmp_path / "served.parquet")
    log = sparing.read_log(done.path)
    assert log.n_rows == checks
    assert log.propensities is not None
    assert any(f"{calls} rewards are of shadow calls" in note for note in done.notes)
    everything = export(tmp_path / "store", NAME, "csv", tmp_path / "all.csv", rows="all")
    log = sparing.read_log(everything.path)
    assert log.n_rows == checks + calls
    assert log.propensities is None
    rows = (tmp_path / "all.csv").read_text().splitlines()
    assert {"arm", "served_id", "play_probability"} <= {name.strip(chr(34)) for name in rows[0].split(",")}
    assert sum(row.replace(chr(34), "").count(",also,") for row in rows) == calls
    with pytest.raises(sparing.errors.LogError, match="must be one of served, all"):
        export(tmp_path / "store", NAME, "csv", tmp_path / "no.csv", rows="some")


def test_an_export_without_served_rewards_says_where_the_rewards_are(tmp_path):
    """With shadow calls alone, as in the guide, the first export is empty."""

    async def story():
        async with trial(tmp_path / "store", "economical", Options(asking="shadow")) as writer:
            return await live(writer, 1, 20)

    calls = sum(answer.also is not None for answer in ran(story()))
    assert calls > 5
    with pytest.raises(sparing.errors.LogError, match=rf"{calls} rewards are of shadow calls.*rows=all"):
        export(tmp_path / "store", NAME, "parquet", tmp_path / "served.parquet")


def test_the_comparison_counts_what_was_served(tmp_path):
    """The policy's mean is that of checks: whatever shadow calls earn changes nothing, and neither do their counts."""

    async def story(folder, value):
        clock = Clock(10 * 3600.0)
        options = Options(asking="shadow", check=0.4, holdout=0.3)
        async with trial(folder, "warm_started", options, clock=clock) as writer:
            answers, rewards = [], []
            for x in contexts(1, ROUNDS):
                answer = await decide(writer, x)
                answers.append(answer)
                if answer.needs_reward:
                    rewards.append((answer.arm, value_of(answer.action, x) + 0.1 * len(rewards) % 3))
                    await reward(writer, answer, rewards[-1][1])
            for answer in answers:
                if answer.also:
                    await reward(writer, answer.also.decision_id, value)
            page = await dashboard.overview(writer, writer.registry.get(NAME), now=clock(), started=0)
            return answers, rewards, page

    answers, rewards, page = ran(story(tmp_path / "a", 0.0))
    checked = [value for arm, value in rewards if arm == "policy"]
    assert page.headline.policy.value == pytest.approx(np.mean(checked))
    assert page.headline.policy.rewards == len(checked)
    calls = sum(answer.also is not None for answer in answers)
    assert (page.decisions, page.asked) == (ROUNDS, len(rewards) + calls)
    assert page.asking == "shadow"
    assert sum(sum(hour.decisions.values()) for hour in page.hours) == ROUNDS
    assert sum(one.decisions for one in page.actions) == ROUNDS
    assert any(one.arm == "also" for one in page.recent)
    assert sum(one.rewarded for one in page.reasons if one.arm == "also") == calls
    _, _, other = ran(story(tmp_path / "b", 5.0))
    assert other.headline == page.headline


def test_costs_are_known_of_what_is_called_too(tmp_path):
    costs = {str(name): 0.1 * place for place, name in enumerate(LOG.action_names)}

    async def story():
        async with trial(tmp_path, "economical", SHADOW, costs=costs) as writer:
            answers = await live(writer, 1, 25)
            for x in contexts(2, 15):
                answers.append(await decide(writer, x, costs={"1": 0.9}))
            found = await writer.store.record(1, "d.arm = 'also'")
            assert len(found) == sum(answer.also is not None for answer in answers)
            for one, _ in found[:10]:
                assert one.cost == costs[str(LOG.action_names[one.action])]
            await sound(writer)

    ran(story())


def test_import_learns_shadow_rewards_again_and_keeps_open_calls(tmp_path):
    async def story():
        async with trial(tmp_path, "economical", SHADOW) as writer:
            answers = await live(writer, 1, 20)
            rewarded = sum(answer.also is not None for answer in answers)
            left = [one.also for one in await live(writer, 2, 20, missing=1.0) if one.also]
            done = await experiments.import_log(writer, NAME, lambda actions: LOG, None, "test")
            assert done.live_rewards == rewarded
            assert len(model_of(writer).open) == len(left)
            await reward(writer, left[0].decision_id, 0.4)
            await live(writer, 3, 10)
            await sound(writer)

    ran(story())


def test_in_postgresql(on_postgres):
    async def story():
        clock = Clock()
        kept = open_store(on_postgres.folder, on_postgres.address, durability="process")
        options = Options(asking="shadow", reward_window=60.0, check=0.1)
        async with trial(on_postgres.folder, "economical", options, clock=clock, store=kept) as writer:
            await eventful(writer, clock)
            also = next(one.also for one in await live(writer, 9, 30, missing=1.0) if one.also)
            assert (await erasure.erase(writer, NAME, decision_id=also.decision_id, who="test")).erased == 2
            assert (await dashboard.queue(writer.store, writer.registry.get(NAME), 0, 1000)).asks
            same(await replayed(writer), model_of(writer))
            await sound(writer)

    ran(story())


def test_over_http(tmp_path):
    log = numbers_log()
    settings = made(ServerSettings(tmp_path / "store"), log=log, learner="warm_started", asking="shadow")
    with running(settings) as url, httpx.Client(base_url=url) as http, Client(url, "shop") as client:
        assert client.about().options.asking == "shadow"
        context = log.contexts[0].tolist()
        first = client.decide(context, request_id="once")
        assert first.reason == "also"
        assert not first.needs_reward
        assert client.decide(context, request_id="once") == first
        raw = http.post("/v1/shop/decide", json={"context": context}).json()
        assert {"decision_id", "action", "worth"} <= set(raw["also"])
        several = client.decide_many([context] * 3)
        page = http.get("/v1/shop/queue?limit=2").json()
        waiting = [*client.queue()]
        assert [one["decision_id"] for one in page["asks"]] == [one.decision_id for one in waiting[:2]]
        rest = http.get(f"/v1/shop/queue?limit=10&after={page['next']}").json()
        assert (len(rest["asks"]), rest["next"]) == (3, None)
        assert waiting[0].decision_id == first.also.decision_id
        assert waiting[0].served_id == first.decision_id
        assert waiting[0].context == context
        rewards = [{"decision_id": one.decision_id, "value": 0.5} for one in waiting[1:]]
        answered = http.post("/v1/shop/rewards/batch", json={"rewards": rewards}).json()
        assert [one["status"] for one in answered["items"]] == [200] * 4
        assert client.reward(first.also, 0.25).status == "taken"
        assert [*client.queue()] == []
        record = http.get(f"/v1/shop/decisions/{first.also.decision_id}").json()
        assert (record["arm"], record["served_id"], record["reward"]) == ("also", first.decision_id, 0.25)
        explained = http.get(f"/v1/shop/decisions/{first.also.decision_id}?explain=true").json()
        assert explained["explanation"]["action"] == first.also.action
        assert client.correct(first.also, 0.5).status == "corrected"
        assert client.about().decisions == 2 + len(several)
        told = http.patch("/v1/shop", json={"explore": 0.1})
        assert "nobody is served an experiment" in refused(told, 422, "invalid")
        assert http.patch("/v1/shop", json={"asking": "serve"}).json()["asking"] == "serve"
        assert client.decide(context).also is None
        assert 'arm="also"' in http.get("/metrics").text
        assert http.get("/v1/shop/export?rows=all&format=csv").status_code == 200
        refused(http.get("/v1/shop/export?rows=some"), 422, "invalid", "rows")
        refused(http.patch("/v1/shop", json={"asking": "ask"}), 422, "invalid", "asking")
    assert not faults(settings)


def test_a_page_of_the_queue_is_bounded_by_bytes(tmp_path, monkeypatch):
    """Contexts of a page are at most `QUEUE_BYTES` and those of one read; the pages together are all that is waited for, in order."""
    size = len(events.pack_context(contexts(1, 1)[0]))
    monkeypatch.setattr(dashboard, "QUEUE_BYTES", 3 * size)
    monkeypatch.setattr(dashboard, "QUEUE_READ", 2)

    async def story():
        async with trial(tmp_path, "confident", Options(check=1.0)) as writer:
            answers = [await decide(writer, x) for x in contexts(1, 12)]
            await reward(writer, answers[5], 0.5)
            expected = [one.decision_id for one in answers if one is not answers[5]]
            experiment, after, pages = writer.registry.get(NAME), 0, []
            while after is not None:
                page = await dashboard.queue(writer.store, experiment, after, 1000)
                pages.append([one.decision_id for one in page.asks])
                after = page.next
            assert [one for page in pages for one in page] == expected
            assert max(map(len, pages)) == 4
            first = await dashboard.queue(writer.store, experiment, 0, 3)
            assert [one.decision_id for one in first.asks] == expected[:3]
            assert first.next == first.asks[-1].seq

    ran(story())


def test_a_store_of_before_serves_its_experiments(tmp_path):
    """The options of an older store have no `asking`."""
    old = msgspec.to_builtins(Options())
    del old["asking"]
    assert msgspec.convert(old, Options).asking == "serve"


def test_ids_of_shadow_calls_are_ids_and_cannot_be_guessed():
    served = [events.new_id() for _ in range(2000)]
    found = {events.shadow_id(b"k" * 32, one) for one in served}
    assert len(found) == 2000
    assert all(events.may_be_decision(events.id_text(one)) for one in found)
    assert found.isdisjoint({events.shadow_id(b"l" * 32, one) for one in served})
