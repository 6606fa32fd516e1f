"""Results as people meet them: reprs that fit, HTML that is escaped and has no colours of its own, frames, labels."""

import re
import sys

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import MissingExtraError
from sparing.policies.policy import ConstantPolicy, UniformPolicy
from sparing.simulation import LinearWorld

HOSTILE = "<script>alert('x')</script> & \"quoted\""
NAMES = [HOSTILE, *(f"an action of a name that has forty letters {i}" for i in range(60))]
ROWS = 600


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(18, 80, ROWS),
        HOSTILE: rng.choice(["a", "b"], ROWS),
        "action": rng.choice(NAMES, ROWS),
        "reward": rng.random(ROWS),
    }
    return sparing.read_log(table, actions=[*NAMES, "never"])


@pytest.fixture(scope="module")
def shown(log, tmp_path_factory):
    """One of each."""
    path = tmp_path_factory.mktemp("shown") / "log.parquet"
    sparing.write_log(log, path)
    policy = sparing.learn(log, "greedy", holdout=0.3)
    learner = sparing.economical(log, call_cost=0.01, horizon=100)
    world = LinearWorld(n_actions=3, n_features=2, noise=0.5, seed=0)
    return {
        "log": log,
        "scan": sparing.scan(path, workers=1),
        "audit": sparing.audit(log),
        "evaluation": sparing.evaluate(log, policy, methods=["dm"]),
        "plan": sparing.plan(log, call_cost=0.01, horizon=30, worlds=19, workers=1, learners=("economical",)),
        "learner": learner,
        "policy": policy,
        "summary": sparing.LogSummary.of(log),
        "statistics": sparing.Statistics.of(log),
        "encoder": log.encoder,
        "decision": learner.decide({"age": 30, HOSTILE: "a"}),
        "decisions": learner.decide_many(log.contexts[:7]),
        "trace": sparing.simulate(
            sparing.linucb(n_actions=3, n_features=2, noise=0.5, theta_bound=1, context_bound=1),
            world,
            rounds=20,
        ),
        "trained_on": policy.trained_on,
    }


@pytest.mark.parametrize(
    "name",
    [
        "log",
        "scan",
        "audit",
        "evaluation",
        "plan",
        "learner",
        "policy",
        "summary",
        "statistics",
        "encoder",
        "decision",
        "decisions",
        "trace",
        "trained_on",
    ],
)
def test_a_repr_is_a_line_or_two(shown, name):
    text = repr(shown[name])
    assert "\n" not in text
    assert len(text) <= 240
    assert re.match(r"\w+\(.*\)$", text)


@pytest.mark.parametrize("name", ["log", "scan", "audit", "evaluation", "plan", "learner"])
def test_html_is_short_escaped_and_takes_the_pages_colours(shown, name):
    text = shown[name]._repr_html_()
    assert len(text) < 20_000
    assert "<script" not in text
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb\(|\b(white|black)\b", text)
    assert re.sub(r"<(/?)(div|table|tr|td|th|strong)\b[^<>]*>", "", text).count("<") == 0
    for tag in ("div", "table", "tr", "td", "th"):
        assert len(re.findall(f"<{tag}[ >]", text)) == text.count(f"</{tag}>")
    if name in ("log", "scan"):
        assert "&lt;script&gt;" in text


def test_html_of_a_scan_walks_nothing(shown, monkeypatch):
    monkeypatch.setattr(type(shown["scan"]), "fold", None)
    monkeypatch.setattr(type(shown["scan"]), "blocks", None)
    assert f"{ROWS} rows" in shown["scan"]._repr_html_()


def test_the_audits_frame_has_a_row_an_action(shown, log):
    frame = shown["audit"].to_frame()
    assert frame["action"].tolist() == list(log.action_names)
    assert frame["rows"].tolist() == log.counts.tolist()
    assert frame.columns[0] == "action"
    assert frame["share"].sum() == pytest.approx(1)


def test_the_evaluations_frame_has_a_row_a_method(shown):
    found = shown["evaluation"]
    frame = found.to_frame()
    assert frame["method"].tolist() == ["dm"]
    assert frame.loc[0, "value"] == found["dm"].value
    assert "notes" not in frame


def test_the_plans_frame_has_a_row_an_option(shown):
    plan = shown["plan"]
    frame = plan.to_frame()
    assert frame["option"].tolist() == [option.label for option in plan.options]
    for place, option in enumerate(plan.options):
        assert frame.loc[place, "calls"] == option.calls_at().mean
        assert frame.loc[place, "regret_high"] == option.regret_at().high
        assert frame.loc[place, "net"] == pytest.approx(frame.loc[place, "gain"] - frame.loc[place, "spend"])


def test_a_traces_frame_has_a_row_a_round(shown):
    trace, frame = shown["trace"], shown["trace"].to_frame()
    assert frame.index.name == "round"
    assert len(frame) == len(trace)
    assert frame["loss"].cumsum().tolist() == frame["regret"].tolist()
    assert frame["needs_reward"].cumsum().tolist() == frame["calls"].tolist()


def test_the_frame_of_many_decisions_has_labels(shown):
    frame = shown["decisions"].to_frame()
    assert frame["action"].tolist() == shown["decisions"].labels()
    assert (frame["low"] <= frame["high"]).all()
    assert "worth" in frame


@pytest.mark.parametrize("name", ["audit", "evaluation", "plan", "trace", "decisions"])
def test_without_pandas_a_frame_says_what_to_install(shown, name, monkeypatch):
    assert isinstance(shown[name].to_frame(), pd.DataFrame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="pip install pandas"):
        shown[name].to_frame()


def test_a_policys_actions_are_labels(shown, log):
    policy = shown["policy"]
    labels = policy.actions(log.contexts)
    assert labels.tolist() == [log.action_names[i] for i in policy.indices(log.contexts)]
    assert policy.actions([{"age": 30, HOSTILE: "a"}])[0] in log.action_names
    assert ConstantPolicy(("a", ("b", 1)), ("b", 1)).actions(np.ones((2, 1))).tolist() == [("b", 1)] * 2


def test_whole_numbers_stay_numbers():
    drawn = UniformPolicy((10, 20)).actions(np.ones((50, 1)), np.random.default_rng(0))
    assert drawn.dtype == np.int64
    assert set(drawn.tolist()) == {10, 20}
