"""Actions that come and go: an added one starts where the prior expects it, a retired one is never played, a refresh is a new fit."""

import numpy as np
import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters, run, saved_bytes
from sparing.errors import DecisionError, SettingError
from sparing.model.prior import ActionSums, PriorScales, fit
from sparing.model.statistics import Statistics
from sparing.simulation import LinearWorld, draw_log
from sparing.simulation.simulate import play

K, D = 6, 3
THETA = parameters(41, K + 1, D, offset=1.0)
LOG = make_log(41, THETA[:K], rows=150, never=[4])
WIDER = sparing.Log.from_arrays(LOG.contexts, LOG.actions, LOG.rewards, action_names=range(K + 1))
ROUNDS = make_rounds(42, THETA, 150)
ITEMS = np.random.default_rng(43).standard_normal((K + 1, 2))
FACTORIES = {
    "confident": lambda log, **s: sparing.confident(log, tolerance=0.05, spot_check=0.1, **s),
    "confident items": lambda log, **s: sparing.confident(
        log, tolerance=0.05, items=ITEMS[: len(log.action_names)], **s
    ),
    "certified": lambda log, **s: sparing.certified(log, tolerance=0.3, radius_scale=0.3, growing=True, **s),
    "certified items": lambda log, **s: sparing.certified(
        log, tolerance=0.3, radius_scale=0.3, growing=True, items=ITEMS[: len(log.action_names)], **s
    ),
    "warm_started": lambda log, **s: sparing.warm_started(log, growing=True, radius="trace", **s),
    "linucb": lambda log, **s: sparing.linucb(log, **s),
    "lints": lambda log, **s: sparing.lints(log, **s),
}


@pytest.fixture(params=FACTORIES)
def name(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "bounded"])
def bounds(request, monkeypatch):
    monkeypatch.setattr("sparing.online.confidence_sets.BOUNDED_FROM", 0 if request.param else 10**12)
    monkeypatch.setattr("sparing.online.confidence_sets.QUICK_FROM", 0 if request.param else 10**12)


@pytest.fixture
def raw_items(monkeypatch):
    """Item features that count as standardised already, so that one more action does not change the others' z."""
    raw = lambda features: (  # noqa: E731
        np.c_[np.ones(len(features)), features],
        np.stack([np.zeros(features.shape[1]), np.ones(features.shape[1])]),
    )
    monkeypatch.setattr("sparing.model.posterior.standardised", raw)


def grown(name, **settings):
    """A learner of K actions that has been given one more."""
    learner = FACTORIES[name](LOG, **settings)
    learner.add_action(K, ITEMS[K] if "items" in name else None)
    return learner


@pytest.mark.usefixtures("bounds", "raw_items")
@pytest.mark.parametrize("name", ["confident", "confident items", "linucb", "lints"])
def test_adding_an_action_is_having_had_it_untried_from_the_start(name):
    """To rounding: a library multiplies the matrices of one action, and of all at once, in another order on some machines."""
    one, two = grown(name), FACTORIES[name](WIDER)
    two.sets.prioritise(one.priority)
    added, had = run(one, ROUNDS), run(two, ROUNDS)
    said = [(d.action, d.needs_reward, d.reason) for d in added]
    assert said == [(d.action, d.needs_reward, d.reason) for d in had]
    for number in ("value", "low", "high", "play_probability"):
        assert [getattr(d, number) for d in added] == pytest.approx(
            [getattr(d, number) for d in had], rel=1e-11, abs=1e-12
        )
    assert {d.action for d in added} <= set(range(K + 1))


@pytest.mark.usefixtures("raw_items")
def test_an_added_action_has_the_moments_of_the_prior():
    """Mean Ŵz_a and covariance S + C_a, C_a = (z⊗I)ᵀP⁻¹(z⊗I)."""
    learner = grown("confident items")
    prior, z = learner.prior, np.r_[1, ITEMS[K]]
    expected = np.diag(prior.spread**2) + np.einsum("p,piqj,q->ij", z, prior.coefficient_covariance, z)
    np.testing.assert_allclose(learner.sets.theta[K], z @ prior.weights, rtol=1e-8)
    np.testing.assert_allclose(prior.noise**2 * learner.sets.inverse[K], expected, rtol=1e-6)


def test_an_added_action_of_certified_is_centred_where_the_prior_expects_it():
    learner = grown("certified items")
    np.testing.assert_allclose(learner.sets.theta[K], learner.prior.centers()[K], rtol=1e-9)
    np.testing.assert_allclose(learner.sets.gram[K], np.eye(D), rtol=1e-12)


@pytest.mark.parametrize("radius", ["determinant", "trace"])
def test_added_actions_have_their_own_share_of_delta(radius):
    """The first ones share δ/2, the j-th added has δ/(2j(j+1)): all of them together δ at most, however many come."""
    settings = {"noise": 1.0, "theta_bound": 1.0, "context_bound": 2.0, "delta": 0.1}
    learner = sparing.moful(n_actions=3, n_features=2, radius=radius, growing=True, **settings)
    for j in range(1, 5):
        learner.add_action(f"new {j}")
    shares = [0.05 / 3] * 3 + [0.1 / (2 * j * (j + 1)) for j in range(1, 5)]
    np.testing.assert_allclose(learner.sets.radius, np.sqrt(2 * np.log(1 / np.array(shares))) + 1, rtol=1e-12)
    assert sum(0.1 / (2 * j * (j + 1)) for j in range(1, 10_000)) < 0.05
    fixed = sparing.moful(n_actions=3, n_features=2, radius=radius, **settings)
    np.testing.assert_allclose(fixed.sets.radius, np.sqrt(2 * np.log(3 / 0.1)) + 1, rtol=1e-12)


@pytest.mark.usefixtures("bounds")
def test_a_changed_learner_is_saved_copied_and_goes_on_alike(name, tmp_path):
    learner = grown(name)
    learner.retire(2)
    waiting = next(d for d in (learner.decide(x) for x in ROUNDS.contexts) if d.needs_reward)
    learner.decide(ROUNDS.contexts[0])
    learner.save(tmp_path / "grown")
    loaded, copied = sparing.load(tmp_path / "grown"), learner.copy()
    assert saved_bytes(loaded, tmp_path) == saved_bytes(learner, tmp_path)
    for one in (learner, loaded, copied):
        one.update(waiting.id, 0.5)
    decisions = run(learner, ROUNDS)
    assert decisions == run(loaded, ROUNDS) == run(copied, ROUNDS)
    assert 2 not in {decision.action for decision in decisions}
    if learner.prior is not None:
        learner.refresh()
        loaded.refresh()
        assert run(learner, ROUNDS) == run(loaded, ROUNDS)


def test_a_retired_action_is_never_played(name, tmp_path):
    learner = FACTORIES[name](LOG)
    best = int(np.argmax(np.bincount([d.action for d in run(learner.copy(), ROUNDS)])))
    before = learner.sets.gram[best].copy()
    learner.retire(best)
    assert best not in {decision.action for decision in run(learner, ROUNDS)}
    assert best not in learner.decide_many(ROUNDS.contexts).labels()
    assert best not in learner.policy().action_names
    assert learner.propose(ROUNDS.contexts[0]).action != best
    np.testing.assert_array_equal(learner.sets.gram[best], before)
    with pytest.raises(DecisionError, match="retired"):
        learner.decide(ROUNDS.contexts[0], eligible=[best])
    with pytest.raises(DecisionError, match="retired"):
        learner.propose(ROUNDS.contexts[0], allowed=np.arange(K) == best)
    with pytest.raises(DecisionError, match="retired already"):
        learner.retire(best)
    with pytest.raises(DecisionError, match="unknown"):
        learner.retire("nobody")
    for other in set(range(K)) - {best, 0 if best else 1}:
        learner.retire(other)
    with pytest.raises(DecisionError, match="last"):
        learner.retire(0 if best else 1)


def test_retiring_is_leaving_out_of_the_eligible_ones():
    one, two = FACTORIES["confident"](LOG), FACTORIES["confident"](LOG)
    one.retire(1)
    for t, x in enumerate(ROUNDS.contexts):
        first, second = one.decide(x), two.decide(x, eligible=[0, 2, 3, 4, 5])
        assert first == second
        if first.needs_reward:
            one.update(first, ROUNDS.rewards[t, first.action])
            two.update(second, ROUNDS.rewards[t, first.action])


def test_the_reward_of_a_retired_action_still_counts():
    learner = FACTORIES["warm_started"](LOG)
    decision = learner.decide(ROUNDS.contexts[0])
    learner.retire(decision.action)
    learner.update(decision, 1.0)
    assert learner.sets.live[decision.action] == 1


@pytest.mark.parametrize("name", ["confident", "confident items", "certified", "certified items"])
@pytest.mark.parametrize("given", [{}, {"noise": 0.5}])
def test_a_refresh_is_a_fit_to_all_rows(name, given):
    learner = FACTORIES[name](LOG, **given)
    rows = [LOG.contexts], [LOG.actions], [LOG.rewards]
    for t, x in enumerate(ROUNDS.contexts):
        decision = learner.decide(x)
        if decision.needs_reward:
            reward = ROUNDS.rewards[t, decision.action]
            learner.update(decision, reward)
            for part, value in zip(rows, (x[None], [decision.action], [reward]), strict=True):
                part.append(value)
    learner.refresh()
    everything = sparing.Log.from_arrays(*map(np.concatenate, rows), action_names=range(K))
    again = FACTORIES[name](everything, **given)
    assert learner.calls > 10
    if given or "confident" in name:  # certified keeps the noise that its log told
        np.testing.assert_allclose(learner.prior.spread, again.prior.spread, rtol=1e-4)
        for part in ("theta", "gram", "radius"):
            one, two = getattr(learner.sets, part), getattr(again.sets, part)
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
    if "confident" in name:
        assert str(again.prior) in learner.guarantee
    np.testing.assert_array_equal(learner.sets.logged, LOG.counts)


def test_open_calls_survive_a_refresh(tmp_path):
    learner = FACTORIES["confident"](LOG)
    waiting = [d for d in (learner.decide(x) for x in ROUNDS.contexts) if d.needs_reward]
    assert len(waiting) > 2
    learner.refresh()
    assert learner.sets.waiting.sum() >= len(waiting) - 1
    loaded = (learner.save(tmp_path / "open"), sparing.load(tmp_path / "open"))[1]
    for decision in waiting[::-1]:
        learner.update(decision, 0.3)
        loaded.update(decision.id, 0.3)
    assert not learner.sets.waiting.any()
    assert run(learner, ROUNDS) == run(loaded, ROUNDS)


def test_compiled_runs_know_what_came_and_went():
    stream = LinearWorld(theta=THETA, noise=0.5).live_stream(200, np.random.default_rng(3))
    one, two = grown("confident"), grown("confident")
    favourite = int(np.bincount(play(one.copy(), stream).actions).argmax())
    for learner in (one, two):
        learner.retire(favourite)
    trace = play(one, stream)
    assert favourite not in trace.actions
    for t, action in enumerate(trace.actions):
        decision = two.decide(stream.contexts[t])
        assert decision.action == action
        if decision.needs_reward:
            two.update(decision, stream.reward(t, action))


@pytest.mark.parametrize(
    ("make", "act", "message"),
    [
        (lambda: sparing.certified(LOG), lambda one: one.add_action("new"), "growing=True"),
        (lambda: grown("confident"), lambda one: one.add_action(K), "there already"),
        (lambda: FACTORIES["confident"](LOG), lambda one: one.add_action("new", [1.0]), "without items"),
        (lambda: FACTORIES["confident items"](LOG), lambda one: one.add_action("new"), "2 features"),
        (
            lambda: FACTORIES["confident items"](LOG),
            lambda one: one.add_action("new", [1.0, 2.0, 3.0]),
            "2 finite",
        ),
        (
            lambda: sparing.eps_moful(LOG, supported=sparing.most_logged(2)),
            lambda one: one.add_action("new"),
            "cannot add others",
        ),
        (lambda: sparing.moful(LOG), lambda one: one.refresh(), "no prior"),
    ],
)
def test_what_cannot_be_done_says_why(make, act, message):
    learner = make()
    with pytest.raises((SettingError, DecisionError), match=message):
        act(learner)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (np.zeros((K + 2, 2)), "each of 6 actions"),
        (np.full((K, 2), np.nan), "finite"),
        ({0: [1.0]}, "no features of action 1"),
        ({a: [1.0] * (1 + a % 2) for a in range(K)}, "each of 6 actions"),
        ({a: "x" for a in range(K)}, "item features"),
    ],
)
def test_items_are_checked(items, message):
    with pytest.raises(SettingError, match=message):
        sparing.confident(LOG, items=items)


def test_items_by_name_are_items_by_row():
    by_name = sparing.confident(LOG, items={a: ITEMS[a].tolist() for a in range(K)})
    by_row = sparing.confident(LOG, items=ITEMS[:K])
    np.testing.assert_array_equal(by_name.sets.gram, by_row.sets.gram)


def test_centres():
    """`zero` is the ridge around 0; a given theta_bound speaks of θ* itself, and keeps it."""
    given = {"noise": 0.5, "context_bound": 2.0, "seed": 1}
    zero = sparing.certified(LOG, center="zero", **given)
    auto, told = sparing.certified(LOG, **given), sparing.certified(LOG, theta_bound=3.0, **given)
    learnt = sparing.certified(LOG, center="learnt", theta_bound=3.0, **given)
    assert zero.prior is None
    assert told.prior is None
    np.testing.assert_array_equal(zero.sets.theta[4], 0)
    np.testing.assert_allclose(auto.sets.theta[4], auto.prior.centers()[4])
    np.testing.assert_allclose(learnt.sets.theta, auto.sets.theta)
    assert learnt.assumptions.theta_bound == 3.0
    assert "theta_bound" in auto.assumptions.estimated
    assert "centres estimated from the log" in auto.guarantee
    for a in set(range(K)) - {4}:
        x, r = LOG.contexts[LOG.actions == a], LOG.rewards[LOG.actions == a]
        expected = np.linalg.solve(np.eye(D) + x.T @ x, x.T @ r + auto.prior.centers()[a])
        np.testing.assert_allclose(auto.sets.theta[a], expected, rtol=1e-9)
    with pytest.raises(SettingError, match="center"):
        sparing.certified(LOG, center="zero", items=ITEMS[:K])


def test_the_bound_is_the_farthest_action_from_where_the_others_put_it():
    """Each action is left out in turn: a fit to the others alone puts it at m, and it lies ‖θ̂ − m‖ from there."""
    learner = sparing.warm_started(LOG, noise=0.5, context_bound=2.0)
    sums, prior, away = learner.sets.rows(), learner.prior, []
    for a in np.flatnonzero(sums.counts):
        counts = np.where(np.arange(K) == a, 0, sums.counts)
        others = Statistics(counts, sums.gram, sums.response, sums.squares, 1.0)
        scales = PriorScales(prior.noise, prior.spread, prior.slope)
        center = fit(ActionSums.of(others, prior.items, prior.flat, None), scales).weights[0] * prior.spread
        regular = np.eye(D) + sums.gram[a]
        away.append(np.linalg.norm(np.linalg.solve(regular, sums.response[a] - sums.gram[a] @ center)))
    assert learner.assumptions.theta_bound == pytest.approx(max(away), rel=1e-6)


def test_a_growing_world_in_which_new_actions_are_found():
    """Arriving items whose features tell what they are worth are played at once where they are the best."""
    rng = np.random.default_rng(5)
    items = rng.standard_normal((30, 2))
    weights = rng.standard_normal((3, D))
    theta = np.c_[np.ones(30), items] @ weights
    log = draw_log(LinearWorld(theta=theta[:20], noise=0.3), rows=2000, seed=5)
    learner = sparing.confident(log, items=items[:20], tolerance=0.05, spot_check=0.0)
    for a in range(20, 30):
        learner.add_action(a, items[a])
    contexts = rng.random((200, D))
    losses = [(theta @ x).max() - theta[learner.decide(x).action] @ x for x in contexts]
    assert np.mean(losses) < 0.05
    assert sum(learner.decide(x).action >= 20 for x in contexts) > 20
