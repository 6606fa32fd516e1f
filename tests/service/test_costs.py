"""Known costs in the service: a price changes the next decision, is an event, and whatever is stored follows from it."""

import asyncio
from types import SimpleNamespace

import httpx
import msgspec
import pytest

from service.building import LOG, NAME, Clock, contexts, decide, live, ran, replayed, reward, same, trial
from service.serving import faults, made, numbers_log, refused, running
from sparing.service import Client, erasure, events, maintenance, state_files
from sparing.service.corrections import correct
from sparing.service.errors import ServiceError
from sparing.service.http.auth import LOCAL
from sparing.service.http.endpoint import Call
from sparing.service.http.experiments import actions as add_or_retire
from sparing.service.http.experiments import configure
from sparing.service.messages import ActionRequest, Options, OptionsPatch
from sparing.service.server import ServerSettings
from sparing.service.store import open_store
from sparing.service.transactions import ChangeSettings

COSTS = {str(name): 0.1 * place for place, name in enumerate(LOG.action_names)}


def patched(options, **changed):
    body = msgspec.to_builtins(msgspec.structs.replace(options, **changed))
    return ChangeSettings(NAME, events.OPTIONS, body, "test")


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
def test_prices_and_costs_of_requests_are_replayed(tmp_path, learner, more):
    async def story():
        options = Options(reward_window=60.0, holdout=0.1, check=0.1, explore=0.05)
        async with trial(tmp_path, learner, options, clock=Clock(), costs=COSTS, **more) as writer:
            model = writer.registry.get(NAME).model
            assert model.options.costs == COSTS == {str(k): v for k, v in model.learner.costs.items()}
            await live(writer, 1, 40, late=3)
            for number, x in enumerate(contexts(2, 30)):
                costs = {name: 0.05 * ((number + place) % 5) for place, name in enumerate(COSTS)}
                answer = await decide(writer, x, costs=dict(list(costs.items())[: 1 + number % 6]))
                expected = costs[str(answer.action)]
                known = list(COSTS).index(str(answer.action)) < 1 + number % 6
                assert answer.cost == (expected if known else COSTS[str(answer.action)])
                if answer.needs_reward and number % 2:
                    await reward(writer, answer, 0.4)
            await writer.submit(patched(model.options, costs={**COSTS, "0": 0.7}))
            await live(writer, 3, 30, late=2)
            added = {"label": 99, "features": None, "cost": 0.3}
            await writer.submit(ChangeSettings(NAME, events.ACTION, added, "test"))
            assert model.options.costs["99"] == 0.3
            await live(writer, 4, 20)
            same(await replayed(writer), model)
            state_files.save(model, tmp_path / "middle.state")
            same(state_files.load(tmp_path / "middle.state", 1, writer.store.salt), model)
            await writer.submit(patched(model.options, costs=None))
            assert (await decide(writer, contexts(5, 1)[0])).cost is None
            same(await replayed(writer), model)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults
            assert verdict.recomputed == verdict.decisions

    ran(story())


def test_a_price_changes_the_next_decision_without_a_reward(tmp_path):
    async def story():
        async with trial(tmp_path, "confident", costs=dict.fromkeys(COSTS, 0.0)) as writer:
            model, x = writer.registry.get(NAME).model, contexts(1, 1)[0]
            before = model.learner.digest()
            best = (await decide(writer, x)).action
            await writer.submit(patched(model.options, costs={**dict.fromkeys(COSTS, 0.0), str(best): 50.0}))
            after = await decide(writer, x)
            assert after.action != best
            assert model.learner.digest() == before
            assert (await decide(writer, x, costs={str(best): 0.0})).action == best
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())


def test_totals_are_net_and_erasure_takes_the_costs_of_requests(tmp_path):
    async def story():
        async with trial(tmp_path, "moful", costs=COSTS) as writer:
            expected, answers = 0.0, []
            for x in contexts(1, 12):
                answer = await decide(writer, x, costs={"0": 0.9})
                assert answer.value == pytest.approx(
                    writer.registry.get(NAME).model.learner.value(LOG.action_names.index(answer.action), x)[
                        0
                    ],
                    abs=2.0,
                )
                await reward(writer, answer, 0.5)
                expected += 0.5 - answer.cost
                answers.append(answer)
            totals = await writer.store.totals(1)
            assert sum(one.reward_sum for one in totals) == pytest.approx(expected)
            await correct(writer, NAME, answers[0].decision_id, 0.8, who="test")
            totals = await writer.store.totals(1)
            assert sum(one.reward_sum for one in totals) == pytest.approx(expected + 0.3)
            await erasure.erase(writer, NAME, decision_id=answers[0].decision_id, who="test")
            found = await writer.store.driver.read("select seq from decisions where costs is null")
            assert len(found) == 1
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())


def test_refused_costs_change_nothing(tmp_path):
    async def story():
        async with trial(tmp_path, "confident") as writer:
            model, x = writer.registry.get(NAME).model, contexts(1, 1)[0]
            for costs, said in [({"0": 0.1}, "leaves out"), ({"nobody": 0.1}, "unknown")]:
                with pytest.raises(ServiceError, match=said):
                    await decide(writer, x, costs=costs)
            assert model.rounds == 0

    ran(story())


def test_changes_at_the_same_time_do_not_undo_each_other(tmp_path):
    async def story():
        async with trial(tmp_path, "confident", costs=COSTS) as writer:
            service, model = (
                SimpleNamespace(writer=writer, registry=writer.registry),
                writer.registry.get(NAME).model,
            )

            def call(handler, body):
                return handler(service, Call({"experiment": NAME}, {}, LOCAL, {}, {}), body)

            answers = await asyncio.gather(
                call(configure, OptionsPatch(check=0.25)),
                call(configure, OptionsPatch(costs={"0": 0.7})),
                call(add_or_retire, ActionRequest(add=99, cost=0.3)),
                call(configure, OptionsPatch(costs={"1": 0.8}, holdout=0.125)),
            )
            assert answers[-1] == model.options
            assert (model.options.check, model.options.holdout) == (0.25, 0.125)
            assert model.options.costs == {**COSTS, "0": 0.7, "1": 0.8, "99": 0.3}
            assert model.options.costs == {str(name): cost for name, cost in model.learner.costs.items()}
            same(await replayed(writer), model)

    ran(story())


def test_costs_over_http(tmp_path):
    log = numbers_log()
    names = [str(name) for name in log.action_names]
    settings = made(ServerSettings(tmp_path / "store"), log=log, said={"costs": dict.fromkeys(names, 0.0)})
    with running(settings) as url, httpx.Client(base_url=url) as http:
        context = log.contexts[0].tolist()
        with Client(url, "shop") as client:
            first = client.decide(context)
            dear = {str(first.action): 100.0}
            changed = http.patch("/v1/shop", json={"costs": dear})
            assert changed.json()["costs"] == {**dict.fromkeys(names, 0.0), **dear}
            second = client.decide(context)
            assert second.action != first.action
            assert second.cost == 0.0
            third = client.decide(context, costs={str(first.action): -100.0}, request_id="once")
            assert (third.action, third.cost) == (first.action, -100.0)
            assert client.decide(context, costs={str(first.action): -100.0}, request_id="once") == third
            refused(
                http.post("/v1/shop/decide", json={"context": context, "request_id": "once"}),
                409,
                "request_conflict",
                "request_id",
            )
            assert http.get("/v1/shop/decisions/once").json()["cost"] == -100.0
            told = http.post("/v1/shop/decide", json={"context": context, "costs": {"nobody": 1.0}})
            refused(told, 422, "costs", "costs")
            refused(http.patch("/v1/shop", json={"costs": {"nobody": 1.0}}), 422, "invalid", None)
    assert not faults(settings)


def test_costs_in_postgresql(on_postgres):
    async def story():
        kept = open_store(on_postgres.folder, on_postgres.address, durability="process")
        async with trial(on_postgres.folder, "economical", costs=COSTS, store=kept) as writer:
            await live(writer, 1, 15)
            for x in contexts(2, 10):
                answer = await decide(writer, x, costs={"1": 0.4})
                assert answer.cost == (0.4 if answer.action == 1 else COSTS[str(answer.action)])
            await writer.submit(patched(writer.registry.get(NAME).model.options, costs={**COSTS, "1": 0.0}))
            await live(writer, 3, 10)
            same(await replayed(writer), writer.registry.get(NAME).model)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())
