"""The migration pages: every block runs, theirs and ours, in order, and prints what the page shows."""

import contextlib
import importlib.metadata
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from later import later
from reference.reader import BLOCK, Service
from research.environments import PEERS, install
from sparing.cli import app

bayesianbandits, mabwiser = later("bayesianbandits"), later("mabwiser.mab")
ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "migrate").glob("[a-z]*.md"))
NUMBER = re.compile(r"\d+\.\d+")
OURS, SERVED = "", "sparing.service"
ELSEWHERE = {"OBP": next(peer for peer in PEERS if peer.name == "obp")}
"""Peers that cannot live beside us, in the benchmark's environments."""

SLOW_TO_INSTALL = ("obp",)

STAND_INS = ROOT / "research" / "bench" / "peers" / "obp.py"
"""Puts empty modules in the place of PyTorch and plots, which are not installed."""

SAMPLING_ERROR = 4 * np.sqrt(2 * 0.25 / 1000)
"""Another version of a peer may draw other numbers: two means of 1,000 rewards of 0 and 1, four deviations apart."""

DISTRIBUTIONS = {"MABWiser": "mabwiser", "Vowpal Wabbit": "vowpalwabbit"}
"""Peers whose distribution is not called as the page calls them."""


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def test_each_page_has_both_sides_and_every_question():
    assert [page.stem for page in PAGES] == [
        "bayesianbandits",
        "mabwiser",
        "obp",
        "personalizer",
        "vowpal-wabbit",
    ]
    for page in PAGES:
        titles = [title for kind, title, _ in blocks(page) if kind == "python"]
        assert OURS in titles, page.name
        assert set(titles) - {OURS, SERVED}, page.name
        asked = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert asked == [
            "Names",
            "The same task in both",
            "What you can keep",
            "Advantages of the other tool",
            "Differences in behaviour",
        ], page.name


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.thorough if page.stem in SLOW_TO_INSTALL else ())
        for page in PAGES
    ],
    ids=lambda page: page.stem,
)
def test_a_page_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spaces, printed, within = {}, "", 0.0
    with contextlib.ExitStack() as stack:
        for number, (kind, title, text) in enumerate(blocks(page), start=1):
            where = f"{page.name}, block {number}"
            if kind == "python":
                printed += ran(title, text, where, spaces)
                within = 0.0 if version(title) in page.read_text(encoding="utf-8") else SAMPLING_ERROR
            elif kind == "sh":
                commanded(text, stack)
            else:
                assert alike(printed, text, within), f"{where}: printed\n{printed}\nnot\n{text}"
                printed = ""
    assert not printed, f"{page.name} does not show what it prints:\n{printed}"


def version(title):
    """Whose numbers a block prints; ours must always be those of the page."""
    if title in (OURS, SERVED):
        return ""
    return ELSEWHERE[title].pin.replace("==", " ") if title in ELSEWHERE else " ".join(distribution(title))


def distribution(title):
    name = DISTRIBUTIONS.get(title, title)
    return name, importlib.metadata.version(name)


def ran(title, text, where, spaces):
    """What a block prints; blocks of one title share their names."""
    if title in ELSEWHERE:
        return ran_elsewhere(ELSEWHERE[title], text)
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), warnings.catch_warnings():
        if title not in (OURS, SERVED):
            warnings.simplefilter("ignore")  # theirs to mend
        exec(
            compile(text, where, "exec", dont_inherit=True), spaces.setdefault(title, {"__name__": "example"})
        )
    return heard.getvalue()


def ran_elsewhere(peer, text):
    (found,) = install([peer])
    if found.interpreter is None:
        pytest.skip(f"{peer.title} cannot be installed here: {found.reason}")
    script = f"exec(open({str(STAND_INS)!r}).read(), {{'__name__': 'stand_ins'}})\n{text}"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [found.interpreter, "-c", script], capture_output=True, text=True, env=clean, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commanded(text, stack):
    """Run a page's command; a service runs until the page ends."""
    words = shlex.split(text.replace("\\\n", " "))
    assert words[0] == "sparing", text
    if words[1] != "serve":
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, done.output
        return
    address = f"http://127.0.0.1:{words[words.index('--port') + 1]}"
    stack.callback(Service([sys.executable, "-m", *words], address).stop)


def alike(printed, shown, within):
    """The same text, decimals within so much."""
    if NUMBER.sub("#", printed).strip() != NUMBER.sub("#", shown).strip():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return all(abs(float(one) - float(other)) <= within for one, other in pairs)


def test_the_page_gives_the_numbers_of_ten_worlds(tmp_path, monkeypatch):
    """Number of reward calls, and the expected clicks of the banners shown."""
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "migrate" / "mabwiser.md"
    text = page.read_text(encoding="utf-8")
    source = "".join(code for kind, title, code in blocks(page) if (kind, title) == ("python", OURS))
    source = source.replace("    clicks +=", "    clicks += rates[decision.action][visit['country']] #")
    calls, worth = [], []
    for seed in range(10):
        space = {}
        exec(source.replace("default_rng(1)", f"default_rng({seed})").replace("print(", "str("), space)
        calls.append(space["calls"])
        worth.append(space["clicks"] / 1000)
    spread = f"requested {min(calls)} to {max(calls)} rewards, {np.mean(calls):.0f} on average"
    sentence = f"{spread}, and earned {np.mean(worth):.3f} clicks per visit"
    assert sentence in text
    assert sentence in (page.parent / "bayesianbandits.md").read_text(encoding="utf-8")


@pytest.fixture
def numbers():
    world = sparing.simulation.LinearWorld(n_actions=4, n_features=3, noise=0.5, seed=0)
    return sparing.simulation.draw_log(world, rows=300, support="never-logged", unsupported=0.25, seed=1)


def test_linucb_is_theirs(numbers):
    """alpha and l2_lambda are alpha and ridge: the same action for every context, one of them never tried."""
    policy = mabwiser.LearningPolicy.LinUCB(alpha=0.7, l2_lambda=1.0)
    their = mabwiser.MAB(arms=list(numbers.action_names), learning_policy=policy, seed=0)
    names = [numbers.action_names[index] for index in numbers.actions]
    their.fit(names, numbers.rewards, numbers.contexts)
    ours = sparing.linucb(numbers, alpha=0.7, ridge=1.0)
    contexts = np.random.default_rng(2).normal(size=(100, 3))
    chosen = []
    for x in contexts:
        chosen.append(ours.decide(x))
        ours.forget(chosen[-1])  # an open call would count with what it predicts
    assert [decision.action for decision in chosen] == their.predict(contexts)
    assert len({decision.action for decision in chosen}) == 4


def test_a_cold_arm_begins_there_as_told():
    """The variance of an arm without rows is λ there, 1/λ here."""
    their = mabwiser.MAB(
        arms=[0, 1], learning_policy=mabwiser.LearningPolicy.LinUCB(alpha=1.0, l2_lambda=4.0), seed=0
    )
    their.fit([0], [0.0], [[0.0, 0.0]])
    assert their.predict_expectations([[1.0, 0.0]])[1] == pytest.approx(np.sqrt(4.0))
    ours = sparing.linucb(n_actions=2, n_features=2, alpha=1.0, ridge=4.0).decide([1.0, 0.0])
    assert ours.high == pytest.approx(1.959964 * np.sqrt(1 / 4.0))  # the 95 % interval at noise 1


def test_the_posterior_is_theirs(numbers):
    """NormalRegressor(alpha, beta): ridge = alpha/beta; a mean is the same number."""
    ours = sparing.linucb(numbers, alpha=0.01, ridge=2.0 / 4.0)
    for x in np.random.default_rng(3).normal(size=(20, 3)):
        decision = ours.decide(x)
        ours.forget(decision)
        rows = numbers.actions == decision.index
        model = bayesianbandits.NormalRegressor(alpha=2.0, beta=4.0)
        if rows.any():
            model.fit(numbers.contexts[rows], numbers.rewards[rows])
            assert decision.value == pytest.approx(model.predict(x[None])[0], rel=1e-9)


def test_the_estimates_are_theirs():
    """On OBP's page both sides show the same IPS and SNIPS."""
    shown = [text for kind, _, text in blocks(ROOT / "docs" / "migrate" / "obp.md") if kind == "text"]
    their, our = (re.findall(r"^(?:snip|ip)\w+ (\S+)", text, re.MULTILINE) for text in shown[:2])
    assert their == our
    assert len(our) == 2
