"""Import: the state after is what one gets by hand, actions keep their numbers, and a refusal changes nothing."""

import asyncio
import hashlib
import threading

import numba
import numpy as np
import pytest

import sparing
from service import raw_columns
from service.building import (
    LOG,
    NAME,
    WORLD,
    contexts,
    decide,
    live,
    ran,
    replayed,
    reward,
    same,
    trial,
)
from sparing.errors import LogError, SettingError
from sparing.online.files import parts
from sparing.service import erasure, events, experiments, maintenance, state_files
from sparing.service.errors import ServiceError
from sparing.service.experiments import import_log, rebase
from sparing.service.messages import DecideRequest, Options
from sparing.service.transactions import ChangeSettings, Decide

OTHER = sparing.simulation.draw_log(WORLD, rows=400, support="never-logged", unsupported=0.2, seed=9)


def only(writer):
    return writer.registry.get(NAME)


def given(log):
    """A reader of a log in memory, as `read_log` would read its file."""
    return lambda actions: sparing.read_log(table(log), actions=actions)


def table(log):
    columns = {f"x_{i}": log.contexts[:, i] for i in range(log.n_features)}
    return {
        **columns,
        "action": [log.action_names[a] for a in log.actions],
        "reward": log.rewards,
        "propensity": log.propensities,
    }


async def by_hand(writer, log, name, settings, retired=()):
    """The state that an import should give, from what is stored."""
    learner = experiments.make_learner(name, log, settings)
    old, names, found = only(writer).model, list(log.action_names), []
    for label in retired:
        learner.retire(label)
    for one in await writer.store.record(1, "d.seq > 0"):
        if one.closed is not None and one.closed.kind in ("reward", "default", "learnt"):
            action = one.decision.action if one.closed.played is None else one.closed.played
            found.append((one.closed.seq, action, one.decision.context, one.closed.value))
    lost = 0
    for _, action, context, value in sorted(found, key=lambda row: row[0]):
        if context is None:
            lost += 1
            continue
        x = learner.context(events.unpack_context(context))
        learner.finish(action, x, value, learner.begin(action, x))
    predicted = []
    for one in await writer.store.record(1, "d.seq > 0"):
        if one.closed is None and one.decision.needs_reward:
            x = learner.context(events.unpack_context(one.decision.context))
            predicted.append((one.decision.seq, learner.begin(one.decision.action, x)))
    if learner.uses_voi:
        learner.set_counters(rounds=old.rounds, calls=old.calls)
    assert set(map(str, names)) >= set(map(str, old.labels))
    return learner, len(found) - lost, lost, predicted


def equal(one, other):
    header, arrays = parts(one)
    twin, others = parts(other)
    assert header == twin
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], others[name], err_msg=name)


@pytest.mark.parametrize("learner", ["economical", "confident", "certified"])
def test_the_state_after_is_the_one_computed_by_hand(tmp_path, learner):
    async def run():
        rest = {"allow_mismatch": True, "learn_unasked": True}
        async with trial(tmp_path / "store", learner, Options(explore=1.0, **rest)) as writer:
            await live(writer, 1, 20, late=9, missing=0.3)
            await writer.submit(ChangeSettings(NAME, events.OPTIONS, rest, "test"))
            answers = await live(writer, 3, 20)
            retired = only(writer).model.labels[1]
            await writer.submit(ChangeSettings(NAME, events.RETIRE, {"label": retired}, "test"))
            for answer in answers:
                if not answer.needs_reward:
                    await reward(writer, answer, 0.2)
            swapped = await decide(writer, contexts(5, 1)[0], eligible=only(writer).model.labels[2:3])
            await reward(writer, swapped, 0.9, only(writer).model.labels[3])
            settings = {**only(writer).config["settings"], "ridge": 2.0} if learner == "certified" else None
            told = settings or only(writer).config["settings"]
            before = only(writer).model
            log = sparing.read_log(table(OTHER), actions=list(before.learner.action_names))
            expected, learnt, lost, predicted = await by_hand(writer, log, learner, told, [retired])
            done = await import_log(writer, NAME, given(OTHER), settings, "admin")
            assert (done.rows, done.live_rewards, done.lost_to_erasure) == (400, learnt, 0)
            assert learnt > 5
            assert lost == 0
            now = only(writer).model
            equal(now.learner, expected)
            calls = [(seq, now.learner.pending_call(one.call)) for seq, one in now.open.items()]
            assert [(seq, call.predicted) for seq, call in calls] == predicted
            assert len(predicted) > 2
            assert (now.rounds, now.calls, now.mode) == (before.rounds, before.calls, before.mode)
            np.testing.assert_array_equal(now.played, before.played)
            assert now.seq == now.config_seq == (await writer.registry.bases(1))[-1].seq
            assert only(writer).config["settings"] == told
            assert only(writer).config["about"]["rows"] == 400
            same(await replayed(writer), now)
            await live(writer, 2, 20)
            same(await replayed(writer), only(writer).model)
            (verdict,) = await maintenance.verify(writer.store)
            assert not verdict.faults

    ran(run())


def test_what_comes_while_the_log_is_read_is_learnt_too(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            reading, go_on = threading.Event(), threading.Event()

            def slow(actions):
                reading.set()
                assert go_on.wait(60)
                return given(OTHER)(actions)

            answers = await live(writer, 1, 20, missing=0.4)
            imported = asyncio.create_task(import_log(writer, NAME, slow, None, "admin"))
            await asyncio.to_thread(reading.wait)
            await live(writer, 2, 20, missing=0.2)
            late = next(answer for answer in answers if answer.model_seq + 1 in only(writer).model.open)
            await reward(writer, late, 0.7)
            log = sparing.read_log(table(OTHER), actions=list(only(writer).model.learner.action_names))
            expected, learnt, _, _ = await by_hand(writer, log, "confident", only(writer).config["settings"])
            go_on.set()
            assert (await imported).live_rewards == learnt
            equal(only(writer).model.learner, expected)

    ran(run())


def test_the_tail_is_learnt_under_the_lock(tmp_path, monkeypatch):
    """What the thread did not see: here it sees nothing."""

    async def idle(store, made):
        return

    monkeypatch.setattr(experiments, "_go_after", lambda store, made: idle(store, made))

    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 20, missing=0.2)
            log = sparing.read_log(table(OTHER), actions=list(only(writer).model.learner.action_names))
            expected, *_ = await by_hand(writer, log, "confident", only(writer).config["settings"])
            await import_log(writer, NAME, given(OTHER), None, "admin")
            equal(only(writer).model.learner, expected)

    ran(run())


def test_new_labels_come_behind_and_erased_rewards_are_counted_as_lost(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            answers = await live(writer, 1, 20)
            labels = list(only(writer).model.labels)
            asked = [answer for answer in answers if answer.needs_reward]
            await erasure.erase(writer, NAME, decision_id=asked[0].decision_id, who="test")
            columns = table(OTHER)
            columns["action"][5] = -7  # sorted, it would be the first
            done = await import_log(
                writer, NAME, lambda actions: sparing.read_log(columns, actions=actions), None, "admin"
            )
            assert (done.live_rewards, done.lost_to_erasure) == (len(asked) - 1, 1)
            assert only(writer).model.labels == [*labels, -7]
            stored = {
                one.decision.decision_id: one.decision for one in await writer.store.record(1, "d.seq > 0")
            }
            for answer in answers:
                kept = stored[events.id_bytes(answer.decision_id)]
                assert only(writer).model.labels[kept.action] == answer.action
            await live(writer, 2, 10)
            same(await replayed(writer), only(writer).model)

    ran(run())


def test_raw_columns_are_encoded_anew_or_the_import_is_refused(tmp_path):
    first = sparing.read_log(raw_columns.write(tmp_path / "first.csv"))
    second = raw_columns.write(tmp_path / "second.csv", seed=5, countries=("CH", "NZ", "PE", "IS"))
    narrow = tmp_path / "narrow.csv"
    narrow.write_text("\n".join(line.partition(",")[2] for line in second.read_text().splitlines()) + "\n")

    async def run():
        options = Options(explore=1.0)
        async with trial(tmp_path / "store", "confident", options, log=first) as writer:
            for number, row in enumerate(raw_columns.rows(7, 12)):
                asked = Decide(NAME, DecideRequest(context=row), events.new_id())
                answer = await writer.submit(asked)
                if number % 3:
                    await reward(writer, answer, 0.1 * number)
            before, files = await replayed(writer), sorted((tmp_path / "store" / "bases").iterdir())
            config = dict(only(writer).config)
            with pytest.raises(ServiceError, match="8 live decisions do not fit") as refused:
                await import_log(
                    writer, NAME, lambda actions: sparing.read_log(narrow, actions=actions), None, "a"
                )
            assert refused.value.status == 422
            assert refused.value.detail.count("unknown column 'country'") == 8
            same(only(writer).model, before)
            same(await replayed(writer), before)
            assert sorted((tmp_path / "store" / "bases").iterdir()) == files
            assert (await writer.store.experiments())[0][2] == only(writer).config == config
            reader = lambda actions: sparing.read_log(second, actions=actions)  # noqa: E731
            expected, learnt, _, predicted = await by_hand(
                writer, reader(["blue", "green", "red"]), "confident", config["settings"]
            )
            done = await import_log(writer, NAME, reader, None, "admin", config={"columns": {"action": "a"}})
            assert (done.live_rewards, len(predicted)) == (learnt, 4) == (8, 4)
            equal(only(writer).model.learner, expected)
            assert only(writer).model.learner.n_features > before.learner.n_features
            assert only(writer).config["columns"] == {"action": "a"}
            same(await replayed(writer), only(writer).model)

    ran(run())


def test_an_open_context_that_does_not_fit_refuses_too(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await decide(writer, contexts(1, 1)[0])
            wide = {**table(OTHER), "x_3": OTHER.rewards}
            before = await replayed(writer)
            with pytest.raises(ServiceError, match="1 live decisions do not fit the new log"):
                await import_log(
                    writer, NAME, lambda actions: sparing.read_log(wide, actions=actions), None, "a"
                )
            with pytest.raises(LogError, match="the log's actions begin with"):
                await import_log(writer, NAME, lambda actions: sparing.read_log(wide), None, "admin")
            await writer.catch_up()
            same(only(writer).model, before)

    ran(run())


def test_a_change_while_the_log_is_read_is_a_conflict(tmp_path):
    async def run():
        async with trial(tmp_path / "store") as writer:
            loop = asyncio.get_running_loop()

            def meddling(actions):
                change = ChangeSettings(NAME, events.ACTION, {"label": "new", "features": None}, "test")
                if "new" not in only(writer).model.labels:
                    asyncio.run_coroutine_threadsafe(writer.submit(change), loop).result(60)
                return given(OTHER)(actions)

            with pytest.raises(ServiceError, match="import it again") as refused:
                await import_log(writer, NAME, meddling, None, "admin")
            assert refused.value.status == 409
            await import_log(writer, NAME, meddling, None, "admin")
            assert only(writer).model.labels[-1] == "new"
            assert len(only(writer).model.labels) == 7
            with pytest.raises(SettingError, match="unknown setting 'magic'"):
                await import_log(writer, NAME, meddling, {"magic": 1}, "admin")

    ran(run())


def test_a_base_that_was_not_committed_is_removed(tmp_path, monkeypatch):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await decide(writer, contexts(1, 1)[0])
            before, files = await replayed(writer), sorted((tmp_path / "store" / "bases").iterdir())

            async def broken(*_):
                raise RuntimeError("on purpose")

            with monkeypatch.context() as patched:
                patched.setattr(writer.store, "configure", broken)
                with pytest.raises(ServiceError, match="nothing was changed"):
                    await import_log(writer, NAME, given(OTHER), None, "admin")
            assert sorted((tmp_path / "store" / "bases").iterdir()) == files
            await live(writer, 2, 1)
            assert only(writer).config["about"]["rows"] == LOG.n_rows
            same(await replayed(writer), only(writer).model)
            assert only(writer).model.seq > before.seq

    ran(run())


def test_a_stamp_of_0_1_is_that_of_version_1(monkeypatch):
    """The text hash of 0.1's engine, written with the Numba and NumPy of here; with others it is another engine."""
    versions = f"{numba.__version__} {np.__version__}"
    text = "0aab6fe0245e7356cbbe012b582c1ee5794edbf85c50702f15cc52925700b095"
    old = hashlib.sha256(f"{text} {versions}".encode()).hexdigest()[:16]
    other = hashlib.sha256(f"{text} 0.61.0 {np.__version__}".encode()).hexdigest()[:16]
    assert state_files.engine() == f"1 {versions}"
    assert state_files.is_this_engine(state_files.engine())
    assert state_files.is_this_engine(old)
    assert not state_files.is_this_engine(other)
    assert not state_files.is_this_engine("another")
    monkeypatch.setattr(state_files, "ENGINE_VERSION", 2)
    assert not state_files.is_this_engine(old)
    assert not state_files.is_this_engine(f"1 {versions}")
    assert state_files.is_this_engine(f"2 {versions}")


def test_another_engine_begins_anew_from_the_state_as_it_is(tmp_path, monkeypatch):
    async def run():
        async with trial(tmp_path / "store", "economical") as writer:
            await live(writer, 1, 20, missing=0.3)
            before = only(writer).model
            assert not await rebase(writer, only(writer))
            monkeypatch.setattr(state_files, "engine", lambda: "another")
            assert await rebase(writer, only(writer))
            assert not await rebase(writer, only(writer))
            now = only(writer).model
            equal(now.learner, before.learner)
            assert list(now.open) == list(before.open)
            assert (await writer.registry.bases(1))[-1].read()["engine"] == "another"
            (tmp_path / "store" / (await writer.registry.bases(1))[0].read()["path"]).unlink()
            same(await replayed(writer), now)

    ran(run())


def zero_one(seed, most=1):
    rng = np.random.default_rng(seed)
    rewards = [0, most, *rng.integers(0, 2, 58)]
    return sparing.read_log({"x": rng.random(60), "action": ["a", "b", "c"] * 20, "reward": rewards})


def test_a_log_with_impossible_rewards_is_not_imported(tmp_path):
    """The experiment's log was of 0 and 1: another with a 40 is refused, unless the import allows it."""

    async def tell():
        async with trial(tmp_path, log=zero_one(0)) as writer:
            with pytest.raises(
                SettingError, match=r"reward_range=\(0, 1\), but rewards of the log lie from 0 to 40"
            ):
                await import_log(writer, NAME, lambda actions: zero_one(1, most=40), None, "test")
            answer = await decide(writer, [0.5])
            with pytest.raises(ServiceError, match="outside reward_range") as refused:
                await reward(writer, answer, 1e40)
            assert (refused.value.status, refused.value.field) == (422, "value")
            free = {"tolerance": 0.05, "allow_outside": True}
            await import_log(writer, NAME, lambda actions: zero_one(1, most=40), free, "test")
            await reward(writer, answer, 40.0)
            assert (await replayed(writer)).learner.reward_range is None

    ran(tell())
