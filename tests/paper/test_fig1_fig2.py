"""Claims C1 and C3 with fixed seeds, through the experiments' own runs; and verdicts that follow the numbers.

The orderings are tested at radius_scale 1, where the guarantees hold: n^UA = 0.2, d = 2, T = 2000 for C1, d = 5 for C3.
"""

import numpy as np
import pytest

from research.learners import RATIO, UNCLIPPED
from research.paper import calls, fig1, fig2
from research.paper.calls import MOST_ROWS, SAME, cell
from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN
from research.paper.fig1 import Setting as Fig1
from research.paper.fig2 import Setting as Fig2
from research.paper.report import fig1 as fig1_figures
from research.paper.report import fig2 as fig2_figures
from research.paper.report.svg import small

SEEDS, ROUNDS = range(6), 2000


def lived(run, features, **unit):
    """The runs of a few seeds at radius_scale 1."""
    listed = [calls.unit(seed=seed, features=features, rounds=ROUNDS, **unit) for seed in SEEDS]
    return calls.frame([(one, run(one)) for one in listed])


@pytest.fixture(scope="module")
def sizes():
    runs = lived(
        fig1.EXPERIMENT.run,
        2,
        algorithms=("moful", "eps_moful", "eps_moful_ips"),
        supported=(5, 12),
        unsupported=(0.2,),
    )

    def values(algorithm, name="calls", **where):
        place = {"features": 2, "rounds": ROUNDS, "radius_scale": 1.0}
        return runs.where(**cell(algorithm, place, unsupported=0.2, **where)).values(name)

    return values


def test_c1_moful_calls_always_and_the_others_less(sizes):
    assert (sizes("moful") == ROUNDS).all()
    for size in (5, 12):
        informed = sizes("eps_moful", supported=size)
        assert (informed <= ROUNDS).all()
        for clip in (RATIO, UNCLIPPED):
            assert (sizes("eps_moful_ips", supported=size, clip=clip) < informed).all(), "in every seed"


def test_c1_calls_fall_with_the_known_actions(sizes):
    for algorithm, clip in (("eps_moful", None), ("eps_moful_ips", RATIO), ("eps_moful_ips", UNCLIPPED)):
        few, many = (sizes(algorithm, supported=size, clip=clip) for size in (5, 12))
        assert (many <= few).all()
        assert many.sum() < few.sum()


def test_fewer_calls_by_the_log_are_paid_for_in_regret(sizes):
    """Log-beats answers with what was logged where a noisy reward happened to be high."""
    informed = sizes("eps_moful", "regret", supported=12)
    assert (sizes("eps_moful_ips", "regret", supported=12, clip=UNCLIPPED) > informed).all()


@pytest.fixture(scope="module")
def shares():
    runs = lived(
        fig2.EXPERIMENT.run,
        5,
        algorithms=("eps_moful", "eps_moful_ips"),
        supported=(4,),
        unsupported=(0.6, 0.2),
        chosen=(SAME,),
    )

    def values(algorithm, share, clip=None, name="calls"):
        place = {"features": 5, "rounds": ROUNDS, "radius_scale": 1.0}
        known = {"supported": 4, "chosen": SAME, "unsupported": share, "clip": clip}
        return runs.where(**cell(algorithm, place, **known)).values(name)

    return values


def test_c3_the_log_reaches_eps_moful_through_the_known_actions_only(shares):
    for name in ("calls", "regret"):
        assert (shares("eps_moful", 0.6, name=name) == shares("eps_moful", 0.2, name=name)).all()


def test_c3_fewer_unsupported_actions_fewer_calls_unless_clipped_to_one(shares):
    assert (shares("eps_moful_ips", 0.2, UNCLIPPED) < shares("eps_moful_ips", 0.6, UNCLIPPED)).all()
    clipped = shares("eps_moful_ips", 0.2, RATIO) - shares("eps_moful_ips", 0.6, RATIO)
    assert abs(clipped.mean()) < 0.02 * ROUNDS


def made_up(setting, units, number):
    """Results in which `number(unit, run)` is the share of rounds called."""
    results = []
    for unit in units(setting):
        curve = len(calls.shown_rounds(unit["rounds"]))
        runs = []
        for keys in calls.runs_of(unit):
            # A little luck of its own for each run, so that intervals have a width.
            luck = np.random.default_rng([unit["seed"], len(runs)]).uniform(-0.001, 0.001)
            made = round((number(unit, keys) + luck) * unit["rounds"])
            found = {"calls": made, "calls_so_far": [made] * curve, "regret_so_far": [1.0] * curve}
            zero = dict.fromkeys(("skipped_regret", "log_beats", "log_beats_regret"), 0)
            runs.append(keys | found | zero | {"regret": 1.0 + luck})
        results.append((unit, {"runs": runs}))
    return results


def share_by_size(unit, keys, *, least):
    """T for mOFUL; less with L and with log-beats; `least` at L = 12."""
    if keys["algorithm"] == "moful":
        return 1.0
    return least + (12 - keys["supported"]) * 0.05 + 0.2 * (keys["algorithm"] == "eps_moful")


SMALL = Fig1(seeds=(0, 1, 2, 3), scales=(1.0, 0.1), share_scales=(0.1,), share_repeats=2)


def verdicts(setting, number):
    found = fig1.EXPERIMENT.analyse(setting, made_up(setting, fig1.EXPERIMENT.units, number))
    return {verdict.claim: verdict for verdict in found.verdicts}


def test_verdicts_hold_where_the_numbers_say_so():
    found = verdicts(SMALL, lambda unit, keys: share_by_size(unit, keys, least=0.2))
    assert found["C1"].verdict == found["C2"].verdict == HOLDS
    assert "0 are reversed" in found["C1"].measured


def test_every_figure_shows_calls_with_regret_and_says_its_settings():
    experiments = [
        (fig1.EXPERIMENT, SMALL, fig1_figures, lambda unit, keys: share_by_size(unit, keys, least=0.2)),
        (fig2.EXPERIMENT, Fig2(seeds=(0, 1)), fig2_figures, lambda unit, keys: 0.5),
    ]
    for experiment, setting, figures, number in experiments:
        analysis = experiment.analyse(setting, made_up(setting, experiment.units, number))
        drawn = figures.draw(setting, analysis)
        assert sorted(drawn) == ["calls_scale_0.1", "calls_scale_1", "sensitivity"]
        for plate in drawn.values():
            for figure in plate.drawings("x").values():
                small(figure)  # a letter that the font lacks is a warning, and a warning fails
            labels = " ".join(figure.axes[0].get_ylabel() for figure in plate.panels)
            assert "calls" in labels
            assert "regret" in labels
            said = (
                "5",
                "d = ",
                "radius_scale",
                "σ = 2",
                "T = 3,000",
                "seeds",
                "Prior",
                "per-context",
                "price",
            )
            assert all(word in plate.regime for word in said)


def test_verdicts_hold_only_at_a_small_scale():
    def number(unit, keys):
        return share_by_size(unit, keys, least=0.2) if unit["radius_scale"] == 0.1 else 0.99

    found = verdicts(SMALL, number)
    assert found["C1"].verdict == found["C2"].verdict == ONLY_WHEN
    assert "d = 5, radius_scale 0.1;" in found["C1"].when
    assert "radius_scale 1:" not in found["C2"].when


def test_verdicts_fail_when_the_order_is_reversed_and_the_share_is_another():
    found = verdicts(SMALL, lambda unit, keys: 1.2 - share_by_size(unit, keys, least=0.2))
    assert found["C1"].verdict == found["C2"].verdict == FAILS
    assert "is reversed in" in found["C1"].when
    assert "no setting that was run" in found["C2"].when


@pytest.mark.parametrize(
    ("slope", "drift", "word"), [(0.1, 0.0, HOLDS), (-0.1, 0.0, FAILS), (0.0, 0.0, FAILS), (0.1, 0.1, FAILS)]
)
def test_c3_needs_the_slope_and_the_equivalence(slope, drift, word):
    def number(unit, keys):
        rate = {"moful": 0.0, "eps_moful": drift, "eps_moful_ips": slope}[keys["algorithm"]]
        return 0.5 + rate * (keys["unsupported"] or 0.0)

    setting = Fig2(seeds=(0, 1, 2, 3), scales=(1.0,), shown_scales=(1.0,), chosen=(MOST_ROWS,))
    (verdict,) = fig2.EXPERIMENT.analyse(setting, made_up(setting, fig2.EXPERIMENT.units, number)).verdicts
    assert verdict.verdict == word
