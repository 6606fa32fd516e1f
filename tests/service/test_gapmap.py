"""The gap map: what is kept of a log, and live calls counted a piece at a time."""

import asyncio
import time

import msgspec
import numpy as np
import pytest

import sparing
from sparing.log.log import Log
from sparing.service import events, gap_map, store
from sparing.service.experiments import create
from sparing.service.gap_map import LiveCalls, contexts_of, describe_log, partly_logged
from sparing.service.messages import DecideRequest, Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.transactions import Decide
from sparing.service.writer import Writer
from sparing.simulation.logging_policies import draw_log
from sparing.simulation.worlds import LinearWorld


def striped(rows=1200, seed=0):
    """Action `b` was possible only where x_0 ≤ 0.5, `c` never."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((rows, 2))
    chances = np.where((contexts[:, :1] <= 0.5), [[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]])
    actions = (rng.random(rows) < chances[:, 1]).astype(int)
    names = ["a", "b", "c"]
    return Log.from_arrays(
        contexts, [names[a] for a in actions], rng.random(rows), distribution=chances, action_names=names
    )


def test_what_is_kept_is_true_of_all_rows():
    log = striped()
    about = msgspec.json.decode(msgspec.json.encode(describe_log(log)))
    kept = about["gaps"]
    assert [log.action_names[a] for a in kept["actions"]] == ["c", "b"]
    assert kept["left_out"] == 0
    everywhere, right = kept["rows"]
    assert everywhere["where"] == "everywhere"
    assert everywhere["logged"] == [0, int((log.actions == 1).sum())]
    assert everywhere["never"] == [True, False]
    assert right["where"].startswith("x_0 > 0.5")
    assert (right["logged"], right["never"]) == ([0, 0], [True, True])
    assert partly_logged(about, 3).tolist() == [False, True, False]
    assert partly_logged(about, 9).tolist() == [False, True, *[False] * 7]  # some were added since
    assert about["center"] == pytest.approx(log.contexts.mean(axis=0).tolist())


def test_what_a_sample_missed_is_not_said_to_be_untried(monkeypatch):
    monkeypatch.setattr(gap_map, "MAX_ROWS", 100)
    rng = np.random.default_rng(0)
    actions = np.r_[np.zeros(2000, dtype=int), np.ones(3, dtype=int)]
    log = Log.from_arrays(rng.random((2003, 2)), actions, rng.random(2003), action_names=[0, 1])
    about = describe_log(log)
    assert about["gaps"] is None
    assert not partly_logged(about, 2).any()


def test_logs_without_gaps_rows_or_few_actions_have_no_map():
    world = LinearWorld(n_actions=4, n_features=2, noise=0.5, seed=0)
    full = draw_log(world, rows=400, unsupported=0.0, seed=1)
    assert describe_log(full)["gaps"] is None
    empty = describe_log(Log.empty(action_names=["a", "b"], n_features=2))
    assert (empty["rows"], empty["center"], empty["gaps"], empty["partly"]) == (0, None, None, "")


@pytest.mark.parametrize(
    ("actions", "support"), [(120, "region"), (120, "never-logged"), (10_000, "never-logged")]
)
def test_what_is_kept_is_small(actions, support):
    world = LinearWorld(n_actions=actions, n_features=4, noise=0.5, seed=0)
    log = draw_log(world, rows=5000 if actions < 1000 else 300, support=support, unsupported=0.2, seed=1)
    about = describe_log(log)
    assert len(msgspec.json.encode(about)) < 8000
    if actions > gap_map.MAX_ACTIONS:
        assert about["gaps"] is None
        return
    kept = about["gaps"]
    assert len(kept["actions"]) == gap_map.MAX_ACTIONS_SHOWN
    assert len(kept["rows"]) <= gap_map.MAX_SEGMENTS
    assert kept["left_out"] >= 0.2 * actions - gap_map.MAX_ACTIONS_SHOWN
    for row in kept["rows"]:
        assert row["never"] == [count == 0 for count in row["logged"]]


async def played(folder, log, contexts, *, options=None, erase=()):
    """An experiment that was asked in these contexts, and its calls as the answers told them."""
    disk = store.open_store(folder / "store", durability="process")
    await disk.open(create=True)
    writer = Writer(disk, ExperimentRegistry(disk), clock=lambda: 1_700_000_000 * events.SECOND)
    writer.start()
    experiment = await create(writer, "shop", log, sparing.confident(log), options or Options(), {}, who="t")
    works = [Decide("shop", DecideRequest(context=x), i.to_bytes(16)) for i, x in enumerate(contexts)]
    answers = await writer.submit_all(works)
    await disk.exclusive(
        ("update decisions set context = null where decision_id = $1", [(i.to_bytes(16),) for i in erase])
    )
    return writer, experiment, answers


async def closed(writer):
    await writer.stop()
    await writer.store.close()


@pytest.mark.parametrize("named", [False, True])
def test_live_calls_are_counted_where_they_were_made_in_bounded_pieces(tmp_path, monkeypatch, named):
    monkeypatch.setattr(gap_map, "EVENTS", 50)
    monkeypatch.setattr(gap_map, "CALLS", 20)
    log = striped()
    contexts = np.random.default_rng(1).random((150, 2)).tolist()
    said = [{"x_0": x, "x_1": y} for x, y in contexts] if named else contexts
    erased = range(0, 150, 10)

    async def run():
        writer, experiment, answers = await played(
            tmp_path, log, said, options=Options(holdout=0.5, holdout_policy="uniform"), erase=erased
        )
        kept, upto = experiment.config["about"]["gaps"], await writer.store.last_seq()
        live, seen = LiveCalls(), []
        while not seen or live.reached < upto:
            seen.append(await live.shown(kept, writer.store, experiment.model, upto))
        seen.append(await live.shown(kept, writer.store, experiment.model, upto))
        await closed(writer)
        return answers, seen

    answers, seen = asyncio.run(run())
    expected = np.zeros((2, 2), dtype=int)
    for number, (answer, (x, _)) in enumerate(zip(answers, contexts, strict=True)):
        if answer.needs_reward and answer.action in ("c", "b") and number not in erased:
            place = ("c", "b").index(answer.action)
            expected[0, place] += 1
            expected[1, place] += x > 0.5
    assert expected.min() > 0
    assert [row.live for row in seen[-1].rows] == expected.tolist()
    assert seen[-1] == seen[-2]
    assert len(seen) > 4
    assert seen[-1].actions == ["c", "b"]
    steps = [sum(map(sum, (row.live for row in one.rows))) for one in seen]
    assert steps == sorted(steps)


def test_another_map_is_counted_anew(tmp_path):
    async def run():
        log = striped()
        writer, experiment, _ = await played(tmp_path, log, np.random.default_rng(1).random((80, 2)).tolist())
        kept, upto = experiment.config["about"]["gaps"], await writer.store.last_seq()
        live, model = LiveCalls(), experiment.model
        one = await live.shown(kept, writer.store, model, upto)
        same = await live.shown(msgspec.json.decode(msgspec.json.encode(kept)), writer.store, model, upto)
        fewer = {**kept, "rows": kept["rows"][:1]}
        other = await live.shown(fewer, writer.store, model, upto)
        nothing = await live.shown(None, writer.store, model, upto)
        await closed(writer)
        return one, same, other, nothing

    one, same, other, nothing = asyncio.run(run())
    assert one == same
    assert other.rows == one.rows[:1]
    assert nothing is None


def test_contexts_that_cannot_be_read_any_more_are_skipped_and_kernels_are_completed():
    log = striped()

    class Held:
        """As much of a state as contexts take."""

        def __init__(self, learner):
            self.learner = learner

        def context(self, stored):
            return self.learner.context(events.unpack_context(stored))

    plain, rich = Held(sparing.confident(log)), Held(sparing.confident(log, kernel=8))
    stored = [
        events.pack_context([0.1, 0.2]),
        events.pack_context([0.1, 0.2, 0.3]),
        events.pack_context({"x_1": 1.0, "x_0": 0.5}),
    ]
    contexts, known = contexts_of(plain, stored)
    assert known.tolist() == [True, False, True]
    assert contexts.tolist() == [[0.1, 0.2], [0.5, 1.0]]
    vectors = [events.pack_context(x) for x in np.random.default_rng(0).random((5, 2))]
    many, _ = contexts_of(rich, vectors)
    assert many == pytest.approx(np.array([rich.context(one) for one in vectors]))
    assert contexts_of(plain, [])[0].shape == (0, 2)


def test_vectors_are_read_much_faster_together_than_one_by_one():
    log = striped()
    learner = sparing.confident(log)

    class Held:
        """As much of a state as contexts take."""

        def __init__(self):
            self.learner = learner

        def context(self, stored):
            return learner.context(events.unpack_context(stored))

    held = Held()
    vectors = [events.pack_context(x) for x in np.random.default_rng(0).random((2000, 2))]

    def cpu(read):
        began = time.process_time()
        read()
        return time.process_time() - began

    together = min(cpu(lambda: contexts_of(held, vectors)) for _ in range(5))
    apart = min(cpu(lambda: [held.context(one) for one in vectors]) for _ in range(5))
    assert together < apart / 3
