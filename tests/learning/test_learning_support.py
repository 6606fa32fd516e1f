"""Where a policy may act: the support of logged and of new contexts, and learners that never leave it."""

import numpy as np
import pytest

from sparing.errors import LogError, SettingError
from sparing.learning import learn
from sparing.log import Log, Support
from sparing.policies.policy import UniformPolicy
from sparing.policies.support import KnownSupport, UserSupport
from sparing.simulation import LinearWorld
from sparing.simulation.logging_policies import draw_log, logging_policy

KINDS = ("per-context", "never-logged", "region", "sharpened")
FIXED = {"opr": {"k": -0.5, "l2": 1e-4}, "opr-dlm": {"epsilon": 1.0}, "caipwl": {"l2": 1e-4}}


def drawn(kind, seed, rows=250):
    world = LinearWorld(n_actions=7, n_features=3, noise=1.0, seed=seed)
    policy = logging_policy(kind, world, unsupported=0.4, seed=seed)
    fresh = world.contexts(400, np.random.default_rng([seed, 9]))
    return draw_log(world, rows=rows, policy=policy, seed=seed), policy, fresh


@pytest.mark.parametrize("method", FIXED)
@pytest.mark.parametrize("kind", KINDS)
def test_restricted_learners_never_leave_the_support(method, kind):
    for seed in range(4):
        log, mu, fresh = drawn(kind, seed)
        outside = ~log.support.mask()
        by_log = learn(log, method, seed=seed, **FIXED[method])
        assert (by_log.probabilities(log.contexts)[outside] == 0).all()
        told = learn(log, method, seed=seed, support=mu, **FIXED[method])
        for contexts in (log.contexts, fresh):
            forbidden = mu.probabilities(contexts) == 0
            assert forbidden.any()
            assert (told.probabilities(contexts)[forbidden] == 0).all()
            drawn_actions = told.indices(contexts, np.random.default_rng(seed))
            assert not forbidden[np.arange(len(contexts)), drawn_actions].any()


@pytest.mark.parametrize("method", ["opr", "opr-dlm"])
def test_choosing_hyper_parameters_does_not_leave_the_support_either(method):
    log, mu, fresh = drawn("per-context", 0, rows=150)
    policy = learn(log, method, support=mu)
    assert (policy.probabilities(fresh)[mu.probabilities(fresh) == 0] == 0).all()


@pytest.mark.parametrize("method", ["greedy", "pessimistic", "poem", "norm-poem"])
def test_other_learners_stay_where_they_are_told_to(method):
    log, mu, fresh = drawn("region", 1, rows=120)
    options = {"clip": np.inf, "penalty": 0.5, "l2": 1e-3} if "poem" in method else {}
    policy = learn(log, method, support=mu, **options)
    assert (policy.probabilities(fresh)[mu.probabilities(fresh) == 0] == 0).all()


def test_new_contexts_without_a_support_get_what_is_likely_supported_and_a_note():
    log, _, fresh = drawn("per-context", 2)
    policy = learn(log, "opr", **FIXED["opr"])
    assert (policy.probabilities(fresh) > 0).all()
    assert any("not in the log may get the actions it is likely to support" in note for note in policy.notes)
    log, mu, fresh = drawn("never-logged", 2)
    policy = learn(log, "opr", **FIXED["opr"])
    assert (policy.probabilities(fresh)[mu.probabilities(fresh) == 0] == 0).all()
    assert any("support the same actions" in note for note in policy.notes)


def test_an_action_that_was_never_logged_is_never_chosen():
    log, mu, fresh = drawn("never-logged", 3)
    never = mu.probabilities(fresh)[0] == 0
    for method in ("greedy", "pessimistic"):
        policy = learn(log, method)
        assert not policy.probabilities(fresh)[:, never].any()
        assert any(f"{never.sum()} actions that were never logged" in note for note in policy.notes)


def test_extrapolation_leaves_the_support_on_the_word_of_its_model_and_says_so():
    """Action 1 pays 10 where it can be taken, on half the contexts; action 0 pays 1 everywhere.

    On the other half IPS alone would take action 0, because it sees nothing of action 1.
    """
    rng = np.random.default_rng(0)
    side = rng.integers(0, 2, 400)
    mask = np.stack([np.ones(400), side == 0], axis=1).astype(bool)
    actions = np.where(mask[:, 1], rng.integers(0, 2, 400), 0)
    contexts = np.stack([np.ones(400), side], axis=1)
    log = Log.from_arrays(
        contexts, actions, 1 + 9.0 * actions, distribution=mask / mask.sum(axis=1, keepdims=True)
    )
    policy = learn(log, "extrapolation", l2=1e-3)
    assert policy.probabilities(log.contexts)[side == 1, 1].mean() > 0.9
    assert any("unsupported actions" in note for note in policy.notes)
    by_weights = learn(log, "poem", clip=np.inf, penalty=0.0, l2=1e-3)
    assert by_weights.probabilities(log.contexts)[side == 1, 1].mean() < 0.1
    restricted = learn(log, "opr", k=0.0, l2=1e-3)
    assert (restricted.probabilities(log.contexts)[side == 1, 1] == 0).all()


@pytest.mark.parametrize("method", ["poem", "norm-poem"])
def test_bad_rewards_do_not_drive_a_policy_to_actions_that_were_never_logged(method):
    rng = np.random.default_rng(0)
    log = Log.from_arrays(
        rng.random((100, 2)),
        rng.integers(0, 2, 100),
        np.full(100, -5.0),
        propensities=np.full(100, 0.5),
        action_names=range(3),
    )
    policy = learn(log, method, clip=np.inf, penalty=0.0, l2=1e-3)
    assert (policy.probabilities(rng.random((50, 2)))[:, 2] == 0).all()


def test_known_sets_by_exact_context():
    contexts = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0]])
    mask = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]], dtype=bool)
    log = Log.from_arrays(
        contexts, [0, 1, 0], [0, 0, 0], support=Support.from_mask(mask), action_names=range(3)
    )
    model = KnownSupport.of(log)
    found = model(np.array([[2.0, 1.0], [1.0, 0.0], [1.0, -0.0], [1.0, 1e-300]]))
    np.testing.assert_array_equal(found, [[0, 1, 1], [1, 1, 0], [1, 1, 0], [1, 1, 1]])
    assert model(np.empty((0, 2))).shape == (0, 3)


def test_one_set_for_all_contexts_is_kept_once():
    mask = np.array([True, False, True])
    log = Log.from_arrays(
        np.random.default_rng(0).random((20, 2)),
        np.zeros(20, int),
        np.zeros(20),
        support=Support.constant(mask, 20),
        action_names=range(3),
    )
    model = KnownSupport.of(log)
    assert len(model.contexts) == 0
    np.testing.assert_array_equal(model(np.ones((4, 2))), np.tile(mask, (4, 1)))


def unknown_support():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 3, 90)
    return Log.from_arrays(
        rng.random((90, 2)), actions, actions + rng.normal(size=90), propensities=np.full(90, 1 / 3)
    )


def test_an_unknown_support_is_asked_for_and_can_be_given_in_three_ways():
    log = unknown_support()
    for method in ("opr", "opr-dlm", "extrapolation", "caipwl"):
        with pytest.raises(LogError, match=r"support is unknown.*support="):
            learn(log, method)
    ways = (
        [0, 1, 2],
        lambda contexts: np.ones((len(contexts), 3), dtype=bool),
        UniformPolicy(log.action_names),
        KnownSupport.fixed(np.ones(3, dtype=bool), 2),
    )
    tables = [learn(log, "opr", k=0.0, l2=0.01, support=way).probabilities(log.contexts) for way in ways]
    for table in tables[1:]:
        np.testing.assert_array_equal(table, tables[0])


@pytest.mark.parametrize(
    ("support", "words"),
    [
        ([0, 1], "leaves out action 2"),
        ([0, 1, 9], "one or more of the log's actions"),
        ([], "one or more of the log's actions"),
        ("everything", "function of contexts"),
        (3, "function of contexts"),
        (lambda contexts: np.ones((len(contexts), 3)), "expected booleans"),
        (lambda contexts: np.ones((len(contexts), 2), dtype=bool), "expected booleans of shape"),
        (lambda contexts: np.zeros((len(contexts), 3), dtype=bool), "allows no action"),
        (UniformPolicy((0, 1)), "is a policy over"),
        (KnownSupport.fixed(np.ones(4, dtype=bool), 2), "of 4 actions for a log of 3"),
    ],
)
def test_supports_that_do_not_fit(support, words):
    with pytest.raises(SettingError, match=words):
        learn(unknown_support(), "opr", support=support)


def test_a_support_wider_than_the_logs_own_is_refused():
    log, mu, _ = drawn("region", 4)
    with pytest.raises(SettingError, match="which the log's own support excludes"):
        learn(log, "opr", support=lambda contexts: np.ones((len(contexts), 7), dtype=bool))
    assert UserSupport(lambda x: mu.probabilities(x) > 0, 7)(log.contexts).shape == (250, 7)


def test_a_known_support_checks_itself():
    with pytest.raises(SettingError, match="at least one"):
        KnownSupport.fixed(np.zeros(3, dtype=bool), 2)
    with pytest.raises(SettingError, match="one packed row"):
        KnownSupport(np.zeros((2, 2)), np.zeros((1, 1), dtype=np.uint8), np.ones(3, dtype=bool))
