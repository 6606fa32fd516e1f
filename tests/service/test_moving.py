"""Shift and forgetting in the service: by decisions or by time, changed on the way, replayed bit for bit in both stores."""

import httpx
import msgspec
import numpy as np
import pytest

import sparing
from service.building import LOG, NAME, Clock, contexts, decide, live, ran, replayed, reward, same, trial
from service.serving import made, running
from service.test_importing import OTHER, given
from service.test_postgres import settled, two_workers
from service.workers import decide as asked
from service.workers import reward as rewarded
from service.workers import small_log
from sparing.errors import SettingError
from sparing.service import Client, dashboard, events, maintenance, state_files
from sparing.service.corrections import correct
from sparing.service.experiment import half_life_clock
from sparing.service.experiments import import_log
from sparing.service.messages import Options
from sparing.service.server import ServerSettings, parse_rules
from sparing.service.transactions import ChangeSettings


def patched(options, **changed):
    body = msgspec.to_builtins(msgspec.structs.replace(options, **changed))
    return ChangeSettings(NAME, events.OPTIONS, body, "test")


def kept(model):
    """Weights of the rows of the log, of every action."""
    a = model.learner.sets.arrays
    return a.kept[a.observed_slot[: LOG.n_actions]]


@pytest.mark.parametrize("learner", ["economical", "confident"])
def test_shift_and_forgetting_are_replayed(tmp_path, learner):
    async def story():
        clock = Clock()
        options = Options(reward_window=90_000.0, holdout=0.1, check=0.1)
        started = {"shift": "auto", "half_life": 60}
        async with trial(tmp_path, learner, options, clock=clock, **started) as writer:
            model = writer.registry.get(NAME).model
            assert model.options.half_life == 60
            answers = await live(writer, 1, 52, late=3)
            assert model.learner.next_tick > 52
            logged, before = LOG.counts > 0, kept(model)
            assert 0 < before[logged].min() < before[logged].max() < 1  # actions take turns
            await writer.submit(patched(model.options, half_life="2h"))
            await live(writer, 2, 30, late=2)
            assert (kept(model)[logged] == before[logged]).all()  # no time has passed
            state_files.save(model, tmp_path / "middle.state")
            same(state_files.load(tmp_path / "middle.state", 1, writer.store.salt), model)
            for seed in (3, 4):
                clock.seconds += 3600.0
                await live(writer, seed, 20, late=2)
            assert kept(model)[logged] / before[logged] == pytest.approx(0.5, abs=0.02)
            await writer.submit(ChangeSettings(NAME, events.ACTION, {"label": 99, "features": None}, "test"))
            clock.seconds += 1800.0
            await live(writer, 5, 20, late=4)
            same(await replayed(writer), model)
            first = next(one for one in answers if one.needs_reward)
            await correct(writer, NAME, first.decision_id, 0.8, who="test")
            await live(writer, 6, 20)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults
            assert verdict.recomputed == verdict.decisions
            page = await dashboard.overview(writer, writer.registry.get(NAME), now=clock())
            assert page.shift.estimated
            assert any("shift from the log" in one.text or "differ from" in one.text for one in page.look)

    ran(story())


def test_a_new_log_begins_anew(tmp_path):
    """Live rewards that are learnt again have not faded, and fade from the import on."""

    async def story():
        async with trial(tmp_path, "confident", shift="auto", half_life=100) as writer:
            await live(writer, 1, 60)
            await import_log(writer, NAME, given(OTHER), None, "admin")
            model = writer.registry.get(NAME).model
            assert (kept(model) == 1).all()
            await live(writer, 2, 50)
            assert model.rounds == 110
            assert kept(model)[OTHER.counts > 0] == pytest.approx(0.5**0.5, abs=0.03)
            same(await replayed(writer), model)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())


def test_a_shift_is_found_in_the_service(tmp_path):
    async def story():
        async with trial(tmp_path, "economical", shift="auto") as writer:
            model = writer.registry.get(NAME).model
            for x in contexts(7, 150):
                answer = await decide(writer, x)
                if answer.needs_reward:
                    await reward(writer, answer, -3.0 - 2.0 * LOG.action_names.index(answer.action) % 3)
            assert model.learner.shift.size > 0
            page = await dashboard.overview(writer, writer.registry.get(NAME), now=events.now())
            assert page.shift.size == model.learner.shift.size
            assert any("differ from the log" in one.text for one in page.look)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(story())


def metric(base, name, **labels):
    """A gauge of the experiment in /metrics."""
    listed = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
    lines = httpx.get(f"{base}/metrics").text.splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}{{{listed}}}")]
    return float(line.rpartition(" ")[2])


def test_metrics_tell_of_a_shift_and_of_changes(tmp_path):
    rng, known = np.random.default_rng(0), LOG.action_names[int(LOG.counts.argmax())]
    settings = made(ServerSettings(tmp_path), said={"shift": "auto"}, check=1.0)
    with running(settings) as base, Client(base, "shop") as client:
        told = []
        for number in range(260):
            answer = client.decide(list(rng.random(3)), eligible=[known])
            assert answer.needs_reward
            client.reward(answer, float(rng.normal(-9.0 if number < 130 else 3.0, 0.5)))
            if number in (0, 129, 259):
                told.append(
                    [metric(base, "sparing_shift", experiment="shop")]
                    + [
                        metric(base, "sparing_changes", about=about, experiment="shop")
                        for about in ("rewards", "contexts")
                    ]
                )
        assert told[0] == [0, 0, 0]
        assert told[1][0] > 0
        assert told[1][1:] == [0, 0]
        assert told[2][1] > 0
        assert told[2][2] == 0


def test_two_workers_fade_and_review_alike(on_postgres):
    learner = sparing.economical(small_log(), call_cost=0.001, horizon=500, shift="auto", half_life=40)

    async def story():
        async with two_workers(on_postgres, learner=learner, half_life=40) as (one, two):
            for number in range(60):
                answer = await (one, two)[number % 2].submit(asked(number))
                if answer.needs_reward:
                    await (two, one)[number % 2].submit(rewarded(answer, 0.5))
            await settled(on_postgres, one, two)
            (verdict,) = await maintenance.verify(one.store)
            assert not verdict.faults

    ran(story())


def test_half_lives_of_options(tmp_path):
    assert half_life_clock(None) == (0, False)
    assert half_life_clock(500) == (500, False)
    assert half_life_clock("1.5d") == (round(1.5 * 86400e6), True)
    with pytest.raises(SettingError, match="expected a text such as 7d or 12h, in s, m, h, d or w"):
        parse_rules({"half_life": "7x"})
    for wrong in ("7 days", "d", "-1d", "7d\n", "9" * 400 + "d", "0." + "1" * 400 + "d", 5, 0, 2**63, 10**30):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"half_life": wrong}, Options)

    async def story():
        for name, half_life in (("certified", 100), ("confident", "1s")):
            with pytest.raises(SettingError, match="half_life"):
                async with trial(tmp_path / name, name, Options(half_life=half_life)):
                    pass

    ran(story())
