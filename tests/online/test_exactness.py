"""What a learner says is exact to its stated error at every scale it accepts; what cannot be is refused at the door.

The judge is fifty-digit arithmetic over the very rows that were taken in.
"""

import math

import mpmath
import numpy as np
import pytest

import sparing
from each import for_each
from sparing.errors import DecisionError, SettingError
from sparing.model.confidence import Assumptions
from sparing.model.statistics import Statistics
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.engine.updates import CONDITION, EXACT

DIGITS = 50


def empty(k, d, ridge):
    sums = Statistics(np.zeros(k, dtype=int), np.zeros((k, d, d)), np.zeros((k, d)), np.zeros(k), 0.0)
    given = Assumptions(noise=1.0, theta_bound=1.0, context_bound=1.0, ridge=ridge)
    return ConfidenceSets(sums, given, constant=1.0)


def true_values(rows, rewards, ridge, points):
    """x·θ̂ and sqrt(xᵀV⁻¹x) at each point, V = λI + Σxxᵀ, in fifty digits; and V's condition in no units."""
    with mpmath.workdps(DIGITS):
        d = len(points[0])
        gram, response = ridge * mpmath.eye(d), mpmath.zeros(d, 1)
        for x, r in zip(rows, rewards, strict=True):
            exact = [mpmath.mpf(float(v)) for v in x]
            for i in range(d):
                response[i] += exact[i] * mpmath.mpf(float(r))
                for j in range(d):
                    gram[i, j] += exact[i] * exact[j]
        inverse = gram**-1
        theta = inverse * response
        condition = sum(gram[i, i] * inverse[i, i] for i in range(d))
        found = []
        for point in points:
            x = mpmath.matrix([mpmath.mpf(float(v)) for v in point])
            found.append(((x.T * theta)[0], mpmath.sqrt((x.T * inverse * x)[0])))
        return found, condition


def contexts_of(kind, rng, n, d, scale):
    """Rows that are hard in one way or another, of about a size."""
    x = rng.standard_normal((n, d))
    if kind == "constant and time":
        x = np.column_stack([np.ones(n), scale + rng.random((n, d - 1)) * 1e-4 * scale])
    elif kind == "nearly alike":
        x = scale * (1 + 1e-3 * x)
    elif kind == "mixed units":
        x = x * np.array([scale, *10.0 ** rng.integers(-3, 4, d - 1)])
    else:
        x = scale * x
    return x


KINDS = ("plain", "constant and time", "nearly alike", "mixed units")


@for_each("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e4, 1e6, 3e8, 1e10, 1e12])
def test_means_and_widths_are_exact_or_the_row_is_refused(kind, scale):
    rng = np.random.default_rng([KINDS.index(kind), int(math.log10(scale)) + 6])
    accepted = 0
    for d, ridge, reward in [(2, 1.0, 1.0), (3, 1e-4, 1e3), (4, 100.0, 1e-3), (3, scale**2, 1.0)]:
        sets, rows, rewards = empty(2, d, ridge), [], []
        for x in contexts_of(kind, rng, 40, d, scale):
            r = reward * float(rng.standard_normal())
            before = sets.inverse[0], sets.theta[0], sets.digest
            if not sets.add_observation(0, x, r):
                assert np.array_equal(sets.inverse[0], before[0])
                assert np.array_equal(sets.theta[0], before[1])
                assert sets.digest == before[2]
                continue
            rows.append(x)
            rewards.append(r)
            if len(rows) in (1, 2, d + 1, 40):
                points = [rows[0], rows[-1], scale * rng.standard_normal(d), rng.standard_normal(d)]
                true, condition = true_values(rows, rewards, ridge, points)
                assert condition <= 1.001 * CONDITION
                size = math.sqrt(sum(value * value for value in rewards))
                for point, (mean, width) in zip(points, true, strict=True):
                    got_mean, got_width = (float(array[0]) for array in sets.evaluate(point))
                    assert abs(got_width - width) <= EXACT * width
                    assert abs(got_mean - mean) <= EXACT * width * size
        accepted += len(rows)
    assert accepted >= 40, "a door that is always shut is not an answer"


def test_ordinary_rows_are_far_more_exact_than_promised():
    rng = np.random.default_rng(0)
    sets, rows = empty(1, 6, 1.0), rng.random((300, 6))
    for x in rows:
        sets.add_observation(0, x, float(x.sum()))
    points = [rows[0], rows[-1], rng.standard_normal(6)]
    true, _ = true_values(rows, rows.sum(axis=1), 1.0, points)
    for point, (mean, width) in zip(points, true, strict=True):
        got_mean, got_width = (float(array[0]) for array in sets.evaluate(point))
        assert abs(got_width / width - 1) < 1e-12
        assert abs(got_mean - mean) < 1e-11


UNIX = 1.75e9


@pytest.mark.parametrize("scale", [1e6, 3e8, UNIX, 1e12])
def test_certified_keeps_its_promise_on_a_column_of_unix_time(scale):
    """A constant and a time of day in seconds: skips cost at most the tolerance, and widths are not zero."""
    rng = np.random.default_rng(3)
    theta = np.array([[2.5, 0.5 / scale], [-1.0, 0.0], [-1.5, -0.5 / scale]])
    contexts = np.column_stack([np.ones(600), scale + 86400 * rng.random(600)])
    actions = rng.integers(0, 2, 200)
    rewards = (contexts[:200] * theta[actions]).sum(axis=1) + 0.5 * rng.standard_normal(200)
    log = sparing.Log.from_arrays(contexts[:200], actions, rewards, action_names=[0, 1, 2])
    bounds = {"noise": 0.5, "theta_bound": 3.0, "context_bound": float(2 * scale)}
    learner = sparing.certified(log, tolerance=0.5, **bounds)
    skipped, wrong = 0, 0
    for x in contexts[200:]:
        decision = learner.decide(x)
        assert decision.high > decision.low
        means = theta @ x
        if decision.needs_reward:
            learner.update(decision, float(means[decision.action] + 0.5 * rng.standard_normal()))
        else:
            skipped += 1
            wrong += means.max() - means[decision.action] > 0.5
    assert wrong == 0
    assert skipped > 100


def test_what_cannot_be_exact_is_refused_and_changes_nothing(tmp_path):
    rng = np.random.default_rng(1)
    learner = sparing.linucb(n_actions=3, n_features=4)
    for x in rng.random((20, 4)):
        learner.update(learner.decide(x), 1.0)
    learner.save(tmp_path / "before")
    for x in 1e9 * rng.standard_normal((20, 4)):
        with pytest.raises(DecisionError, match=r"cannot be learnt exactly.*Scale the features"):
            learner.decide(x)
    learner.save(tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()
    log = sparing.Log.from_arrays(
        1e9 * rng.standard_normal((6, 4)), [0, 1, 2] * 2, rng.random(6), action_names=[0, 1, 2]
    )
    with pytest.raises(SettingError, match="scale the features"):
        sparing.warm_started(log, noise=1.0, theta_bound=1.0)


def answer(ask, x):
    """An answer, or the words with which a context is refused that could not be learnt from."""
    try:
        return ask(x)
    except DecisionError as error:
        return str(error)


@for_each("scale", [1e-6, 1.0, 1e4, 1e5, 1e8, 1e12])
@pytest.mark.parametrize("name", ["warm_started", "certified", "confident", "linucb", "moful"])
def test_what_is_saved_can_be_loaded_at_every_scale(name, scale, tmp_path):
    """At whatever scale a learner lives, and however long it has lived."""
    for seed in range(3):
        rng = np.random.default_rng([seed, 7])
        d = 3
        contexts = np.column_stack([np.ones(300), scale * (1 + rng.random((300, d - 1)))])
        theta = rng.standard_normal((4, d)) / np.array([1.0, scale, scale])
        actions = rng.integers(0, 4, 150)
        rewards = (contexts[:150] * theta[actions]).sum(axis=1) + 0.3 * rng.standard_normal(150)
        log = sparing.Log.from_arrays(contexts[:150], actions, rewards, action_names=range(4))
        given = {} if name == "confident" else {"noise": 0.3, "theta_bound": 3.0, "context_bound": 4 * scale}
        learner = getattr(sparing, name)(log, ridge=1.0, **given)
        open_calls = []
        for t, x in enumerate(contexts[150:]):
            decision = answer(learner.decide, x)
            if isinstance(decision, str):
                continue
            if decision.needs_reward and t % 3:
                learner.update(decision, float(theta[decision.action] @ x + 0.3 * rng.standard_normal()))
            elif decision.needs_reward:
                open_calls.append(decision)
            if t % 7 == 0 and open_calls:
                learner.forget(open_calls.pop(0))
        learner.save(tmp_path / "learner")
        twin = sparing.load(tmp_path / "learner")
        assert twin.digest() == learner.digest()
        for x in contexts[:20]:
            assert answer(twin.propose, x) == answer(learner.propose, x)


def test_the_noise_of_confident_is_raised_only_where_exactness_asks_for_it():
    """Features in large units do not make rewards noisier; nearly equal ones far above the prior's ridge do."""
    rng = np.random.default_rng(2)
    contexts = np.column_stack([np.ones(300), UNIX + 1e7 * rng.random(300)])
    log = sparing.Log.from_arrays(contexts, [0, 1, 2] * 100, rng.random(300), action_names=[0, 1, 2, 3])
    assert sparing.confident(log, noise=0.3).assumptions.noise == 0.3
    alike = np.column_stack([1e7 * np.ones(300), 1e7 + rng.random(300)])
    log = sparing.Log.from_arrays(alike, [0, 1, 2] * 100, rng.random(300), action_names=[0, 1, 2, 3])
    learner = sparing.confident(log, noise=1e-6, prior_scale=1.0)
    assert learner.assumptions.noise > 1e-6
    assert not learner.sets.inconsistent()
