"""Off-policy estimators: identities, known biases, and the part of a policy no log can tell."""

import numpy as np
import pytest
from scipy import stats

from each import for_each
from sparing import simulation
from sparing.errors import SettingError
from sparing.evaluation import evaluate
from sparing.evaluation.estimators import ESTIMATORS
from sparing.log import Log, Support

K, D = 5, 3
MEAN_TYPE = ("dm", "ips", "snips", "dr", "sndr", "mlips", "aipw")


class Softmax:
    """π(a|x) ∝ exp(x·θ_a)."""

    def __init__(self, theta, names=None):
        self.theta = theta
        self.action_names = tuple(range(len(theta))) if names is None else names

    def probabilities(self, contexts):
        scores = np.exp(contexts @ self.theta.T)
        return scores / scores.sum(axis=1, keepdims=True)


def world_and_policy(seed=0, noise=0.5):
    world = simulation.LinearWorld(n_actions=K, n_features=D, noise=noise, seed=seed)
    return world, Softmax(2 * world.theta)


def true_value(world, policy, rounds=200_000):
    contexts = world.contexts(rounds, np.random.default_rng(99))
    return float((policy.probabilities(contexts) * world.means(contexts)).sum(axis=1).mean())


@pytest.fixture(scope="module")
def repeated():
    """The same policy on many logs of one world with full support, and what it is truly worth."""
    world, policy = world_and_policy()
    found = []
    for seed in range(200):
        log = simulation.draw_log(world, rows=400, unsupported=0.0, seed=seed)
        methods = [name for name in ESTIMATORS if seed < 40 or name != "mlips"]  # fitting takes its time
        found.append(evaluate(log, policy, clip=1.5, ridge=0.01, methods=methods))
    return world, policy, found, true_value(world, policy)


def estimates_by(method, found):
    return [run[method] for run in found if any(e.method == method for e in run.estimates)]


@pytest.mark.parametrize("method", MEAN_TYPE)
def test_unbiased_with_full_support(repeated, method):
    _, _, found, truth = repeated
    values = np.array([estimate.value for estimate in estimates_by(method, found)])
    error = values.std(ddof=1) / np.sqrt(len(values))
    # a self-normalised ratio's bias is of the order of its variance, 1/n; the others have none
    allowance = 4 * error + (values.var() if method in ("snips", "sndr", "mlips") else 0)
    assert abs(values.mean() - truth) < allowance


@pytest.mark.parametrize("method", MEAN_TYPE)
def test_normal_interval_covers_with_full_support(repeated, method):
    _, _, found, truth = repeated
    runs = estimates_by(method, found)
    covered = sum(run.low <= truth <= run.high for run in runs)
    assert covered >= len(runs) * 0.95 - 3.3 * np.sqrt(len(runs) * 0.95 * 0.05)


def test_clipping_bias_is_the_mass_it_takes_away(repeated):
    world, policy, found, truth = repeated
    contexts = world.contexts(200_000, np.random.default_rng(98))
    taken = np.maximum(policy.probabilities(contexts) - 1.5 / K, 0)
    bias = -(taken * world.means(contexts)).sum(axis=1).mean()
    values = np.array([run["clipped"].value for run in found]) - truth
    assert abs(values.mean() - bias) < 4 * values.std(ddof=1) / np.sqrt(len(values))
    masses = np.array([run["clipped"].clipped_mass for run in found])
    assert abs(masses.mean() - taken.sum(axis=1).mean()) < 4 * masses.std(ddof=1) / np.sqrt(len(masses))


@pytest.mark.parametrize("support", list(simulation.LOGGING))
def test_proposition_1_ips_bias_is_minus_the_reward_outside_the_support(support):
    world = simulation.LinearWorld(n_actions=K, n_features=D, noise=0.5, seed=3, offset=2.0)
    policy = Softmax(0.3 * world.theta)
    logging = simulation.logging_policy(support, world, unsupported=0.4, seed=5)
    contexts = world.contexts(100_000, np.random.default_rng(97))
    outside = logging.probabilities(contexts) == 0
    bias = -(policy.probabilities(contexts) * world.means(contexts) * outside).sum(axis=1).mean()
    values = []
    for seed in range(150):
        log = simulation.draw_log(world, rows=400, policy=logging, seed=seed)
        values.append(evaluate(log, policy, methods=["ips"])["ips"].value)
    values = np.array(values) - true_value(world, policy)
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(bias) > 10 * error  # there is a bias to be seen
    assert abs(values.mean() - bias) < 4 * error


def test_the_logging_policy_itself_is_worth_the_logged_mean():
    world, _ = world_and_policy()
    log = simulation.draw_log(world, rows=500, support="sharpened", unsupported=0.3, seed=0)
    found = evaluate(log, log.support.distribution(), methods=["ips", "snips", "clipped"], clip=1)
    for estimate in found.estimates:
        assert estimate.value == pytest.approx(log.rewards.mean(), rel=1e-12)
        assert estimate.unsupported_mass == pytest.approx(0, abs=1e-12)
        assert estimate.effective_sample_size == pytest.approx(500)
        assert not estimate.flagged


def test_no_clipping_is_ips():
    world, policy = world_and_policy()
    log = simulation.draw_log(world, rows=300, unsupported=0.0, seed=0)
    found = evaluate(log, policy, methods=["ips", "clipped", "cab"], clip="inf")
    assert found["clipped"].value == pytest.approx(found["ips"].value, rel=1e-12)
    assert found["cab"].value == pytest.approx(found["ips"].value, rel=1e-12)


def test_doubly_robust_with_no_model_is_ips():
    world, policy = world_and_policy()
    log = simulation.draw_log(world, rows=300, unsupported=0.0, seed=0)
    found = evaluate(log, policy, ridge=1e15, methods=["ips", "snips", "dr", "aipw", "sndr"])
    assert found["dr"].value == pytest.approx(found["ips"].value, abs=1e-9)
    assert found["aipw"].value == pytest.approx(found["ips"].value, abs=1e-9)
    assert found["sndr"].value == pytest.approx(found["snips"].value, abs=1e-9)


def tiny():
    """Two contexts, three actions; the third is unsupported in the first row, all are in the second."""
    contexts = np.array([[1.0], [1.0], [1.0], [1.0]])
    distribution = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.25, 0.25, 0.5]])
    log = Log.from_arrays(
        contexts,
        [0, 1, 2, 0],
        [1.0, 0.0, 2.0, 1.0],
        distribution=distribution,
        action_names=[0, 1, 2],
        context_ids=[0, 1, 2, 3],
    )
    policy = np.array([[0.2, 0.2, 0.6], [0.2, 0.2, 0.6], [0.2, 0.2, 0.6], [0.2, 0.2, 0.6]])
    return log, policy


def student_half(rows):
    squares = (rows - rows.mean()) ** 2
    freedom = squares.sum() ** 2 / (squares**2).sum() - 1
    return stats.t.ppf(0.975, freedom) * rows.std(ddof=1) / np.sqrt(len(rows))


def test_support_aware_terms_by_hand():
    log, policy = tiny()
    times = np.repeat(np.arange(4), 10)
    log, policy = log.take(times), policy[times]
    found = evaluate(log, policy, methods=["ips", "snips", "clipped"], reward_range=(-1, 3), clip=1.0)
    weights = np.array([0.4, 0.4, 1.2, 0.8])[times]
    terms, outside = weights * log.rewards, np.array([0.6, 0.6, 0.0, 0.0])[times]
    low, high = terms - outside, terms + 3 * outside
    ips = found["ips"]
    assert ips.value == pytest.approx(terms.mean())
    assert ips.unsupported_mass == pytest.approx(0.3)
    assert ips.flagged
    assert ips.support_low == pytest.approx(low.mean() - student_half(low))
    assert ips.support_high == pytest.approx(high.mean() + student_half(high))
    ratio = terms.sum() / weights.sum()
    half = student_half((terms - ratio * weights) / weights.mean())
    snips = found["snips"]
    assert snips.value == pytest.approx(ratio)
    assert snips.low == pytest.approx(ratio - half)
    assert snips.support_low == pytest.approx(0.7 * (ratio - half) + 0.3 * -1)
    assert snips.support_high == pytest.approx(0.7 * (ratio + half) + 0.3 * 3)
    cut = np.array([0.0, 0.0, 0.1, 0.1])[times]  # π − μ where positive, M = 1, less what is unsupported
    clipped, kept = found["clipped"], np.minimum(weights, 1) * log.rewards
    assert clipped.unsupported_mass == pytest.approx(0.3)
    assert clipped.clipped_mass == pytest.approx(cut.mean())
    assert clipped.value == pytest.approx(kept.mean())
    assert clipped.low == pytest.approx((kept - cut).mean() - student_half(kept - cut))
    assert clipped.high == pytest.approx((kept + 3 * cut).mean() + student_half(kept + 3 * cut))


def test_direct_methods_leave_the_model_out_where_the_log_is_blind():
    """What r̂ says of unsupported actions moves the value, never the support-aware bounds."""
    world, policy = world_and_policy(seed=4)
    log = simulation.draw_log(world, rows=600, support="never-logged", unsupported=0.4, seed=1)
    for ridge in (0.1, 10.0):
        found = evaluate(log, policy, ridge=ridge, reward_range=(-3, 3), methods=["dr", "aipw", "sndr"])
        for estimate in found.estimates:
            width = estimate.support_high - estimate.support_low
            assert width >= 6 * estimate.unsupported_mass
            assert estimate.support_low < true_value(world, policy) < estimate.support_high


def test_model_band_is_narrower_where_the_log_teaches():
    world, policy = world_and_policy(seed=4)
    log = simulation.draw_log(world, rows=3000, support="region", unsupported=0.4, seed=1)
    wide = evaluate(log, policy, methods=["ips"], reward_range=(-5, 5))["ips"]
    narrow = evaluate(log, policy, methods=["ips"], band="model")["ips"]
    assert narrow.support_high - narrow.support_low < wide.support_high - wide.support_low
    assert narrow.support_low < true_value(world, policy) < narrow.support_high


def test_unknown_support_is_never_called_healthy():
    world, policy = world_and_policy(seed=4)
    log = simulation.draw_log(world, rows=2000, support="never-logged", unsupported=0.4, seed=1)
    blind = Log.from_arrays(
        log.contexts, log.actions, log.rewards, propensities=log.propensities, action_names=log.action_names
    )
    found = evaluate(blind, policy, reward_range=(-3, 3))
    truth = evaluate(log, policy, methods=["ips"])["ips"].unsupported_mass
    assert found["ips"].unsupported_mass == pytest.approx(truth, abs=0.1)  # seen from the weights alone
    assert all(estimate.flagged for estimate in found.estimates)
    assert found["dr"].support_low is None
    assert "unknown" in " ".join(found["dr"].notes)
    assert "cab" in found.unusable


def test_policy_over_fewer_or_reordered_labels():
    world, _ = world_and_policy()
    log = simulation.draw_log(world, rows=200, unsupported=0.0, seed=0)
    table = np.zeros((200, K))
    table[:, 3], table[:, 1] = 0.25, 0.75

    class Two:
        action_names = (3, 1)

        def probabilities(self, contexts):
            return np.tile([0.25, 0.75], (len(contexts), 1))

    by_label = evaluate(log, Two(), methods=["ips", "dm"])
    by_table = evaluate(log, table, methods=["ips", "dm"])
    assert [e.value for e in by_label.estimates] == [e.value for e in by_table.estimates]


def test_blocks_do_not_change_the_answer(monkeypatch):
    world, policy = world_and_policy()
    log = simulation.draw_log(world, rows=700, support="region", unsupported=0.3, seed=0)
    methods = [name for name in ESTIMATORS if name != "mlips"]
    whole = evaluate(log, policy, methods=methods)
    monkeypatch.setattr("sparing.log.passes.CELLS", 64)
    pieces = evaluate(log, policy, methods=methods)
    for one, other in zip(whole.estimates, pieces.estimates, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-12)
        assert one.support_low == pytest.approx(other.support_low, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["magic"]}, "known are dm"),
        ({"interval": "exact"}, "interval='exact'"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"band": "wide"}, "band='wide'"),
        ({"reward_range": (1, 0)}, "reward_range"),
        ({"reward_range": (0, np.nan)}, "reward_range"),
        ({"flag_mass": 2}, "flag_mass"),
        ({"interval": "bernstein", "reward_range": (0, 0.1), "methods": ["clipped"]}, "every reward inside"),
        ({"interval": "bernstein", "methods": ["ips"]}, "bounded terms"),
    ],
)
def test_bad_settings(change, message):
    log, policy = tiny()
    with pytest.raises(SettingError, match=message):
        evaluate(log, policy, **change)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((4, 3), 0.5), "row 0 sum to 1.5"),
        (np.full((4, 2), 0.5), r"shape \(4, 2\)"),
        (np.array([[1.0, 0, 0]] * 3 + [[2.0, -1.0, 0]]), "row 3"),
        (np.array([[1.0, 0, 0]] * 2 + [[np.nan, 1, 0]] + [[1.0, 0, 0]]), "row 2"),
        (Softmax(np.zeros((1, 1)), names=("new",)), "has action 'new'"),
    ],
)
def test_a_policy_that_is_none(policy, message):
    log, _ = tiny()
    with pytest.raises(SettingError, match=message):
        evaluate(log, policy)


def test_policy_that_never_agrees():
    log, _ = tiny()
    only = np.tile([0.0, 0.0, 1.0], (4, 1))
    sub = log.take(np.array([0, 1, 3]))
    found = evaluate(sub, only[:3], reward_range=(0, 2))
    assert found["ips"].value == 0
    assert found["ips"].unsupported_mass == pytest.approx(2 / 3)
    assert "never agrees" in found.unusable["snips"]


def test_deficient_actions_that_others_miss():
    """Three actions never logged, a policy that plays them: the plain interval misses, ours does not."""
    world = simulation.LinearWorld(n_actions=6, n_features=4, noise=0.5, seed=11)
    contexts = world.contexts(100_000, np.random.default_rng(0))
    best = np.argsort(-world.means(contexts).mean(axis=0))
    log = simulation.draw_log(world, rows=4000, never=best[:3].tolist(), seed=2)
    policy = Softmax(3 * world.theta)
    truth = true_value(world, policy)
    found = evaluate(log, policy, reward_range=(-4, 4))
    for method in ("ips", "snips", "dr"):
        assert not found[method].low <= truth <= found[method].high
        assert found[method].support_low <= truth <= found[method].support_high
        assert found[method].flagged
        assert "NOT SUPPORTED" in str(found[method])
    assert found.flagged


def test_support_kind_estimated_is_said():
    log, policy = tiny()
    mask = log.support.mask()
    estimated = Log.from_arrays(
        log.contexts,
        log.actions,
        log.rewards,
        propensities=log.propensities,
        support=Support.from_mask(mask, kind="estimated"),
        action_names=log.action_names,
    )
    found = evaluate(estimated, policy, methods=["ips"])
    assert "estimated" in " ".join(found["ips"].notes)
    assert found.support == "estimated"


def test_a_misspelt_setting_is_refused():
    log, policy = tiny()
    with pytest.raises(TypeError, match="nois"):
        evaluate(log, policy, nois=3.0)


def without_support(log, *, propensities=True):
    return Log.from_arrays(
        log.contexts,
        log.actions,
        log.rewards,
        propensities=log.propensities if propensities else None,
        action_names=log.action_names,
    )


@for_each("seed", range(20))
def test_snips_bounds_keep_their_order_where_the_mass_is_estimated(seed):
    """With full support the mean weight is above 1 in half of the logs: the mass is then 0, not negative."""
    world, policy = world_and_policy()
    log = without_support(simulation.draw_log(world, rows=300, unsupported=0.0, seed=seed))
    found = evaluate(log, policy, methods=["snips"], reward_range=(-20, 20))["snips"]
    assert found.support_low <= found.low + 1e-12
    assert found.support_high >= found.high - 1e-12


def test_fitted_propensities_do_not_tell_the_support():
    world, policy = world_and_policy()
    log = simulation.draw_log(world, rows=500, support="per-context", unsupported=0.4, seed=0)
    found = evaluate(without_support(log, propensities=False), policy, methods=["mlips"])["mlips"]
    assert found.unsupported_mass is None
    assert found.support_low is None
    assert found.flagged


def test_clipping_is_not_called_a_lack_of_support():
    world, policy = world_and_policy()
    log = simulation.draw_log(world, rows=400, unsupported=0.0, seed=0)
    found = evaluate(log, policy, clip=1.0)
    assert found["clipped"].clipped_mass > 0.3
    assert found.unsupported_mass == pytest.approx(0, abs=1e-12)
    assert not found.flagged


def test_three_of_six_is_flagged_by_every_method():
    """A log in which each context only ever sees 3 of 6 actions, and the same without its support."""
    world = simulation.LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=2)
    log = simulation.draw_log(world, rows=1500, support="per-context", unsupported=0.5, seed=1)
    uniform = np.full((1500, 6), 1 / 6)
    known = evaluate(log, uniform)
    assert known.unsupported_mass == pytest.approx(0.5)
    assert all(estimate.flagged for estimate in known.estimates)
    blind = evaluate(without_support(log), uniform)
    assert blind["ips"].unsupported_mass == pytest.approx(0.5)
    assert all(estimate.flagged for estimate in blind.estimates)


def test_an_arm_that_the_log_lacks_is_flagged():
    world = simulation.LinearWorld(n_actions=4, n_features=3, noise=0.5, seed=2)
    log = simulation.draw_log(world, rows=800, never=[3], seed=1)
    table = np.tile([0.0, 0.0, 0.0, 1.0], (800, 1))
    found = evaluate(log, table, reward_range=(-3, 3))
    assert found.unsupported_mass == 1
    assert all(estimate.flagged for estimate in found.estimates)
    assert found["ips"].support_low == pytest.approx(-3)
    assert found["ips"].support_high == pytest.approx(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, np.ones((1, 1))), "expected a Log"),
        ((tiny()[0], "uniform"), "expected a policy"),
        ((tiny()[0], simulation), "expected a policy"),
    ],
)
def test_what_is_not_a_log_or_a_policy(arguments, message):
    with pytest.raises(SettingError, match=message):
        evaluate(*arguments)


def test_one_method_by_its_name():
    log, policy = tiny()
    assert [e.method for e in evaluate(log, policy, methods="ips").estimates] == ["ips"]


def test_eligible_actions_without_a_row_are_told():
    """Eligible everywhere, never logged: the sets call it supported, the rows know nothing of it."""
    log = Log.from_arrays(
        np.ones((60, 1)), [0, 1] * 30, [1.0, 0.0] * 30, propensities=[0.5] * 60, eligible=[[0, 1, 2]] * 60
    )
    found = evaluate(log, np.tile([0.2, 0.2, 0.6], (60, 1)), methods=["ips"])["ips"]
    assert found.unsupported_mass == 0
    assert found.flagged
    assert "60.0% of the policy's probability is on actions" in " ".join(found.notes)
