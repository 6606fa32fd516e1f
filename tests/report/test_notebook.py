"""Results in a notebook that runs: plots, tables, progress and the line about compiling; and HTML that texts cannot break."""

import os
from pathlib import Path

import matplotlib
import nbclient
import nbformat
import numpy as np
import pytest

import sparing
from sparing.report.notebook import progress
from sparing.simulation import LinearWorld, draw_log

CELLS = [
    """
import sparing
from sparing.native import compile
from sparing.simulation import LinearWorld, draw_log
world = LinearWorld(n_actions=3, n_features=2, noise=0.5, seed=0)
log = draw_log(world, rows=200, seed=1)
""",
    "sparing.learn(log, 'greedy')",
    "trace = sparing.simulate(sparing.linucb(log, alpha=0.3), world, rounds=300, progress=sparing.progress('a <run>'))\ntrace",
    "trace.plot();",
    """
show = sparing.progress('half')
show(1, 2)
""",
    """
def add_one(x):
    return x + 1

add_one.__module__ = "sparing.hashing"  # as a kernel of the package
compile.PATIENCE = 0.0
compile.compiled(add_one)(1)
""",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS]
    book = nbformat.v4.new_notebook(cells=cells)
    paths = os.pathsep.join([str(Path(sparing.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {
        **os.environ,
        "PYTHONPATH": paths,
        "IPYTHONDIR": str(folder),
        "MPLCONFIGDIR": matplotlib.get_cachedir(),
    }
    env["XDG_CACHE_HOME"] = str(folder)  # where what a cell compiles is kept
    client = nbclient.NotebookClient(book, timeout=120, kernel_name="python3")
    client.execute(env=env, cwd=str(folder))
    return [cell.outputs for cell in book.cells]


def html_of(outputs):
    return "".join(one.data.get("text/html", "") for one in outputs if "data" in one)


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_runs(outputs):
    _, policy, trace, plot, half, _ = outputs
    assert "Policy: greedy, 3 actions" in html_of(policy)
    assert "Trace: linucb, 300 rounds" in html_of(trace)
    assert any("image/png" in one.data for one in plot if "data" in one)
    assert "<progress" not in html_of(trace)  # over, and gone
    assert '<progress max="2" value="1">' in html_of(half)
    # Once, by the first cell that compiles for long: here or, on a new machine, before.
    told = [one.text for cell in outputs for one in cell if one.output_type == "stream"]
    assert "compiling what is used for the first time" in "".join(told)
    assert all(one.output_type != "error" for cell in outputs for one in cell)


def test_html_is_escaped():
    evil = "<script>alert(1)</script>"
    log = draw_log(LinearWorld(n_actions=2, n_features=2, noise=0.5, seed=0), rows=100, seed=1)
    named = sparing.Log.from_arrays(log.contexts, [(evil, "b")[a] for a in log.actions], log.rewards)
    learner = sparing.economical(named, call_cost=0.01, horizon=100)
    made = [
        sparing.learn(named, "greedy"),
        learner.policy(),
        learner.decide(log.contexts[0], eligible=[evil]),
    ]
    for one in made:
        text = one._repr_html_()
        assert "<script>" not in text
    assert "&lt;script&gt;" in made[0]._repr_html_()
    trace = sparing.Trace(evil, np.zeros(1, int), np.ones(1, bool), np.array([evil]), np.zeros(1))
    assert "<script>" not in trace._repr_html_()


def test_a_decision_says_what_it_is():
    log = draw_log(LinearWorld(n_actions=2, n_features=2, noise=0.5, seed=0), rows=100, seed=1)
    learner = sparing.economical(log, call_cost=0.01, horizon=100, costs=[0.25, 0.5])
    decision = learner.decide(log.contexts[0])
    text = decision._repr_html_()
    assert f"Decision 0: play {decision.action}" in text
    assert decision.reason in text
    assert f"{decision.value:.4g}" in text
    assert f"{decision.cost:.4g}" in text


def test_progress_is_silent_where_nobody_looks(capsys):
    show = progress("working")
    for done in range(3):
        show(done, 2)
    assert capsys.readouterr() == ("", "")
