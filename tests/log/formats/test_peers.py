"""Our files, read by the tools whose formats they are."""

import json

import coba
import numpy as np
import pytest
import vowpalwabbit as vw

import other_formats
from sparing.log import Log
from sparing.log.formats import FORMATS

LABEL = vw.LabelType.CONTEXTUAL_BANDIT
FULL = 3.4028234663852886e38
"""What the parser writes as the cost of an action that was available but not taken."""


@pytest.fixture
def log():
    """Three actions, of which each row could take two or three; every number distinct in single precision."""
    rng = np.random.default_rng(5)
    table = np.array([[0.5, 0.25, 0.25], [0.0, 0.75, 0.25], [0.625, 0.375, 0.0]])[np.arange(30) % 3]
    actions = (table.cumsum(axis=1) > rng.random((30, 1))).argmax(axis=1)
    return Log.from_arrays(
        rng.normal(size=(30, 3)),
        np.array(["left", "mid dle", "ri:ght"])[actions],
        rng.normal(size=30),
        distribution=table,
        action_names=["left", "mid dle", "ri:ght"],
        feature_names=["age", "geo^lat", "two words"],
    )


def labels(example):
    return [
        (cost.action, cost.cost, cost.probability)
        for cost in example.get_label(LABEL).costs
        if cost.cost != FULL
    ]


def available(example):
    return {cost.action for cost in example.get_label(LABEL).costs}


def values(example):
    """The feature values, the tool's constant among them."""
    return sorted(value for _, value in example.iter_features())


def near(*numbers):
    """Numbers as the tool's own quick reader of decimals knows them: right to 4 units of single precision."""
    return pytest.approx(numbers, rel=4 * 2.0**-23, abs=0)


def with_constant(row):
    return near(*sorted([*row, 1.0]))


def parsed(arguments, texts):
    """Each text as the tool parses it."""
    workspace = vw.Workspace(f"{arguments} --quiet")
    try:
        for text in texts:
            example = workspace.parse(text)
            yield example
            workspace.finish_example(example)
    finally:
        workspace.finish()


def test_cb_lines(log, tmp_path):
    FORMATS["vw"].write(log, tmp_path / "log.vw")
    lines = (tmp_path / "log.vw").read_text().splitlines()
    for i, example in enumerate(parsed("--cb 3", lines)):
        [(action, cost, probability)] = labels(example)
        assert action == log.actions[i] + 1
        assert (cost, probability) == near(-log.rewards[i], log.propensities[i])
        assert available(example) == set(np.flatnonzero(log.support.mask()[i]) + 1)
        assert tuple(values(example)) == with_constant(log.contexts[i])
    assert i == log.n_rows - 1


def test_adf_blocks(log, tmp_path):
    FORMATS["vw-adf"].write(log, tmp_path / "log.adf")
    blocks = (tmp_path / "log.adf").read_text().strip("\n").split("\n\n")
    for i, (shared, *actions) in enumerate(parsed("--cb_adf", blocks)):
        check_event(log, i, shared, actions)
    assert i == log.n_rows - 1


def test_dsjson_lines(log, tmp_path):
    FORMATS["dsjson"].write(log, tmp_path / "log.dsjson")
    lines = (tmp_path / "log.dsjson").read_text().splitlines()
    for i, (shared, *actions) in enumerate(parsed("--cb_adf --dsjson", lines)):
        check_event(log, i, shared, actions)
    assert i == log.n_rows - 1


def test_features_without_a_name_are_those_named_by_their_place():
    """The tool's own hashes agree, in the bits that it uses."""
    texts = ["1:1:0.5 |f a :5 b :6", "1:1:0.5 |f a 0:5 b 1:6"]
    [nameless, numbered] = [
        [(place % 2**18, value) for place, value in example.iter_features()]
        for example in parsed("--cb 3 --bit_precision 18", texts)
    ]
    assert nameless == numbered


def check_event(log, i, shared, actions):
    """The shared features, and one label, on the line of the action that was taken."""
    members = np.flatnonzero(log.support.mask()[i])
    assert tuple(values(shared)) == with_constant(log.contexts[i])
    assert len(actions) == len(members)
    for member, action in zip(members, actions, strict=True):
        found = labels(action)
        if member == log.actions[i]:
            [(_, cost, probability)] = found
            assert (cost, probability) == near(-log.rewards[i], log.propensities[i])
        else:
            assert found == []
    hashes = [frozenset(feature for feature, _ in action.iter_features()) for action in actions]
    assert len(set(hashes)) == len(members)


def test_dsjson_action_numbers_begin_at_one(log, tmp_path):
    FORMATS["dsjson"].write(log, tmp_path / "log.dsjson")
    lines = (tmp_path / "log.dsjson").read_text().splitlines()
    for line, (_, *actions) in zip(lines, parsed("--cb_adf --dsjson", lines), strict=True):
        [(number, _, _)] = [label for action in actions for label in labels(action)]
        assert number == json.loads(line)["a"][0] == json.loads(line)["_labelIndex"] + 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vw", "--cb_explore 3 --epsilon 0"),
        ("vw-adf", "--cb_explore_adf --epsilon 0"),
        ("dsjson", "--cb_explore_adf --epsilon 0 --dsjson"),
    ],
)
def test_the_tool_learns_the_action_that_pays(name, arguments, tmp_path):
    """A cost of the wrong sign would teach it the two others."""
    rng = np.random.default_rng(3)
    actions = rng.integers(3, size=400)
    uniform = Log.from_arrays(
        rng.normal(size=(400, 1)),
        actions,
        (actions == 1).astype(float),
        distribution=np.full((400, 3), 1 / 3),
        action_names=[0, 1, 2],
    )
    FORMATS[name].write(uniform, tmp_path / "log")
    text = (tmp_path / "log").read_text().strip("\n")
    events = text.split("\n\n" if name == "vw-adf" else "\n")
    workspace = vw.Workspace(f"{arguments} --quiet")
    for event in events:
        example = workspace.parse(event)
        workspace.learn(example)
        workspace.finish_example(example)
    example = workspace.parse(events[0])
    chances = workspace.predict(example)
    workspace.finish_example(example)
    workspace.finish()
    assert np.argmax(chances) == 1


class Interactions:
    """A coba environment of interactions."""

    def __init__(self, interactions):
        self.params = {}
        self.interactions = interactions

    def read(self):
        yield from (coba.LoggedInteraction(**each) for each in self.interactions)


def interactions_of(log, path):
    """What coba is given."""
    other_formats.write(log, path, "coba")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_coba_evaluates_to_the_ips_mean(tmp_path):
    """coba's IPS value of a fixed policy π is the mean of π(a|x)·r/μ(a|x) over the log."""
    rng = np.random.default_rng(8)
    table = rng.dirichlet(np.ones(4), size=50)
    actions = (table.cumsum(axis=1) > rng.random((50, 1))).argmax(axis=1)
    log = Log.from_arrays(
        rng.normal(size=(50, 2)), actions, rng.normal(size=50), distribution=table, action_names=range(4)
    )
    interactions = interactions_of(log, tmp_path / "log.jsonl")
    policy = np.array([0.1, 0.2, 0.3, 0.4])
    evaluator = coba.SequentialCB(record=["reward"], learn=None, eval="ips")
    rewards = [
        out["reward"]
        for out in evaluator.evaluate(Interactions(interactions), coba.FixedLearner(policy.tolist()))
    ]
    expected = policy[actions] * log.rewards / log.propensities
    np.testing.assert_allclose(rewards, expected, rtol=1e-12)


def test_coba_interactions_read_back(log, tmp_path):
    """What coba's own class holds is read as a log."""
    interactions = interactions_of(log, tmp_path / "log.jsonl")
    back, _ = FORMATS["coba"].read([coba.LoggedInteraction(**each) for each in interactions])
    assert (back.contexts == log.contexts).all()
    assert [back.action_names[a] for a in back.actions] == [log.action_names[a] for a in log.actions]
    assert (back.support.mask() == log.support.mask()).all()
