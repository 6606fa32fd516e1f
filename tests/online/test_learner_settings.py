"""Settings out of range are refused by every factory, with what was got in the message."""

from functools import partial

import numpy as np
import pytest

import sparing
from each import for_each
from reference.cases import make_log, parameters
from sparing.errors import DecisionError, InputError, LogError, SettingError

THETA = parameters(1)
LOG = make_log(1, THETA, rows=90)
NEED_A_LOG = {
    "eps_moful": partial(sparing.eps_moful, supported=sparing.most_logged(1)),
    "eps_moful_ips": partial(sparing.eps_moful_ips, supported=sparing.most_logged(1)),
    "warm_started": sparing.warm_started,
    "certified": sparing.certified,
    "confident": sparing.confident,
}
FACTORIES = {**NEED_A_LOG, "moful": sparing.moful, "linucb": sparing.linucb, "lints": sparing.lints}

COMMON = [
    ("delta", 0.0),
    ("delta", 1.0),
    ("delta", np.nan),
    ("ridge", 0.0),
    ("ridge", -1.0),
    ("ridge", np.inf),
    ("ridge", np.nan),
    ("noise", -0.1),
    ("noise", np.nan),
    ("theta_bound", -1.0),
    ("theta_bound", np.inf),
    ("context_bound", np.nan),
    ("radius", "square"),
    ("radius_scale", 0.0),
    ("radius_scale", np.nan),
    ("reward_range", (1.0, 0.0)),
    ("reward_range", (0.0, np.inf)),
    ("reward_range", (0.0, 0.5, 1.0)),
    ("reward_range", 1.0),
    ("reward_range", ("low", "high")),
    ("seed", -1),
    ("seed", 0.5),
    ("seed", None),
    ("tolerence", 0.1),
]


@pytest.mark.parametrize("factory", FACTORIES)
def test_common_settings_out_of_range(factory):
    for name, value in COMMON:
        with pytest.raises(SettingError, match=name):
            FACTORIES[factory](LOG, **{name: value})


@pytest.mark.parametrize("name", NEED_A_LOG)
@for_each("wrong", ["log.parquet", 3, {"x": [1]}, np.eye(3), None])
def test_what_is_not_a_log(name, wrong):
    with pytest.raises(SettingError, match="log"):
        NEED_A_LOG[name](wrong)


@pytest.mark.parametrize("factory", [sparing.moful, sparing.linucb, sparing.lints])
def test_sizes_and_labels_without_a_log(factory):
    for wrong in ({}, {"n_actions": 3}, {"n_features": 3}, {"n_actions": 0, "n_features": 3}):
        with pytest.raises(SettingError, match="n_"):
            factory(**wrong)
    with pytest.raises(SettingError, match="n_features"):
        factory(actions=["a"], n_features=0)
    with pytest.raises(SettingError, match="expected a Log"):
        factory("a log")
    with pytest.raises(SettingError, match="leave out"):
        factory(LOG, n_actions=6)
    with pytest.raises(LogError, match="twice"):
        factory(actions=["a", "a"], n_features=2)
    with pytest.raises(LogError, match="no actions"):
        factory(actions=[], n_features=2)


@for_each(
    ("factory", "name", "value"),
    [
        ("certified", "tolerance", np.nan),
        ("certified", "tolerance", np.inf),
        ("certified", "explore", "sampled"),
        ("confident", "tolerance", np.nan),
        ("confident", "tolerance", -0.1),
        ("confident", "tolerance", np.inf),
        ("confident", "confidence", 0.0),
        ("confident", "confidence", 1.0),
        ("confident", "confidence", np.nan),
        ("confident", "spot_check", 1.0),
        ("confident", "spot_check", -0.1),
        ("confident", "spot_check", np.nan),
        ("confident", "misfit", -1.0),
        ("confident", "misfit", np.inf),
        ("confident", "explore", "leader"),
        ("confident", "prior_scale", 0.0),
        ("confident", "prior_scale", np.nan),
        ("confident", "prior_mean", [1.0]),
        ("confident", "prior_mean", [1.0, np.nan, 0.0]),
        ("confident", "noise", 0.0),
        ("linucb", "alpha", 0.0),
        ("linucb", "alpha", -1.0),
        ("linucb", "alpha", np.nan),
        ("lints", "scale", 0.0),
        ("lints", "scale", np.inf),
        ("eps_moful", "supported", 3),
        ("eps_moful", "supported", sparing.most_logged(7)),
        ("eps_moful", "supported", sparing.most_logged(-1)),
        ("eps_moful", "supported", sparing.supported_actions([9])),
        ("eps_moful", "supported", sparing.supported_actions({0: [1.0]})),
        ("eps_moful", "inflate", -0.1),
        ("eps_moful", "inflate", np.nan),
        ("eps_moful_ips", "clip", 0.5),
        ("eps_moful_ips", "clip", "much"),
        ("eps_moful_ips", "clip", np.nan),
        ("eps_moful_ips", "answer", "mine"),
    ],
)
def test_own_settings_out_of_range(factory, name, value):
    settings = {"supported": sparing.most_logged(1)} if factory.startswith("eps") else {}
    with pytest.raises(SettingError):
        getattr(sparing, factory)(LOG, **{**settings, name: value})


def test_every_refusal_is_an_input_error_and_a_value_error():
    for kind in (SettingError, LogError, DecisionError):
        assert issubclass(kind, InputError)
        assert issubclass(kind, ValueError)


def test_top_refuses_an_action_without_rows():
    log = make_log(2, THETA, never=[0, 1, 2])
    with pytest.raises(SettingError, match="has no rows"):
        sparing.eps_moful(log, supported=sparing.most_logged(4))


def test_what_the_log_cannot_teach_must_be_given():
    single = make_log(1, THETA, rows=1)
    with pytest.raises(SettingError, match="noise"):
        sparing.warm_started(single)
    assert sparing.warm_started(single, noise=1.0).assumptions.estimated == ("theta_bound", "context_bound")
    empty = sparing.Log.empty(action_names=range(3), n_features=2)
    with pytest.raises(SettingError, match="theta_bound"):
        sparing.warm_started(empty, noise=1.0, context_bound=1.0)
    with pytest.raises(SettingError, match="prior_scale"):
        sparing.confident(empty, noise=1.0)


def test_a_reward_range_gives_the_noise_and_bounds_the_rewards():
    """A deviation is no proxy for the worst case: σ is half of the range, except for a posterior."""
    learner = sparing.certified(LOG, reward_range=(-2, 2))
    assert learner.assumptions.noise == 2.0
    assert sparing.certified(LOG, reward_range=(-2, 2), noise=0.3).assumptions.noise == 0.3
    posterior = sparing.confident(LOG, reward_range=(-2, 2), spot_check=0.9)
    assert posterior.assumptions.noise == sparing.confident(LOG).assumptions.noise
    for bounded in (learner, posterior, sparing.moful(n_actions=6, n_features=3, reward_range=(-2, 2))):
        decision = next(d for d in (bounded.decide([1.0, 0.5, 0.2]) for _ in range(50)) if d.needs_reward)
        for reward in (-2.01, 2.01):
            with pytest.raises(DecisionError, match="reward_range"):
                bounded.update(decision, reward)
        bounded.update(decision, 2.0)


def test_extreme_confidence_keeps_the_optimism_finite():
    """z = Φ⁻¹(1 − (1−c)/(K−1)) is about 8.5 where 1 − (1−c)/(K−1) rounds to 1."""
    learner = sparing.confident(LOG, confidence=1 - 2**-53)
    assert 8 < learner.sets.arrays.optimism < 9
    assert sparing.confident(LOG, confidence=0.5).sets.arrays.optimism == 2.0
    assert np.isfinite(learner.decide(np.zeros(3)).high)


def test_assumed_and_estimated_values_are_named_in_the_guarantee():
    assert "assumed noise = 1" in sparing.moful(n_actions=2, n_features=2).guarantee.replace(
        "estimated or ", ""
    )
    assert "estimated" in sparing.certified(LOG).guarantee
    given = sparing.certified(LOG, noise=1.0, theta_bound=1.0, context_bound=1.0, tolerance=0.1).guarantee
    assert "estimated" not in given
    assert "every skipped round costs at most 0.1" in given
    assert sparing.certified(LOG, radius_scale=0.2).guarantee.startswith("none")
    assert sparing.linucb(LOG).guarantee.startswith("none")
    assert sparing.eps_moful_ips(LOG, supported=sparing.most_logged(1)).guarantee.startswith("none")


def test_a_mask_is_not_a_list_of_labels():
    learner = sparing.moful(n_actions=4, n_features=2)
    with pytest.raises(DecisionError, match="not a mask"):
        learner.decide([0.0, 1.0], eligible=np.array([False, False, False, True]))
    assert learner.rounds == 0


def test_a_log_without_any_reward_certifies_nothing():
    """All rewards 0: noise and bounds would be estimated as 0, and an untried action as known."""
    log = sparing.Log.from_arrays(np.ones((90, 1)), np.arange(90) % 2, np.zeros(90), action_names=[0, 1, 2])
    with pytest.raises(SettingError, match="estimated as 0"):
        sparing.certified(log)
    assert sparing.audit(log).assumptions is None
    assert sparing.certified(log, noise=0.5, theta_bound=1.0).decide([1.0]).needs_reward


@pytest.mark.parametrize("run", [sparing.simulation.draw_log, sparing.simulate])
def test_seeds_are_not_negative(run):
    world = sparing.simulation.LinearWorld(n_actions=2, n_features=1)
    learner = () if run is sparing.simulation.draw_log else (sparing.moful(n_actions=2, n_features=1),)
    with pytest.raises(SettingError, match="seed=-1"):
        run(*learner, world, seed=-1)


def named_log():
    table = {"age": [20, 30, 40, 50] * 20, "device": ["p", "d"] * 40}
    return sparing.read_log({**table, "action": ["a", "opus"] * 40, "reward": [0, 1, 1, 0] * 20})


@pytest.mark.parametrize(
    ("make", "wrong", "meant"),
    [
        ("economical", "callcost", "call_cost"),
        ("confident", "tolerence", "tolerance"),
        ("certified", "sed", "seed"),
    ],
)
def test_a_misspelt_setting_is_told_before_what_is_missing(make, wrong, meant):
    with pytest.raises(SettingError, match=f"unknown setting '{wrong}': did you mean {meant}\\?"):
        getattr(sparing, make)(named_log(), **{wrong: 1})
    with pytest.raises(SettingError, match="unknown setting 'zzz': known are"):
        getattr(sparing, make)(named_log(), zzz=1)


@pytest.mark.parametrize("make", [partial(sparing.economical, call_cost=0.1), sparing.certified])
def test_a_range_that_holds_no_reward_is_refused(make):
    assert make(named_log(), reward_range=(0, 1)).reward_range == (0, 1)
    with pytest.raises(
        SettingError, match=r"reward_range=\(5, 6\), but all rewards of the log lie from 0 to 1"
    ):
        make(named_log(), reward_range=(5, 6))


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("source", [lambda log: log, sparing.LogSummary.of], ids=["log", "summary"])
@pytest.mark.parametrize("make", [partial(sparing.economical, call_cost=1e-9), sparing.linucb])
def test_rewards_of_a_zero_one_log_stay_between_zero_and_one(make, source, by_id):
    """A reward that cannot be one of the log's is refused and changes nothing, unless it is allowed."""
    learner = make(source(named_log()))
    assert (
        learner.assumptions == make(named_log(), allow_outside=True).assumptions
    )  # only a door, no assumption
    rows = [{"age": age, "device": device} for age in (20, 33, 47) for device in "pd"]
    decision = next(made for made in map(learner.decide, rows) if made.needs_reward)
    named, before = decision.id if by_id else decision, learner.digest()
    for wrong in (1e40, -0.01, 1.01):
        with pytest.raises(DecisionError, match=r"outside reward_range=\(0, 1\).*allow_outside=True"):
            learner.update(named, wrong)
    assert (learner.digest(), list(learner.open)) == (before, list(learner.open))
    assert decision.id in learner.open
    learner.update(named, 1.0)
    free = make(source(named_log()), allow_outside=True)
    decision = next(made for made in map(free.decide, rows) if made.needs_reward)
    free.update(decision.id if by_id else decision, 7.0)


def test_what_is_not_known_to_be_zero_one_is_free():
    table = {"age": [20, 30, 40, 50] * 20, "action": ["a", "b"] * 40}
    for rewards in ([0, 1, 2, 0], [0, 0.5, 1, 0], [0, 0, 0, 0]):
        log = sparing.read_log({**table, "reward": rewards * 20})
        assert sparing.confident(log, prior_scale=1.0, noise=1.0, theta_bound=1.0).reward_range is None


@pytest.mark.parametrize("source", [lambda log: log, sparing.LogSummary.of], ids=["log", "summary"])
def test_a_log_with_rewards_outside_the_range_is_refused(source):
    table = {"age": [20, 30, 40, 50] * 20, "action": ["a", "b"] * 40, "reward": [0, 1, 1, 40] * 20}
    log = source(sparing.read_log(table))
    with pytest.raises(SettingError, match=r"reward_range=\(0, 1\), but rewards of the log lie from 0 to 40"):
        sparing.confident(log, reward_range=(0, 1))
    assert sparing.confident(log, reward_range=(0, 1), allow_outside=True).reward_range is None
    with pytest.raises(SettingError, match="allow_outside='yes'; must be True or False"):
        sparing.confident(log, allow_outside="yes")


def test_one_text_is_no_list_of_labels():
    learner = sparing.confident(named_log())
    row = {"age": 30, "device": "p"}
    assert learner.decide(row, eligible=["opus"]).action == "opus"
    with pytest.raises(
        DecisionError, match=r"eligible='opus'; must be a list of action labels, such as \['opus'\]"
    ):
        learner.decide(row, eligible="opus")


def test_what_is_no_context_is_told_the_columns():
    learner = sparing.confident(named_log())
    for wrong in (None, [1.0, 2.0]):
        with pytest.raises(DecisionError, match="a mapping of the columns age, device"):
            learner.decide(wrong)
    with pytest.raises(DecisionError, match=r"Pass \[row\]"):
        learner.decide_many({"age": 30, "device": "p"})
