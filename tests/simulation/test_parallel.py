"""Many runs: the items' order, one process or thread or several, and errors that surface."""

import os
import subprocess
import sys
import threading
import time

import pytest

from sparing import moful, simulate
from sparing.errors import SettingError
from sparing.simulation import LinearWorld, run_many
from sparing.simulation.parallel import run_in_threads


def play(seed):
    world = LinearWorld(n_actions=3, n_features=2, seed=seed)
    learner = moful(n_actions=3, n_features=2, noise=2.0, theta_bound=3.0, context_bound=1.5, seed=seed)
    return simulate(learner, world, rounds=20, seed=seed).regret.tolist(), os.getpid()


def fail_at_three(item):
    if item == 3:
        raise LookupError(f"item {item} is the third")
    return item


def test_one_process_and_two_give_the_same_results_in_the_items_order():
    """Regrets come back from other processes unchanged, to the last bit, each in its item's place."""
    seeds = [5, 1, 4, 2]
    heard = {1: [], 2: []}
    alone, together = (
        run_many(play, iter(seeds), workers=n, progress=lambda *told, n=n: heard[n].append(told))
        for n in (1, 2)
    )
    assert alone == [play(seed) for seed in seeds]
    assert [regret for regret, _ in together] == [regret for regret, _ in alone]
    assert {process for _, process in alone} == {os.getpid()}
    assert os.getpid() not in {process for _, process in together}
    assert heard[1] == heard[2] == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_in_a_run_surfaces(workers):
    with pytest.raises(LookupError, match="item 3 is the third"):
        run_many(fail_at_three, [1, 2, 3, 4], workers=workers)


def test_a_function_that_cannot_be_sent_is_refused_with_what_to_do():
    def inner(item):
        return item

    for run in (lambda item: item, inner):
        with pytest.raises(SettingError, match="define it at the top of a module, or pass workers=1"):
            run_many(run, [1, 2], workers=2)
        assert run_many(run, [1, 2], workers=1) == [1, 2]


@pytest.mark.parametrize("workers", [0, -2])
def test_fewer_than_one_worker_is_refused(workers):
    with pytest.raises(SettingError, match=f"workers={workers}; must be a whole number, 1 or more"):
        run_many(fail_at_three, [1, 2], workers=workers)


def test_no_items_make_no_results():
    assert run_many(fail_at_three, []) == []
    assert run_many(fail_at_three, [7]) == [7]


SCRIPT = """
from sparing.simulation import run_many
run_many(abs, [1, 2], workers=2)
"""


def test_a_script_without_a_guard_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_threads_give_results_in_the_items_order():
    told, meeting = [], threading.Barrier(2, timeout=30)

    def late_first(item, _):
        if item < 2:
            meeting.wait()  # two are under way at once
        time.sleep(0.02 * (item == 0))
        return item * item

    found = run_in_threads(late_first, range(5), workers=2, progress=lambda *each: told.append(each))
    assert found == [0, 1, 4, 9, 16]
    assert told == [(done, 5) for done in range(1, 6)]
    assert run_in_threads(lambda item, go_on: (item, go_on), [7], workers=3) == [(7, None)]
    with pytest.raises(SettingError, match="workers=0; must be a whole number"):
        run_in_threads(late_first, [1], workers=0)


@pytest.mark.parametrize("why", [LookupError, KeyboardInterrupt])
def test_a_thread_ends_when_another_fails_or_all_are_interrupted(why):
    started, ended, begun = [], [], threading.Event()

    def run(item, go_on):
        if item == 0:
            begun.wait(30)
            if why is LookupError:
                raise why("the first")
            return item
        started.append(item)
        begun.set()
        try:
            for _ in range(3000):
                time.sleep(0.01)
                go_on(1, 2)
        except BaseException:
            ended.append(item)
            raise

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(why):
        run_in_threads(run, range(6), workers=2, progress=interrupted)
    assert 1 in ended
    assert sorted(ended) == sorted(started)  # nothing is left behind
