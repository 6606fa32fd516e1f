"""The page's message, from a store with a known history."""

import asyncio
import itertools
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

import sparing
from sparing.service import dashboard, events, health, store
from sparing.service.dashboard import about, overview
from sparing.service.experiments import create
from sparing.service.messages import DecideRequest, Options, Overview, SampleRatio
from sparing.service.registry import ExperimentRegistry
from sparing.service.transactions import ChangeSettings, Decide, ExpirePending, Reward
from sparing.service.writer import Writer
from sparing.simulation.logging_policies import draw_log
from sparing.simulation.worlds import LinearWorld

START = 1_700_000_000 * events.SECOND // events.HOUR * events.HOUR
FULL = Options(holdout=0.2, check=0.3, reward_window=3600.0)
WORLD = LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0)


def log_of(rows=300, **settings):
    return draw_log(WORLD, rows=rows, support="never-logged", unsupported=0.2, seed=1, **settings)


@asynccontextmanager
async def serving(folder, options=FULL, *, log=None, learner=None):
    """An experiment on a store, with a clock that only the test moves."""
    log = log_of() if log is None else log
    disk = store.open_store(folder / "store", durability="process")
    await disk.open(create=True)
    disk.salt = bytes(range(32))
    await disk.exclusive(("update store set salt = $1", [(disk.salt,)]))
    here = SimpleNamespace(now=START, rng=np.random.default_rng(0))
    here.writer = Writer(disk, ExperimentRegistry(disk), clock=lambda: here.now)
    here.writer.start()
    made = sparing.confident(log, spot_check=0.0) if learner is None else learner
    here.experiment = await create(here.writer, "shop", log, made, options, {"learner": "confident"}, who="t")
    try:
        yield here
    finally:
        await here.writer.stop()
        await disk.close()


async def decide(here, number=40, *, rewarded=True, subjects=None):
    """Some decisions in random contexts, and the rewards of those that are asked for."""
    works = [
        Decide(
            "shop",
            DecideRequest(context=x.tolist()),
            here.rng.bytes(16),
            subject=None if subjects is None else subjects[i],
        )
        for i, x in enumerate(here.rng.random((number, 3)))
    ]
    answers = await here.writer.submit_all(works)
    if rewarded:
        rewards = [
            Reward("shop", a.decision_id, float(here.rng.normal(a.value, 0.5)))
            for a in answers
            if a.needs_reward
        ]
        await here.writer.submit_all(rewards)
    return answers


async def alter(here, **changed):
    options = msgspec.structs.replace(here.experiment.model.options, **changed)
    await here.writer.submit(ChangeSettings("shop", events.OPTIONS, msgspec.to_builtins(options), "t"))


def page(here, **more):
    return overview(here.writer, here.experiment, now=here.now, **more)


def texts(found, level=None):
    return [one.text for one in found.look if level in (None, one.level)]


def test_the_numbers_are_those_of_the_decisions(tmp_path):
    async def run():
        async with serving(tmp_path) as here:
            answers = []
            for _ in range(5):
                answers += await decide(here)
                here.now += 2 * events.HOUR
            return here, answers, await page(here, worker="one", started=START)

    here, answers, found = asyncio.run(run())
    asked = [a for a in answers if a.needs_reward]
    assert (found.decisions, found.asked, found.rewarded) == (200, len(asked), len(asked))
    assert found.skipped == 200 - len(asked)
    assert found.saved == pytest.approx(found.skipped / 200)
    for one in found.reasons:
        mine = [a for a in answers if (a.reason, a.arm, a.needs_reward) == (one.reason, one.arm, one.asked)]
        assert one.decisions == len(mine)
    assert sum(one.decisions for one in found.reasons) == 200
    assert (found.name, found.mode, found.learner, found.log_rows) == ("shop", "live", "confident", 300)
    assert found.step == 3600
    assert [sum(one.decisions.values()) for one in found.hours] == [40, 0] * 5 + [0]
    assert len(found.so_far) == len(found.hours) == 11
    assert found.so_far[-1].policy == found.headline.policy
    assert found.headline.why is None
    assert found.headline.checks == sum(a.reason == "check" for a in answers)
    mine = [a for a in answers if a.arm == "holdout"]
    assert found.headline.holdout.rewards == len(mine)
    assert found.headline.sample_ratio.seen == pytest.approx(len(mine) / 200)
    health = found.health
    assert (health.status, health.store, health.started) == ("healthy", "SQLite", events.time_text(START))
    assert health.version == sparing.__version__
    assert health.model_seq == here.experiment.model.seq == 1 + 200 + len(asked)
    assert [(one.worker, one.seq, one.digest) for one in health.workers] == [
        ("one", health.model_seq, health.digest)
    ]
    assert len(health.digest) == 16
    assert health.decide_ms[0] <= health.decide_ms[1]
    assert health.store_bytes > 0
    assert msgspec.json.decode(msgspec.json.encode(found), type=Overview) == found


def test_recent_decisions_have_their_outcomes_newest_first(tmp_path):
    async def run():
        async with serving(tmp_path) as here:
            await decide(here, 30, rewarded=False)
            here.now += events.HOUR + events.SECOND
            await here.writer.submit(ExpirePending("shop"))
            late = await decide(here, 5)
            return late, await page(here)

    late, found = asyncio.run(run())
    assert len(found.recent) == 12
    assert [one.action for one in found.recent[:5]] == [a.action for a in late[::-1]]
    for one, answer in zip(found.recent[:5], late[::-1], strict=True):
        assert (one.reason, one.arm, one.needs_reward) == (answer.reason, answer.arm, answer.needs_reward)
        assert (one.outcome == "reward") == (one.reward is not None) == answer.needs_reward
    expired = [one for one in found.recent[5:] if one.needs_reward]
    assert {one.outcome for one in expired} == {"expired"}
    assert found.expired == found.asked - found.rewarded
    assert any(
        "expired without a reward: set a longer reward_window" in text for text in texts(found, "alarm")
    )


def test_actions_tell_what_the_log_taught_and_what_came_since(tmp_path):
    rows = np.array([0, 1, 2, 4, 5] * 60 + [3] * 5)
    rng = np.random.default_rng(0)
    log = sparing.Log.from_arrays(
        rng.random((305, 3)),
        [f"a{a}" for a in rows],
        rng.random(305),
        action_names=[f"a{i}" for i in range(7)],
    )

    async def run():
        async with serving(tmp_path, log=log) as here:
            await decide(here, 60)
            await here.writer.submit(ChangeSettings("shop", events.RETIRE, {"label": "a4"}, "t"))
            return here.experiment.model, await page(here)

    model, found = asyncio.run(run())
    by_label = {one.label: one for one in found.actions}
    assert [(one.decisions, one.logged) for one in found.actions] == sorted(
        ((one.decisions, one.logged) for one in found.actions), reverse=True
    )
    assert {label: one.learnt for label, one in by_label.items()} == {
        **dict.fromkeys(("a0", "a1", "a2", "a4", "a5"), "yes"),
        "a3": "partly",
        "a6": "never tried",
    }
    assert [label for label, one in by_label.items() if one.retired] == ["a4"]
    assert sum(one.share for one in found.actions) == pytest.approx(1)
    assert sum(one.live for one in found.actions) == found.rewarded
    center = log.contexts.mean(axis=0)
    for label, one in by_label.items():
        expected = model.learner.value(model.numbers[label], center.copy())
        assert (one.value, one.low, one.high) == pytest.approx(expected, rel=1e-12)
        assert one.logged == int((log.actions == model.numbers[label]).sum())
        assert one.decisions == model.played[model.numbers[label]]


def test_spend_is_what_calls_cost_and_the_budget_runs_out_when_it_says(tmp_path):
    async def run():
        options = Options(
            holdout=0.2, check=0.3, price=0.5, unit="€", budget_calls=100, budget_period=40 * 86400.0
        )
        async with serving(tmp_path, options) as here:
            period = 40 * 24 * events.HOUR
            here.now = (here.now // period + 1) * period + 5 * events.HOUR
            first = here.now
            while here.experiment.model.calls < 20:
                await decide(here, 1)
            here.now += 10 * events.HOUR
            soon = await page(here)
            while here.experiment.model.calls < 100:
                await decide(here, 10)
            await decide(here, 10)
            used = await page(here)
            here.now += 30 * events.HOUR
            return first, period, soon, used, await page(here)

    first, period, soon, used, later = asyncio.run(run())
    spend = soon.spend
    assert (spend.calls, spend.price, spend.unit, spend.spent) == (20, 0.5, "€", 10.0)
    assert spend.not_spent == pytest.approx(0.5 * (soon.decisions - 20))
    assert (spend.period_calls, spend.budget_calls) == (20, 100)
    assert spend.period_ends == events.time_text((first // period + 1) * period)
    assert spend.runs_out == events.time_text(first + 50 * events.HOUR)  # 20 in 10 hours, 80 are left
    assert any("at the last day's rate" in text for text in texts(soon, "warning"))
    assert used.spend.period_calls == 100
    assert used.spend.runs_out == used.time
    assert any("100 of 100 calls of this period are used up" in text for text in texts(used, "alarm"))
    assert any(
        "leaves out decisions while the budget" in text and "in 1 hour" in text
        for text in texts(used, "warning")
    )
    assert later.spend.runs_out == later.time


def test_without_a_price_there_is_no_spend_and_the_economical_learner_has_its_own(tmp_path):
    async def run(folder, learner):
        async with serving(folder, learner=learner) as here:
            await decide(here, 10)
            return await page(here)

    (tmp_path / "b").mkdir()
    plain = asyncio.run(run(tmp_path, None)).spend
    own = asyncio.run(run(tmp_path / "b", sparing.economical(log_of(), call_cost=0.25, horizon=1000))).spend
    assert (plain.price, plain.spent, plain.not_spent, plain.budget_calls, plain.runs_out) == (None,) * 5
    assert (own.price, own.spent) == (0.25, 0.25 * own.calls)


def test_an_empty_experiment_has_a_page(tmp_path):
    async def run():
        async with serving(tmp_path, Options()) as here:
            return await page(here), about(here.experiment)

    found, told = asyncio.run(run())
    assert (found.decisions, found.saved, found.hours, found.so_far, found.recent) == (0, None, [], [], [])
    assert found.headline.why == "No decision has been made yet."
    assert found.headline.sample_ratio is None
    assert (told.decisions, told.calls, told.open, told.features) == (0, 0, 0, ["x_0", "x_1", "x_2"])


def test_about_is_the_state(tmp_path):
    async def run():
        async with serving(tmp_path) as here:
            answers = await decide(here, 20, rewarded=False)
            await here.writer.submit(ChangeSettings("shop", events.RETIRE, {"label": 2}, "t"))
            return here.experiment.model, answers, about(here.experiment)

    model, answers, told = asyncio.run(run())
    calls = sum(a.needs_reward for a in answers)
    assert (told.decisions, told.calls, told.open) == (20, calls, calls)
    assert (told.actions, told.retired) == ([0, 1, 3, 4, 5], [2])
    assert (told.model_seq, told.digest, told.config_seq) == (22, model.digest.hex(), 22)
    assert told.options == msgspec.structs.replace(FULL, holdout_group="shop")


def test_the_comparison_begins_when_its_shares_were_set(tmp_path):
    async def run():
        async with serving(tmp_path, Options()) as here:
            await alter(here, check=0.3)  # before the first decision: nothing is lost
            await decide(here, 80)
            first = await page(here)
            here.now += 90 * 60 * events.SECOND
            await alter(here, holdout=0.2)
            new = await page(here)
            answers = await decide(here, 80)
            here.now += events.HOUR
            await alter(here, price=2.0)
            answers += await decide(here, 80)
            return first, new, answers, await page(here)

    first, new, answers, last = asyncio.run(run())
    assert first.headline.why.startswith("There is no holdout to compare with: set the option holdout")
    assert first.headline.policy is not None
    assert "since the options check and holdout were set" in new.headline.why
    assert new.headline.policy is None
    assert last.headline.why is None
    mine = [a for a in answers if a.needs_reward and a.arm == "policy"]
    assert last.headline.policy.rewards == len(mine)
    assert last.rewarded > len(mine)
    both = 160  # the ratio counts from the event on, not from the hour
    assert last.headline.sample_ratio.seen * both == pytest.approx(
        round(last.headline.sample_ratio.seen * both)
    )


def test_the_sample_ratio_counts_subjects_who_are_assigned_once(tmp_path, monkeypatch):
    monkeypatch.setattr(dashboard, "WINDOW", 17)

    async def run():
        async with serving(tmp_path, Options(holdout=0.3)) as here:
            await decide(here, 60, subjects=[bytes([i % 6]) * 16 for i in range(60)])
            first = await page(here)
            answers = await decide(here, 60)
            return first, answers, await page(here)

    first, answers, second = asyncio.run(run())
    assert first.headline.sample_ratio.seen * 6 == pytest.approx(round(first.headline.sample_ratio.seen * 6))
    aside = round(first.headline.sample_ratio.seen * 6) + sum(a.arm == "holdout" for a in answers)
    assert second.headline.sample_ratio.seen == pytest.approx(aside / 66)


def test_subjects_are_forgotten_where_they_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(dashboard, "MAX_SUBJECTS", 20)

    async def run():
        async with serving(tmp_path, Options(holdout=0.3)) as here:
            await decide(here, 30, subjects=[here.rng.bytes(16) for _ in range(30)])
            await page(here)
            last = await decide(here, 7, subjects=[here.rng.bytes(16) for _ in range(7)])
            return last, await page(here)

    last, found = asyncio.run(run())
    assert found.headline.sample_ratio.seen == pytest.approx(sum(a.arm == "holdout" for a in last) / 7)


def test_counting_in_pieces_and_with_pauses_is_counting_at_once(tmp_path, monkeypatch):
    async def run():
        async with serving(tmp_path) as here:
            for _ in range(3):
                await decide(here, 30, rewarded=False)
                here.now += events.HOUR + events.SECOND
                await here.writer.submit(ExpirePending("shop"))
                await asyncio.gather(page(here), page(here))  # side by side
            slowly = await page(here)
            monkeypatch.setattr(dashboard, "_known", {})
            monkeypatch.setattr(dashboard, "WINDOW", 7)
            return slowly, await page(here)

    slowly, afresh = asyncio.run(run())
    assert slowly.expired == slowly.asked > 0
    assert slowly == afresh


def test_a_page_changes_nothing(tmp_path):
    async def run():
        async with serving(tmp_path, msgspec.structs.replace(FULL, budget_calls=1000, most_open=500)) as here:
            await decide(here, 50, rewarded=False)
            here.now += 3 * events.HOUR
            model = here.experiment.model
            before = (
                model.seq,
                model.digest,
                model.learner.digest(),
                dict(model.open),
                list(model._expiring),
            )
            arrays = {name: array.copy() for name, array in model.learner.sets.state().items()}
            await page(here)
            about(here.experiment)
            after = (model.seq, model.digest, model.learner.digest(), dict(model.open), list(model._expiring))
            same = all(np.array_equal(arrays[name], now) for name, now in model.learner.sets.state().items())
            return before == after, same, await here.writer.store.last_seq() == model.seq

    assert asyncio.run(run()) == (True, True, True)


def test_workers_that_disagree_and_a_store_that_fails_are_alarms(tmp_path):
    async def run():
        async with serving(tmp_path) as here:
            rows = [("one", 7, b"a" * 8), ("two", 7, b"b" * 8), ("old", 7, b"c" * 8)]
            times = [here.now, here.now, here.now - 3 * seen_for]
            await here.writer.store.exclusive(
                (
                    "insert into workers values ($1, $2, $3, $4, $5)",
                    [(name, 1, seq, digest, ts) for (name, seq, digest), ts in zip(rows, times, strict=True)],
                ),
                ("update store set last_backup = $1", [(START,)]),
                (
                    "insert into snapshots values ($1, $2, $3, $4, $5, $6, $7, $8)",
                    [(1, 3, START, "e", b"", b"", "x", 0)],
                ),
            )
            ill = await page(here)
            here.writer._idle_until = time.monotonic() + 60
            failing = await page(here)
            here.writer._idle_until = 0.0
            return ill, failing

    seen_for = 60 * events.SECOND
    ill, failing = asyncio.run(run())
    assert ill.health.status == "degraded"
    assert [one.worker for one in ill.health.workers] == ["one", "two"]
    assert ill.look[0].level == "alarm"
    assert "different states after event 7: one, two" in ill.look[0].text
    assert ill.health.last_backup == events.time_text(START)
    assert (ill.health.snapshot.seq, ill.health.snapshot.time) == (3, events.time_text(START))
    assert any("could not be written" in text for text in texts(failing, "alarm"))


def test_surprising_rewards_are_an_alarm_and_usual_ones_are_well(tmp_path):
    async def run(folder, noise):
        async with serving(folder) as here:
            answers = await decide(here, 120, rewarded=False)
            rewards = [
                Reward("shop", a.decision_id, float(here.rng.normal(a.value, noise)))
                for a in answers
                if a.needs_reward
            ]
            await here.writer.submit_all(rewards)
            return await page(here)

    (tmp_path / "b").mkdir()
    assert any("as the model expects" in text for text in texts(asyncio.run(run(tmp_path, 0.5)), "good"))
    assert any(
        "noisier than the log" in text for text in texts(asyncio.run(run(tmp_path / "b", 5.0)), "alarm")
    )


def test_urgent_sentences_come_first_and_name_the_untried(tmp_path):
    log = draw_log(WORLD, rows=200, never=[0, 1, 2, 3], seed=1)

    async def run():
        async with serving(tmp_path, Options(), log=log) as here:
            return here.experiment.model, await page(here)

    model, found = asyncio.run(run())
    levels = [health.URGENCY[one.level] for one in found.look]
    assert levels == sorted(levels)
    (untried,) = [text for text in texts(found, "warning") if "Never tried" in text]
    assert untried.count("0 live rewards so far") == 3
    assert untried.endswith(" and 1 more")
    headline = msgspec.structs.replace(found.headline, sample_ratio=SampleRatio(0.1, 0.05, 1e-6))
    uneven = msgspec.structs.replace(found, headline=headline)
    assert "is not reliable" in health.health_checks(model, uneven, [], 0, [])[0].text


def test_a_page_of_a_thousand_actions_and_thirty_days_is_quick(tmp_path):
    """30 ms of CPU: the least of a few, so that neighbours do not count."""
    world = LinearWorld(n_actions=1000, n_features=3, noise=0.5, seed=0)
    log = draw_log(world, rows=4000, support="never-logged", unsupported=0.2, seed=1)
    groups = [
        ("explore", "policy", 1),
        ("confident", "policy", 0),
        ("pending", "policy", 0),
        ("check", "policy", 1),
    ]
    groups += [("spot-check", "policy", 1), ("uniform", "policy", 1), ("holdout", "holdout", 1)]

    async def run():
        async with serving(tmp_path, log=log) as here:
            hours = range(START // events.HOUR - 719, START // events.HOUR + 1)
            rows = [(1, hour, *group, 50, 40, 20.0, 30.0) for hour, group in itertools.product(hours, groups)]
            await here.writer.store.exclusive(
                ("insert into totals values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0)", rows)
            )
            await decide(here, 200)
            taken = []
            for _ in range(8):
                began = time.process_time()
                found = await page(here)
                taken.append(time.process_time() - began)
            return min(taken), found

    taken, found = asyncio.run(run())
    assert len(found.actions) == 1000
    assert found.decisions == 720 * 7 * 50 + 200
    assert taken < 0.03
