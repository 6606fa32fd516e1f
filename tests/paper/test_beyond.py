"""The comparison beyond the paper, tiny: totals by hand, budgets, worlds that are not as told, outsiders on equal terms."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from vowpalwabbit import Workspace

from research.learners import LEARNERS
from research.paper.beyond import EXPERIMENT, data, guests, outsiders, tuning, vowpal, worlds
from research.paper.beyond.meeting import Meeting, lost
from research.paper.beyond.setting import FULL, PLAIN, QUICK, VARIANTS, Size, Variant
from research.paper.beyond.vowpal import TUNED, Tuned, Vowpal
from research.paper.intervals import difference
from research.paper.report import beyond as drawing
from research.paper.synthetic import Synthetic
from sparing import confident, simulate
from sparing.simulation import LinearWorld, draw_log

SIZE = Size(20, 5, 6000)
TINY = replace(
    QUICK,
    seeds=(100, 101, 102, 103),
    further=(),
    sizes=(SIZE,),
    supports=("per-context", "never-logged", "sharpened"),
    rounds=500,
    prices=(0.05, 0.2),
    budgets=(20,),
    budget_supports=("never-logged",),
    variants=(PLAIN, *(one for one in VARIANTS if one.shift), Variant("late", delay=50)),
    data=(),
    weights=(),
    outside_seeds=0,
    bayesian_seeds=0,
)
SQUARE = Tuned("squarecb", 0.5, 100.0)


def played(setting):
    """Pairs of units and results."""
    return [(unit, EXPERIMENT.run(unit)) for unit in EXPERIMENT.units(setting)]


@pytest.fixture(scope="module")
def found():
    return played(TINY)


def over_seeds(found, place, name, metric, kind="world", part=SIZE.name, **settings):
    """Values (seeds,) of one learner."""
    return np.array(
        [
            run[metric]
            for unit, result in found
            if (unit["kind"], unit["place"], unit["part"]) == (kind, place, part)
            for record, run in zip(unit["learners"], result["runs"], strict=True)
            if record["name"] == name
            and all(record.get(key) == settings.get(key) for key in ("tolerance", "price", "budget"))
        ]
    )


def rows(table):
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def test_totals_and_their_differences_by_hand(found):
    analysis = EXPERIMENT.analyse(TINY, found)
    for price, other, settings in ((0.05, "log_alone", {}), (0.2, "confident", {"tolerance": 0.3})):
        mine, theirs = (
            over_seeds(found, "never-logged", name, "regret", **at)
            + price * 2.0 * over_seeds(found, "never-logged", name, "calls", **at)
            for name, at in (("economical", {"price": price}), (other, settings))
        )
        expected = difference(mine, theirs).to_dict()
        (row,) = (
            row
            for row in rows(analysis.numbers["differences"]["totals"])
            if (row["kind"], row["place"], row["price"]) == ("world", "never-logged", price)
            and (row["other"], row["at"]) == (other, settings.get("tolerance"))
        )
        assert {key: row[key] for key in expected} == pytest.approx(expected)
        (row,) = (
            row
            for row in rows(analysis.tables["totals"])
            if (row["kind"], row["place"], row["price"]) == ("world", "never-logged", price)
            and row["name"] == "economical"
        )
        assert row["total"] == pytest.approx(mine.mean())


def test_on_further_seeds_ours_meet_the_log_alone_and_nobody_else(found):
    setting = replace(TINY, further=(2000, 2001))
    more = replace(setting, seeds=(), variants=(), budget_supports=())
    units = EXPERIMENT.units(more)
    assert {record["name"] for unit in units for record in unit["learners"]} == {"log_alone", "economical"}
    assert {unit["seed"] for unit in units} == {2000, 2001}
    pairs = [*found, *((unit, EXPERIMENT.run(unit)) for unit in units)]
    analysis, before = EXPERIMENT.analyse(setting, pairs), EXPERIMENT.analyse(TINY, found)
    assert analysis.tables == before.tables, "means stand side by side on the seeds that all have"
    mine, theirs = (
        over_seeds(pairs, "never-logged", name, "regret", **at)
        + 0.2 * 2.0 * over_seeds(pairs, "never-logged", name, "calls", **at)
        for name, at in (("economical", {"price": 0.2}), ("log_alone", {}))
    )
    assert len(mine) == 6
    was, now = (
        {
            row["other"]: row["value"]
            for row in rows(numbers["differences"]["totals"])
            if (row["kind"], row["place"], row["price"]) == ("world", "never-logged", 0.2)
        }
        for numbers in (before.numbers, analysis.numbers)
    )
    assert now["log_alone"] == pytest.approx((mine - theirs).mean())
    assert {**was, "log_alone": 0} == {**now, "log_alone": 0}
    assert any("on 6 seeds, the others on 4" in note for note in analysis.numbers["notes"])


def test_the_sentences_say_where_ours_lose_and_only_there(found):
    analysis = EXPERIMENT.analyse(TINY, found)
    for figure, table, kind in (("totals", "totals", "world"), ("budgets", "budgets", "budget")):
        worse = [
            row
            for row in rows(analysis.numbers["differences"][table])
            if row["kind"] == kind and row["low"] > 0
        ]
        told = analysis.numbers["losses"][figure]
        assert ("nowhere" in told) == (not worse)
        assert all(LEARNERS[row["other"]].label in told for row in worse)
    counts = [note for note in analysis.numbers["notes"] if note.startswith("Totals")]
    assert counts
    assert analysis.verdicts == ()


def test_the_log_alone_is_the_posterior_that_ours_begin_with(found):
    assert not over_seeds(found, "never-logged", "log_alone", "calls").any()
    base = Synthetic(features=5, rows=6000, rounds=500, support="never-logged", seed=100)
    world = base.world()
    log = base.log(world)
    stream = base.live_stream(world, log)
    actions = confident(log, noise=2.0, seed=100).policy().indices(stream.contexts)
    expected = lost(stream.means, actions).sum()
    assert over_seeds(found, "never-logged", "log_alone", "regret")[0] == pytest.approx(expected)


def test_a_learner_that_is_cut_plays_its_best_mean_when_its_calls_are_spent(found):
    base = Synthetic(features=5, rows=6000, rounds=500, support="never-logged", seed=100)
    world = base.world()
    log = base.log(world)
    stream = base.live_stream(world, log)
    learner = base.start("confident", world, log, tolerance=0.3)
    calls, actions = 0, []
    for t, x in enumerate(stream.contexts):
        if calls == 20:
            actions.append(int(learner.policy().indices(x[None])[0]))
            continue
        decision = learner.decide(x)
        actions.append(decision.action)
        if decision.needs_reward:
            calls += 1
            learner.update(decision, stream.reward(t, decision.action))
    assert calls == 20
    cut = {"kind": "budget", "budget": 20}
    assert over_seeds(found, "never-logged", "confident", "calls", tolerance=0.3, **cut)[0] == 20
    regret = over_seeds(found, "never-logged", "confident", "regret", tolerance=0.3, **cut)[0]
    assert regret == pytest.approx(lost(stream.means, np.array(actions)).sum())
    assert (over_seeds(found, "never-logged", "economical", "calls", **cut) <= 20).all()


def test_ours_cost_less_in_all_than_ips(found):
    for place in TINY.supports:
        for price in TINY.prices:
            mine, ips = (
                over_seeds(found, place, name, "regret", **at)
                + price * 2.0 * over_seeds(found, place, name, "calls", **at)
                for name, at in (("economical", {"price": price}), ("eps_moful_ips", {}))
            )
            assert difference(mine, ips).high < 0


def test_never_logged_actions_are_shifted_and_the_log_is_not():
    base = Synthetic(features=5, rows=300, support="never-logged", seed=3)
    (plain, log), (moved, same) = worlds.shifted(base, 0.0), worlds.shifted(base, 2.0)
    never = log.counts == 0
    assert never.any()
    assert np.array_equal(log.rewards, same.rewards)
    gained = (moved.theta - plain.theta) @ np.full(5, 0.5)  # E[x] = 1/2
    np.testing.assert_allclose(gained, np.where(never, 2.0 * np.sqrt(5) / 2, 0.0))


def test_what_is_told_and_what_comes_late_reach_the_learner(found):
    record = {"name": "economical", "price": 0.05}
    assert worlds.asked(record, 2.0, 300) == {"call_cost": 0.1, "calls": None, "horizon": 300}
    budget = worlds.asked({"name": "economical", "budget": 20}, 2.0, 300)
    assert budget == {"call_cost": None, "calls": 20, "horizon": 300}
    settings = {"place": "never-logged", "metric": "regret", "kind": "robust"}
    plain, late = (
        over_seeds(found, name="confident", part=part, tolerance=0.3, **settings)
        for part in ("as told", "late")
    )
    assert np.array_equal(plain, over_seeds(found, "never-logged", "confident", "regret", tolerance=0.3))
    assert (plain != late).any()
    base = Synthetic(features=5, rows=6000, rounds=500, support="never-logged", seed=100)
    world = base.world()
    log = base.log(world)
    learner = base.start("confident", world, log, tolerance=0.3)
    trace = simulate(learner, world, rounds=500, seed=100, stream="in-log", log=log, delay=50)
    assert late[0] == pytest.approx(trace.regret[-1])


def test_classes_that_were_never_logged_are_learnt_with_fewer_calls_than_rounds():
    """The log alone does not know the classes it never saw; a learner that asks where the log is blind does."""
    setting = replace(
        TINY, seeds=(100,), supports=(), budget_supports=(), variants=(), data=("digits",), outside_seeds=1
    )
    (unit, result), *outside = played(setting)
    runs = {
        (record["name"], record.get("tolerance")): run
        for record, run in zip(unit["learners"], result["runs"], strict=True)
    }
    alone, asked = runs["log_alone", None], runs["confident", 0.05]
    assert alone["calls"] == 0
    assert alone["error"] > 0.2, "three of the ten classes were never logged"
    assert asked["error"] < alone["error"] / 2
    assert asked["calls"] < result["rounds"]
    for _, theirs in outside:
        assert all(run is None or run["calls"] == result["rounds"] for run in theirs["runs"])
    drawn = drawing.draw(setting, EXPERIMENT.analyse(setting, [(unit, result), *outside]))
    assert list(drawn) == ["classes"]


class Recording(LinearWorld):
    """Remembers the rounds that a run was given."""

    def live_stream(self, rounds, rng, log=None):
        self.given = super().live_stream(rounds, rng, log)
        return self.given


def test_all_meet_the_rounds_that_simulate_plays():
    base = Synthetic(features=4, rows=300, rounds=50, seed=5)
    world = Recording(n_actions=base.actions, n_features=4, noise=base.noise, seed=5)
    log = base.log(world)
    simulate(base.start("moful", world, log), world, rounds=50, seed=5, stream="in-log", log=log)
    theirs = base.live_stream(base.world(), log)
    for name in ("contexts", "means", "draws"):
        assert np.array_equal(getattr(world.given, name), getattr(theirs, name))


class First:
    """A library that always plays what the log played most, and remembers what it earned."""

    def __init__(self, meeting):
        self.meeting, self.earned = meeting, []
        self.action = int(np.bincount(meeting["actions"]).argmax())

    def step(self, x, earned):
        self.earned.append(earned[self.action])
        return self.action

    def final(self, contexts):
        return np.full(len(contexts), self.action)


def test_an_outsider_is_told_the_log_and_earns_what_its_actions_earn(monkeypatch):
    made = []

    def library(meeting):
        made.append(First(meeting))
        return made[-1]

    child = SimpleNamespace(ask=lambda folder: guests.play(library, folder))
    monkeypatch.setattr(outsiders, "_child", lambda name: child)
    base = Synthetic(features=4, rows=300, rounds=50, seed=5)
    world = base.world()
    log = base.log(world)
    stream = base.live_stream(world, log)
    meeting = Meeting(log, stream, log.contexts[:7], 2.0)
    found = meeting.outsider({"name": "bayesianbandits", "version": "1"}, 5)
    most = int(log.counts.argmax())
    assert found.calls == 50
    assert found.actions.tolist() == [most] * 50
    assert found.final.tolist() == [most] * 7
    np.testing.assert_allclose(made[0].earned, stream.rewards(found.actions))
    assert np.array_equal(made[0].meeting["logged"], log.contexts)
    assert np.array_equal(made[0].meeting["rewards"], log.rewards)


@pytest.mark.parametrize("name", outsiders.NAMES)
def test_an_installed_outsider_learns_a_clear_log(name):
    if outsiders.version(name) is None:
        pytest.skip(f"{name} has no environment here; research.paper.beyond.outsiders.install() makes it")
    world = LinearWorld(n_actions=3, n_features=2, noise=0.1, seed=1)
    log = draw_log(world, rows=400, unsupported=0.0, seed=1)
    stream = world.live_stream(100, np.random.default_rng(0))
    record = {"name": name, "version": "1"}
    fresh = world.contexts(200, np.random.default_rng(1))
    once, again = (Meeting(log, stream, fresh, 0.1).outsider(record, 0) for _ in range(2))
    assert np.array_equal(once.actions, again.actions)
    assert lost(stream.means, once.actions).mean() < 0.05
    assert lost(world.means(fresh), once.final).mean() < 0.05


def test_vowpal_wabbit_learns_the_rows_and_plays_its_own_best_at_the_end():
    """Rows read from a file teach what rows told one by one teach; its policy is the mode of SquareCB."""
    world = LinearWorld(n_actions=3, n_features=2, noise=0.0, seed=1)
    log = draw_log(world, rows=400, unsupported=0.0, seed=1)
    scale = np.abs(log.rewards).max()
    with Vowpal(log, SQUARE) as learner:
        weights, fresh = learner.weights(), world.contexts(100, np.random.default_rng(0))
        chosen = learner.actions(fresh)
    low, high = -log.rewards.max() / scale, -log.rewards.min() / scale
    with Workspace(f"{SQUARE.options} --cb_min_cost {low:.7g} --cb_max_cost {high:.7g}") as other:
        for x, action, reward in zip(log.contexts, log.actions, log.rewards, strict=True):
            lines = [f"|a {a}" for a in range(3)]
            lines[action] = f"0:{-reward / scale:.7g}:0.3333333 {lines[action]}"
            other.learn([f"shared |x 0:{x[0]:.7g} 1:{x[1]:.7g}", *lines])
        plain = [f"|a {a}" for a in range(3)]
        modes = [
            int(np.argmax(other.predict([f"shared |x 0:{x[0]:.7g} 1:{x[1]:.7g}", *plain]))) for x in fresh
        ]
    assert chosen.tolist() == modes
    assert np.abs(-weights * scale - world.theta).max() < 0.2, "no noise: least squares finds the parameters"


def test_the_settings_in_use_stand_in_the_grid_and_its_seeds_stand_in_no_comparison():
    for where, chosen in vars(TUNED).items():
        for one in chosen:
            assert one in list(tuning.grid(where, one.algorithm))
    assert not set(tuning.SEEDS) & {*FULL.seeds, *FULL.further}
    assert 0 <= tuning.regret(SQUARE, Synthetic(features=3, rows=3000, rounds=30)) < 30


def test_what_is_not_installed_changes_no_other_piece_and_is_said(monkeypatch):
    setting = replace(TINY, seeds=(100,), rounds=40, budgets=(5,), variants=(PLAIN,), outside_seeds=1)
    before = EXPERIMENT.units(setting)
    monkeypatch.setattr(vowpal, "installed", lambda: None)
    monkeypatch.setattr(outsiders, "version", lambda name: None)
    after = EXPERIMENT.units(setting)
    assert len(before) == len(after)
    assert "version" not in before[0]["learners"][0]
    ours = [unit for unit in after if "version" not in unit["learners"][0]]
    assert ours == before[: len(ours)]
    analysis = EXPERIMENT.analyse(setting, played(setting))
    assert set(analysis.numbers["outside"].values()) == {None}
    drawn = drawing.draw(setting, analysis)
    assert "Not installed here and left out: VW SquareCB" in drawn["outside"].regime


def test_figures_have_six_lines_at_most_and_come_from_the_tables(found):
    analysis = EXPERIMENT.analyse(TINY, found)
    drawn = drawing.draw(TINY, analysis)
    assert list(drawn) == ["totals", "outside", "frontier_d5", "budgets", "robustness"]
    for plate in drawn.values():
        (legend,) = plate.key.legends
        names = [text.get_text() for text in legend.get_texts()]
        assert "economical" in names
        assert "the log alone" in names
        assert len(names) <= 6
        assert "4 seeds" in plate.regime
        assert "Where ours lose" in plate.lost
    titles = [figure.axes[0].get_title(loc="left") for figure in drawn["frontier_d5"].panels]
    assert titles[:3] == list(TINY.supports)


def test_prompts_are_met_as_logged_and_priced_by_the_logged_rewards(monkeypatch):
    """A tiny routing: what is earned is quality less the cost, and the unit of prices the logged rewards' deviation."""
    from sparing.simulation import RoutingWorld, hidden_model_log
    from sparing.simulation.datasets import Routing

    rng = np.random.default_rng(0)
    n = 120
    routing = Routing(
        tuple(f"prompt {word} {number}" for number, word in enumerate(rng.integers(0, 9, n))),
        ("small", "middle", "large"),
        rng.uniform(size=(n, 3)),
        np.tile([0.0, 0.01, 0.1], (n, 1)),
        np.array(["val"] * 80 + ["test_holdout"] * 40),
        ("any",) * n,
        "made up",
    )
    world = RoutingWorld(routing, cost_weight=3.0)
    monkeypatch.setattr(data, "prompts", {3.0: world}.get)
    unit = {"kind": "routing", "weight": 3.0, "hidden": 2, "seed": 100}
    unit["learners"] = [{"name": "log_alone"}, {"name": "economical", "price": 1e6}]
    result = EXPERIMENT.run(unit)
    log = hidden_model_log(world, hidden="large", seed=100)
    assert (result["logged"], result["rounds"], result["never"]) == (80, 40, 1)
    assert result["unit"] == pytest.approx(log.rewards.std())
    alone, dear = result["runs"]
    best = world.means[world.live_rows].max(axis=1).mean()
    assert alone["reward"] == pytest.approx(best - alone["regret"] / 40)
    assert dear == alone, "at a price that nothing repays, economical is the log alone"
