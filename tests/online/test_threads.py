"""One learner, many threads: the answers are those of one thread, and a change waits for its turn."""

import gc
import sys
import threading
import time

import numpy as np
import pytest

import sparing
from sparing.online.locks import ReadWriteLock
from sparing.simulation import LinearWorld, draw_log

THREADS, DECISIONS = 4, 20_000
GIVEN = {"noise": 0.5, "theta_bound": 4.0, "context_bound": 2.5, "radius_scale": 0.2}


def learner_of(name, k, d, seed=0, rows=None):
    world = LinearWorld(n_actions=k, n_features=d, noise=0.5, seed=seed)
    log = draw_log(world, rows=rows or min(20 * k, 6000), support="never-logged", unsupported=0.2, seed=seed)
    settings = {"tolerance": 0.3, "noise": 0.5, "prior_scale": 1.0} if name == "confident" else {**GIVEN}
    if name == "certified":
        settings["tolerance"] = 0.5
    if name == "economical":
        settings |= {"call_cost": 0.002, "horizon": 10_000, "prior_scale": 1.0}
    return getattr(sparing, name)(log, **settings), world


def together(work, count=THREADS):
    """Run work(number) in so many threads at once; what each returned, and no error in any."""
    results, errors, ready = [None] * count, [], threading.Barrier(count)

    def run(number):
        try:
            ready.wait()
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert errors == []
    return results


@pytest.mark.parametrize(("k", "d"), [(20, 10), (300, 24)])
@pytest.mark.parametrize("name", ["linucb", "certified", "confident", "economical", "lints"])
def test_proposals_from_four_threads_are_those_of_one(name, k, d):
    """With bounds and without, eligible masks among them, under free garbage collection."""
    learner, world = learner_of(name, k, d)
    each = DECISIONS if (name, k) in (("certified", 20), ("confident", 20)) else 1500
    contexts = world.contexts(each, np.random.default_rng(1))
    masks = np.random.default_rng(2).random((16, k)) < 0.7
    masks[:, 0] = True

    def ask(t):
        proposal = learner.propose(
            contexts[t], allowed=masks[t % 16] if t % 3 == 0 else None, entropy=t.to_bytes(4, "big")
        )
        return proposal[:7]

    expected = [ask(t) for t in range(each)]
    gc.set_threshold(50)
    try:
        found = together(lambda number: [ask((t + number * 97) % each) for t in range(each)])
    finally:
        gc.set_threshold(700)
    for number, answers in enumerate(found):
        shift = (number * 97) % each
        assert answers == expected[shift:] + expected[:shift]


def test_decide_many_beside_decide():
    learner, world = learner_of("certified", 60, 8)
    contexts = world.contexts(6000, np.random.default_rng(3))
    expected = learner.decide_many(contexts, threads=1)
    found = together(lambda number: learner.decide_many(contexts, threads=2))
    for decisions in found:
        assert np.array_equal(decisions.actions, expected.actions)
        assert np.array_equal(decisions.highs, expected.highs)


@pytest.mark.parametrize(
    ("name", "k", "d"),
    [
        ("certified", 20, 10),
        ("confident", 20, 10),
        ("economical", 20, 10),
        ("linucb", 400, 16),
        ("moful", 3000, 6),
    ],
)
def test_deciding_and_learning_from_four_threads_loses_nothing(name, k, d):
    """Rewards late, forgotten and at once, sets that grow: every round is counted once, every matrix is sound."""
    learner, world = learner_of(name, k, d, seed=4)
    each = DECISIONS // 4 if k == 20 else 1000
    contexts = world.contexts(THREADS * each, np.random.default_rng(5)).reshape(THREADS, each, d)
    lock = []

    def play(number):
        waiting, rng = [], np.random.default_rng([6, number])
        for t in range(each):
            decision = learner.decide(contexts[number, t])
            lock.append(decision.id)
            if decision.needs_reward:
                waiting.append((decision, float(rng.standard_normal())))
            while len(waiting) > 3 or (waiting and rng.random() < 0.3):
                made, reward = waiting.pop(int(rng.integers(len(waiting))))
                if rng.random() < 0.1:
                    learner.forget(made)
                else:
                    learner.update(made, reward)
        return len(waiting)

    left = together(play)
    assert learner.rounds == THREADS * each
    assert len(learner.open) == sum(left)
    assert sorted(lock) == list(range(THREADS * each))
    assert learner.sets.live.sum() + learner.sets.waiting.sum() <= learner.calls
    assert not learner.sets.inconsistent()


class Ledger(dict):
    """Open decisions that note when one is closed; `noted` is shared with whoever notes the rest."""

    def __init__(self, noted):
        super().__init__()
        self.noted = noted

    def __delitem__(self, number):
        self.noted.append(("close", number))
        super().__delitem__(number)


def test_turns_in_one_order_give_the_bits_of_that_order():
    """Every operation is noted inside its turn; replayed alone, in that order, it gives the same learner."""
    learner, world = learner_of("certified", 30, 6, seed=7)
    twin, noted = learner.copy(), []
    contexts = world.contexts(THREADS * 800, np.random.default_rng(8)).reshape(THREADS, 800, 6)
    choose, observe = learner._choose, learner._observe
    learner.open = Ledger(noted)

    def noting(kind, inner):
        def noted_call(*arguments):
            noted.append((kind, arguments))
            return inner(*arguments)

        return noted_call

    learner._choose, learner._observe = noting("decide", choose), noting("learn", observe)
    learner._fast = None  # no decision without `_choose`, which notes it

    def play(number):
        waiting, rng = [], np.random.default_rng([9, number])
        answers = []
        for x in contexts[number]:
            decision = learner.decide(x)
            answers.append(decision[:7])
            if decision.needs_reward:
                waiting.append(decision)
            while len(waiting) > 4:
                made = waiting.pop(int(rng.integers(len(waiting))))
                learner.forget(made) if rng.random() < 0.1 else learner.update(made, float(rng.random()))
        return answers

    answers = {answer[0]: answer for one in together(play) for answer in one}
    reward = None
    for kind, what in noted:
        if kind == "decide":
            decision = twin.decide(what[0])
            assert decision[:7] == answers[decision.id]
        elif kind == "learn":
            reward = what[1]
        else:
            twin.forget(what) if reward is None else twin.update(what, reward)
            reward = None
    assert twin.digest() == learner.digest()
    assert np.array_equal(twin.sets.theta, learner.sets.theta)
    assert np.array_equal(twin.sets.waiting, learner.sets.waiting)


def test_a_change_waits_for_those_who_look_and_nobody_looks_meanwhile():
    lock, seen, inside = ReadWriteLock(), [], threading.Event()

    def look():
        with lock:
            inside.set()
            time.sleep(0.05)
            seen.append("looked")

    def change():
        inside.wait()
        with lock.write_lock:
            lock.wait_for_readers()
            seen.append("changed")

    threads = [threading.Thread(target=look), threading.Thread(target=change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert seen == ["looked", "changed"]


def test_a_learner_that_grows_under_readers_keeps_its_old_arrays_alive():
    learner, world = learner_of("moful", 5000, 24, seed=3, rows=40)
    contexts, slots = world.contexts(400, np.random.default_rng(1)), len(learner.sets.arrays.theta)

    def work(number):
        for x in contexts:
            if number == 0:
                learner.update(learner.decide(x), 1.0)
            else:
                learner.propose(x)
                gc.collect(0)

    together(work)
    assert learner.calls == 400
    assert len(learner.sets.arrays.theta) >= 4 * slots
    assert not learner.sets.inconsistent()
