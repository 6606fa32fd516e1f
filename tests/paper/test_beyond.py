"""The comparison beyond the paper, tiny: orderings against ε-mOFUL-IPS, Vowpal Wabbit on equal terms."""

from dataclasses import replace

import numpy as np
import pytest
from vowpalwabbit import Workspace

from research.paper.beyond import EXPERIMENT, tuning, vowpal
from research.paper.beyond.comparing import MISSING
from research.paper.beyond.meeting import start
from research.paper.beyond.setting import QUICK, Size
from research.paper.beyond.vowpal import TUNED, Tuned, Vowpal
from research.paper.intervals import difference
from research.paper.report import beyond as drawing
from research.paper.synthetic import Synthetic
from sparing import simulate
from sparing.simulation import LinearWorld, draw_log

TINY = replace(
    QUICK,
    seeds=tuple(range(6)),
    sizes=(Size(5, 6000, outside=False),),
    supports=("per-context", "never-logged"),
    rounds=500,
    held_out=200,
    data=(),
)
OUTSIDE = replace(TINY, seeds=(0,), sizes=(Size(4, 600, outside=True),), rounds=60, guaranteed=())
SQUARE = Tuned("squarecb", 0.5, 100.0)


@pytest.fixture(scope="module")
def found():
    """The tiny comparison without Vowpal Wabbit: pairs of units and results."""
    return [(unit, EXPERIMENT.run(unit)) for unit in EXPERIMENT.units(TINY)]


def over_seeds(found, support, name, tolerance=None):
    """Values (seeds, 3) of one learner: calls, regret, final loss."""
    rows = [
        list(result.values())
        for unit, results in found
        if unit["support"] == support
        for record, result in zip(unit["learners"] + unit["outside"], results["runs"], strict=True)
        if (record["name"], record.get("tolerance")) == (name, tolerance)
    ]
    return np.array(rows)


@pytest.mark.parametrize("support", TINY.supports)
@pytest.mark.parametrize("ours", ["certified", "confident"])
@pytest.mark.parametrize("points", ["", "_given"])
def test_ours_need_fewer_calls_than_ips_and_have_less_regret(found, support, ours, points):
    sparing = over_seeds(found, support, ours, 0.3)
    ips = over_seeds(found, support, f"eps_moful_ips{points}")
    assert difference(sparing[:, 1], ips[:, 1]).high < 0
    assert sparing[:, 0].mean() < ips[:, 0].mean()


def test_a_larger_tolerance_never_asks_more_by_much(found):
    """Calls fall with the tolerance; only the paths of two runs that differ may add a few."""
    for ours in ("certified", "confident"):
        small, large = (over_seeds(found, "per-context", ours, value)[:, 0] for value in (0.3, 1.0))
        assert large.mean() < small.mean()


def test_the_log_alone_calls_nobody(found):
    assert not over_seeds(found, "never-logged", "greedy")[:, 0].any()


def test_the_analysis_pairs_seeds_and_says_where_ours_lose(found):
    analysis = EXPERIMENT.analyse(TINY, found)
    expected = difference(
        over_seeds(found, "never-logged", "confident", 0.3)[:, 1],
        over_seeds(found, "never-logged", "linucb")[:, 1],
    )
    (row,) = (
        row
        for row in analysis.numbers["differences"]
        if (row["place"], row["ours"], row["other"], row["metric"])
        == ("never-logged", "confident", "linucb", "regret")
    )
    assert {key: row[key] for key in ("value", "low", "high")} == expected.to_dict()
    assert analysis.verdicts == ()
    told = analysis.numbers["losses"]["d = 5, 6,000 logged rows"]
    surely = any(row["low"] > 0 for row in analysis.numbers["differences"] if row["metric"] == "regret")
    assert told.startswith("Where ours lose") == surely
    cold = [row for row in zip(*analysis.tables["frontier"].values(), strict=True) if "moful" in row]
    assert len(cold) == len(TINY.supports), "who starts cold stands in every panel"


def test_who_starts_cold_does_not_hear_of_the_logging_policy():
    """One run a seed serves every panel, because contexts and luck do not depend on the policy."""
    streams, regrets = [], []
    for support in ("per-context", "never-logged", "region", "sharpened"):
        base = Synthetic(features=4, rows=300, rounds=80, support=support, seed=3)
        world = base.world()
        log = base.log(world)
        streams.append(base.live_stream(world, log))
        learner = start({"name": "moful"}, base, world, log)
        trace = simulate(learner, world, rounds=80, seed=3, stream="in-log", log=log)
        regrets.append(trace.regret[-1])
    assert len(set(regrets)) == 1
    for stream in streams[1:]:
        assert np.array_equal(stream.contexts, streams[0].contexts)
        assert np.array_equal(stream.draws, streams[0].draws)


def test_classes_that_were_never_logged_are_learnt_with_fewer_calls_than_rounds():
    """The log alone cannot name a class it never saw (its estimate for it is 0, not the best), so it errs
    on all of them; a learner that asks where the log is blind errs on fewer."""
    setting = replace(TINY, seeds=(0,), sizes=(), data=("digits",))
    pairs = [(unit, EXPERIMENT.run(unit)) for unit in EXPERIMENT.units(setting)]
    ((unit, result),) = pairs
    records = [*unit["learners"], *unit["outside"]]
    runs = {
        (record["name"], record.get("tolerance")): run
        for record, run in zip(records, result["runs"], strict=True)
    }
    alone, asked = runs["greedy", None], runs["confident", 0.1]
    assert alone["calls"] == 0
    assert alone["final"] > 0.2, "three of the ten classes were never logged"
    assert asked["final"] < alone["final"] / 2
    assert asked["calls"] < result["rounds"]
    assert runs["squarecb_warm", None]["calls"] == runs["regcb_warm", None]["calls"] == result["rounds"]
    drawn = drawing.draw(setting, EXPERIMENT.analyse(setting, pairs))
    assert list(drawn) == ["classes"]


class Recording(LinearWorld):
    """Remembers the rounds that a run was given."""

    def live_stream(self, rounds, rng, log=None):
        self.given = super().live_stream(rounds, rng, log)
        return self.given


def test_vowpal_wabbit_meets_the_same_contexts_and_luck():
    base = Synthetic(features=4, rows=300, rounds=50, seed=5)
    world = Recording(n_actions=base.actions, n_features=4, noise=base.noise, seed=5)
    log = base.log(world)
    simulate(start({"name": "moful"}, base, world, log), world, rounds=50, seed=5, stream="in-log", log=log)
    ours = world.given
    theirs = base.live_stream(base.world(), log)
    assert np.array_equal(ours.contexts, theirs.contexts)
    assert np.array_equal(ours.means, theirs.means)
    assert np.array_equal(ours.draws, theirs.draws)


def test_the_same_unit_twice_gives_equal_results():
    for unit in EXPERIMENT.units(OUTSIDE):
        first, second = EXPERIMENT.run(unit), EXPERIMENT.run(unit)
        assert first == second
        assert all(run["calls"] == OUTSIDE.rounds for run in first["runs"][len(unit["learners"]) :])


def test_vowpal_wabbit_learns_the_rows_and_plays_its_own_best_at_the_end():
    """Rows read from a file teach what rows told one by one teach; its policy is the mode of SquareCB."""
    world = LinearWorld(n_actions=3, n_features=2, noise=0.0, seed=1)
    log = draw_log(world, rows=400, unsupported=0.0, seed=1)
    scale = np.abs(log.rewards).max()
    with Vowpal.on(log, SQUARE, warm=True) as learner:
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
    for where, chosen in (("worlds", TUNED.warm + TUNED.cold), ("classes", TUNED.classes)):
        for one in chosen:
            assert one in list(tuning.grid(where, one.algorithm))
    assert not set(tuning.SEEDS) & set(EXPERIMENT.full.seeds)
    base = Synthetic(features=3, rows=3000, rounds=30)
    warm, cold = (tuning.regret(SQUARE, base, warm=begun) for begun in (True, False))
    assert 0 <= warm < cold


def test_without_vowpal_wabbit_the_page_says_so(monkeypatch):
    monkeypatch.setattr(vowpal, "installed", lambda: None)
    pairs = [(unit, EXPERIMENT.run(unit)) for unit in EXPERIMENT.units(OUTSIDE)]
    assert not any(unit["outside"] for unit, _ in pairs)
    analysis = EXPERIMENT.analyse(OUTSIDE, pairs)
    assert analysis.numbers["outside"] is None
    assert analysis.numbers["notes"][0] == MISSING
    (figure,) = drawing.draw(OUTSIDE, analysis).values()
    assert MISSING in figure.get_label()


def test_figures_come_from_the_tables(found):
    analysis = EXPERIMENT.analyse(TINY, found)
    (figure,) = drawing.draw(TINY, analysis).values()
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == list(TINY.supports)
    (legend,) = figure.legends
    assert "confident" in [text.get_text() for text in legend.get_texts()]
    assert "6 seeds" in figure.get_label()
