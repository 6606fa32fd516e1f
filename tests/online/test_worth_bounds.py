"""What `economical` keeps from round to round: the best two means at every context, and bounds that hold whatever was learnt since."""

import numpy as np
import pytest

import sparing
from reference.worth import psi, unpacked
from sparing.simulation import LinearWorld, draw_log


def kept(learner, name, ahead=False):
    """A field of the foresight of this thread."""
    table = learner.sets.scratch.pending if ahead else learner.sets.scratch.observed
    held = table.held[1 + list(type(table).fields).index(name)]
    return held if type(table).fields[name][1] else held[0]


def visible(learner, ahead):
    """The slots of the actions that may be played, an untouched action's being 0."""
    slots = learner.sets.arrays.pending_slot if ahead else learner.sets.arrays.observed_slot
    return slots[learner.active()]


def means_of(learner):
    """x_j·θ̂_a, in the mean over the reservoir (K,)."""
    return (learner.sets.arrays.context_sample @ learner.sets.theta.T).mean(axis=0)


def check(learner, rng, ahead=False):
    """Compare with plain NumPy; the largest share of a bound that the truth took, of `hope` and of the forms."""
    sets, slots = learner.sets, visible(learner, ahead)
    if kept(learner, "known", ahead) < sets.arrays.resampled:
        return 0.0, 0.0  # other contexts: the next decision computes everything anew
    reservoir, sigma, misfit = sets.arrays.context_sample, sets.arrays.common, sets.misfit
    means = reservoir @ sets.arrays.theta[slots].T
    top = np.sort(means, axis=1)
    assert kept(learner, "best", ahead) == pytest.approx(top[:, -1], rel=1e-12, abs=1e-12)
    assert kept(learner, "rival", ahead) == pytest.approx(top[:, -2], rel=1e-12, abs=1e-12)
    shares = [0.0, 0.0]
    x = rng.random(learner.n_features)
    for place, slot in enumerate(slots):
        hope = kept(learner, "voi_bound", ahead)[slot]
        if hope == np.inf:
            continue
        inverse = unpacked(sets.arrays.inverse[slot], learner.n_features)
        gap = np.abs(np.delete(means, place, axis=1).max(axis=1) - means[:, place])
        widest = sigma * np.sqrt(np.einsum("jd,de,je->j", reservoir, inverse, reservoir))
        most = psi(gap, widest).mean()
        assert most <= hope
        shares[0] = max(shares[0], most / hope)
        u = sigma**2 * (inverse @ x)
        n = 2.0 ** np.arange(8)
        s = np.abs(reservoir @ u)[:, None] * np.sqrt(n / (sigma**2 + misfit**2 + n * (x @ u)))
        truth = (psi(gap[:, None], s).mean(axis=0) / n).max()
        slope = kept(learner, "bound_slope", ahead)[slot]
        line = (slope * s[:, 0] ** 2).mean() + kept(learner, "bound_base", ahead)[slot]
        assert truth <= line * (1 + 1e-9)
        if kept(learner, "quadratic_at", ahead)[slot] >= 0:
            form = unpacked(kept(learner, "bound_quadratic", ahead)[slot], learner.n_features)
            if kept(learner, "voi_bound_at", ahead)[slot] <= kept(learner, "quadratic_at", ahead)[slot]:
                moves = sigma**2 * (reservoir @ inverse @ x) ** 2 * sigma**2 / (sigma**2 + misfit**2)
                assert x @ form @ x >= (slope * moves).mean()
            bound = kept(learner, "bound_floor", ahead)[slot] + x @ form @ x
            assert truth <= bound * (1 + 1e-9)
            shares[1] = max(shares[1], truth / bound)
    return shares


@pytest.mark.parametrize(
    "more",
    [{}, {"misfit": 0.3}, {"noise": 0.4}, {"noise": 0.2, "prior_scale": 3.0}],
    ids=["", "misfit", "noisier than said", "wide"],
)
def test_what_is_kept_holds_while_others_learn(more):
    """Calls on many actions, some still open, actions that come and go: after each decision all is compared."""
    rng = np.random.default_rng(5)
    world = LinearWorld(n_actions=24, n_features=3, noise=0.8, seed=1)
    log = draw_log(world, rows=500, support="never-logged", unsupported=0.3, seed=1)
    learner = sparing.economical(log, call_cost=0.005, horizon=4000, seed=2, **more)
    truth = np.vstack([world.theta, world.theta[3] + 0.2])
    found, forms, waiting, calls = 0.0, 0.0, [], 0
    for t in range(150):
        if t == 50:
            learner.retire(learner.action_names[means_of(learner).argmax()])
        if t == 80:
            learner.add_action("new")
        x = rng.random(3)
        decision = learner.decide(x)
        shares = check(learner, rng)
        found, forms = max(found, shares[0]), max(forms, shares[1])
        if learner._imputed and decision.reason in ("explore", "pending"):
            check(learner, rng, ahead=True)
        if decision.needs_reward:
            calls += 1
            action = learner.index(decision.action)
            waiting.append((decision, truth[action] @ x + 0.8 * rng.standard_normal()))
            rng.shuffle(waiting)
        while len(waiting) > 3 * (t % 40 < 20):
            learner.update(*waiting.pop())
    assert calls > 20
    assert found > 0.5  # bounds that say something
    assert forms > 0.2
