"""Random lives of learners against the plain reference: contexts of all sizes, late and lost rewards, files between.

`SPARING_FUZZ=100 pytest tests/fuzz/test_fuzz_steps.py` lives a hundred times as many lives.
"""

import os

import numpy as np
import pytest

import sparing
from reference.factories import FACTORIES, build
from reference.rules import use_reference_choice
from sparing.errors import DecisionError
from sparing.simulation import LinearWorld, draw_log

LIVES = int(os.environ.get("SPARING_FUZZ", "1"))
ROUNDS = 60
SIZES = (1.0, 1.0, 1.0, 1e-9, 1e-3, 1e3, 1e5, 1e9, 1e24, 1e49, 1e51, 0.0)


TAME = (1.0, 1.0, 1e-3, 30.0, 0.0)
"""Where calls are weighed: what a call in a context of 10⁷ moves is rounding, in the definition as in compiled code."""


def log_of(rng, seed):
    """A log of a random shape; some actions are never logged."""
    k, d = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    world = LinearWorld(n_actions=k, n_features=d, noise=0.5, seed=seed)
    return draw_log(world, rows=int(rng.integers(1, 80)), support="per-context", unsupported=0.3, seed=seed)


def odd_context(rng, d, sizes=SIZES):
    x = rng.standard_normal(d) * rng.choice(sizes)
    x[rng.integers(d)] *= rng.choice(sizes)
    if rng.random() < 0.03:
        x[rng.integers(d)] = rng.choice([np.nan, np.inf, -np.inf])
    return x


def same(one, other):
    """Two answers, bit for bit but for what is computed when read."""
    assert one[:7] == other[:7]
    assert one.play_probability == pytest.approx(other.play_probability, rel=1e-9, abs=1e-12)
    assert one.call_probability == pytest.approx(other.call_probability, rel=1e-9, abs=1e-12)


def asked(learner, x, eligible):
    try:
        return learner.decide(x, eligible=eligible)
    except DecisionError as error:
        return str(error)


@pytest.mark.parametrize("name", FACTORIES)
def test_a_life(name, tmp_path):
    """Compiled and plain answers agree at every step; a reloaded twin stays a twin; nothing but our errors is raised."""
    for life in range(LIVES):
        rng = np.random.default_rng([life, list(FACTORIES).index(name)])
        log = log_of(rng, life)
        fast, plain = build(name, log), build(name, log)
        use_reference_choice(plain)
        waiting = []
        for step in range(ROUNDS):
            x = odd_context(rng, log.n_features, TAME if fast.uses_voi else SIZES)
            eligible = None
            if step % 3 == 0:
                eligible = [a for a in log.action_names if rng.random() < 0.6] or [log.action_names[0]]
            one, other = asked(fast, x, eligible), asked(plain, x, eligible)
            if isinstance(one, str):
                assert one == other
                continue
            same(one, other)
            assert one.low <= one.value <= one.high
            if one.needs_reward:
                waiting.append((one, other))
            while waiting and rng.random() < 0.4:
                made, twin = waiting.pop(int(rng.integers(len(waiting))))
                reward = float(rng.standard_normal() * rng.choice([1.0, 1e3, 1e-6]))
                if rng.random() < 0.2:
                    fast.forget(made)
                    plain.forget(twin)
                else:
                    fast.update(made, reward)
                    plain.update(twin, reward)
            if step % 20 == 19:
                fast.save(tmp_path / "fast")
                fast = sparing.load(tmp_path / "fast")
                waiting = [(fast.open[made.id].decision, twin) for made, twin in waiting]
        assert fast.digest() == plain.digest()
        assert not fast.sets.inconsistent()


@pytest.mark.parametrize("name", [name for name in FACTORIES if name.startswith("economical")])
def test_a_life_among_contexts_of_all_sizes(name):
    """Whatever a context's size, the answer is sound and what is learnt stays exact."""
    for life in range(10 * LIVES):
        rng = np.random.default_rng([life, 77])
        log = log_of(rng, life)
        learner = build(name, log)
        for _ in range(ROUNDS):
            made = asked(learner, odd_context(rng, log.n_features), None)
            if not isinstance(made, str):
                assert made.worth >= 0
                assert made.worth == 0 or made.needs_reward
                assert made.low <= made.value <= made.high
                if made.needs_reward:
                    learner.update(made, float(rng.standard_normal()))
        assert not learner.sets.inconsistent()
