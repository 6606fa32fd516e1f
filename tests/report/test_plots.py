"""Plots of results: what is drawn is what the result says, in the reader's axes and style, whatever the log's texts are."""

import subprocess
import sys

import matplotlib.style
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import sparing
from reference.accessibility import contrast
from sparing.report import figures
from sparing.simulation import LinearWorld, draw_log

WORLD = LinearWorld(n_actions=4, n_features=2, noise=0.5, seed=0)
EVIL = "_$\\frac{1}$ <b>\x1b[2J\n" + "x" * 100


def named(log, name=EVIL):
    return sparing.Log.from_arrays(
        log.contexts,
        [name if a == 0 else f"a{a}" for a in log.actions],
        log.rewards,
        propensities=log.propensities,
    )


@pytest.fixture(scope="module")
def results():
    log = named(draw_log(WORLD, rows=300, seed=1))
    columns = {
        "age": [31.0, 40.0, 52.0, 60.0] * 50,
        "action": [EVIL, "b"] * 100,
        "reward": [1.0, 0.0, 0.0, 1.0, 0.0] * 40,
    }
    read = sparing.read_log(columns, features="auto")
    return {
        "audit": sparing.audit(log),
        "evaluation": sparing.evaluate(log, sparing.learn(log, "greedy", holdout=0.3)),
        "plan": sparing.plan(log, call_cost=0.05, horizon=200, worlds=20, learners="economical"),
        "trace": sparing.simulate(
            sparing.economical(draw_log(WORLD, rows=300, seed=1), call_cost=0.01, horizon=300),
            WORLD,
            rounds=200,
        ),
        "learner": sparing.economical(read, call_cost=0.01, horizon=300),
        "queue": sparing.ask(log, calls=5, call_cost=1e-4, horizon=5000, actions=["a1", "new"]),
    }


NAMES = ("audit", "evaluation", "plan", "trace", "learner", "queue")


@pytest.fixture(params=["default", "dark_background"])
def axes(request):
    with matplotlib.style.context(request.param):
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.add_subplot()


@pytest.mark.parametrize("name", NAMES)
def test_axes_in_axes_out(results, name, axes):
    """Labels with units; marks that can be seen on the ground, light or dark; nothing the log says breaks the drawing."""
    found = results[name].plot(axes)
    assert found is axes
    axes.figure.canvas.draw()
    assert axes.get_xlabel()
    assert any("reward" in text or "%" in text for text in (axes.get_xlabel(), axes.get_ylabel()))
    ground = matplotlib.colors.to_hex(axes.get_facecolor())
    marks = {matplotlib.colors.to_hex(line.get_color()) for line in axes.lines}
    marks |= {
        matplotlib.colors.to_hex(bars[0].get_facecolor())
        for bars in axes.containers
        if bars.get_label() == "logged"
    }
    assert marks
    assert min(contrast(mark, ground) for mark in marks) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_texts_stay_in_a_figure_as_wide_as_a_phone(results, name):
    """Labels, title and legend at 3.9 × 3.9 inches, with a long name of an action beside the axes."""
    figure = Figure(layout="constrained", figsize=(3.9, 3.9))
    canvas = FigureCanvasAgg(figure)
    axes = results[name].plot(figure.add_subplot())
    canvas.draw()
    legend = axes.get_legend()
    shown = [axes.xaxis.label, axes.yaxis.label, axes.title, *(legend.get_texts() if legend else [])]
    for text in (each for each in shown if each.get_text()):
        box = text.get_window_extent()
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y1 <= figure.bbox.y1, text


def test_a_new_figure_without_axes(results):
    import matplotlib.pyplot as plt

    matplotlib.use("agg")
    found = results["trace"].plot()
    assert found.figure in map(plt.figure, plt.get_fignums())
    plt.close("all")


def test_the_audit_shows_shares_of_rows(results, axes):
    audit = results["audit"]
    audit.plot(axes)
    logged = [patch for patch in axes.containers[-1]]
    shown = sorted(bar.get_width() for bar in logged)
    assert np.allclose(shown, sorted(100 * a.share for a in audit.per_action))


def test_the_evaluation_shows_its_intervals(results, axes):
    evaluation = results["evaluation"]
    evaluation.plot(axes)
    values = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert np.allclose(
        values, [one.value for one in evaluation.estimates if not one.unknown and not one.inconsistent]
    )
    thick = [c.get_segments()[0][:, 0] for c in axes.collections if c.get_linewidth()[0] == 4]
    own = [(one.low, one.high) for one in evaluation.estimates if not one.refused and np.isfinite(one.low)]
    assert np.allclose(thick, own)


def test_intervals_have_their_level(results):
    """A number stays with its percent sign, however narrow the figure is."""
    for width in np.arange(3.0, 7.0, 0.25):
        figure = Figure(layout="constrained", figsize=(width, 3.9))
        FigureCanvasAgg(figure)
        plan, learner = (
            results[name].plot(figure.add_subplot(1, 2, place))
            for place, name in ((1, "plan"), (2, "learner"))
        )
        assert (
            plan.get_legend().get_title().get_text()
            == f"bars: {100 * results['plan'].coverage:g} % intervals"
        )
        assert " %" not in learner.get_xlabel().replace("\n", " ").replace("\N{NO-BREAK SPACE}", "_")


def test_runs_on_the_same_axes_are_compared(results, axes):
    trace = results["trace"]
    for against, last in (("rounds", len(trace)), ("calls", trace.calls[-1])):
        axes.clear()
        trace.plot(axes, against=against)
        assert axes.lines[0].get_xdata()[-1] == last
        assert axes.lines[0].get_ydata()[-1] == trace.regret[-1]
        trace.plot(axes, against=against)
        assert (
            len(
                {
                    line.get_color()
                    for line in axes.lines
                    if line.get_linestyle() == "-" and line.get_marker() == "None"
                }
            )
            == 2
        )
    with pytest.raises(sparing.errors.SettingError, match="against='time'"):
        trace.plot(axes, against="time")


def test_the_learner_shows_the_limits_of_its_decisions(results, axes):
    learner = results["learner"].copy()
    x = {"age": 47.0}
    decision = learner.decide(x)
    learner.plot(axes, x=x)
    segments = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
    assert np.isclose(segments, [decision.low, decision.high]).all(axis=1).any()
    assert (np.diff(axes.lines[0].get_xdata()) <= 0).all()


def test_the_average_context_must_be_known(axes):
    with pytest.raises(sparing.errors.DecisionError, match="x="):
        sparing.economical(draw_log(WORLD, rows=300, seed=1), call_cost=0.01, horizon=300).plot(axes)


def test_the_queue_shows_worths_in_order(results, axes):
    queue = results["queue"]
    queue.plot(axes)
    shown = sorted((x, y) for line in axes.lines for x, y in zip(*line.get_data(), strict=True))
    assert [y for _, y in shown] == [call.worth for call in queue.calls]


def test_a_missing_matplotlib_is_named(results):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import numpy as np, sparing\n"
        "from sparing import Trace\n"
        "z = np.zeros(3)\n"
        "try:\n    Trace('x', z.astype(int), z > 0, z.astype(str), z).plot()\n"
        "except sparing.errors.MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'sparing[report]'" in done.stdout


def test_texts_are_not_formulas():
    assert figures.plain_text("$x$ _") == r"\$x\$ _"
    assert figures.plain_text("_hidden") == "hidden"
    assert figures.plain_text("") == "–"
    assert "\x1b" not in figures.plain_text(EVIL)
