"""A policy learnt on one file of a peer's format scores another: features are matched by their names."""

import json

import numpy as np
import pytest

from sparing import evaluate, learn, read_log
from sparing.errors import LogError

HEADER = "timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1"


def open_bandit(path, rows):
    lines = [
        f"2019-11-24 00:00:00.000,{item},1,{click},{chance},{first},{second}"
        for item, click, chance, first, second in rows
    ]
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


def clicks(values, seed, n=400):
    """Item 0 is best for users of kind a, item 1 for all others."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        kind, other = str(rng.choice(values)), str(rng.choice(["p", "q"]))
        item = int(rng.integers(0, 2))
        yield item, int(rng.random() < (0.8 if (item == 0) == (kind == "a") else 0.1)), 0.5, kind, other


def test_open_bandit_files_with_other_values(tmp_path):
    taught = read_log(open_bandit(tmp_path / "bts.csv", clicks(["a", "b", "c"], 0)))
    policy = learn(taught, "greedy", ridge=1.0)
    path = open_bandit(tmp_path / "random.csv", clicks(["d", "b", "a"], 1))
    other = read_log(path, features=policy.encoder)
    assert other.feature_names == taught.feature_names
    plain = read_log(path)
    assert plain.feature_names != taught.feature_names
    column = {name: plain.contexts[:, j] for j, name in enumerate(plain.feature_names)}
    for j, name in enumerate(taught.feature_names):
        np.testing.assert_array_equal(other.contexts[:, j], column.get(name, np.zeros(plain.n_rows)))
    # By hand: item 0 for kind a, item 1 for the others; a kind never seen is scored by what else is known.
    chosen = policy.indices(other.contexts)
    known = column["user_feature_0=d"] == 0
    np.testing.assert_array_equal(chosen[known], np.where(column["user_feature_0=a"] == 1, 0, 1)[known])
    by_hand = ((chosen == other.actions) * other.rewards / 0.5).mean()
    assert evaluate(other, policy, methods=["ips"])["ips"].value == pytest.approx(by_hand, rel=1e-12)


def test_another_column_is_refused(tmp_path):
    taught = read_log(open_bandit(tmp_path / "bts.csv", clicks(["a", "b"], 0)))
    path = open_bandit(tmp_path / "random.csv", clicks(["a", "b"], 1))
    path.write_text(path.read_text().replace("user_feature_1", "user_feature_9", 1))
    with pytest.raises(
        LogError, match=r"no column 'user_feature_1=p', .* and unknown column 'user_feature_9=p'"
    ):
        read_log(path, features=taught.encoder)


def interactions(path, contexts):
    events = [
        {"context": context, "action": i % 2, "reward": 0.5 * i, "actions": [0, 1]}
        for i, context in enumerate(contexts)
    ]
    path.write_text("\n".join(json.dumps(event) for event in events) + "\n")
    return path


def test_null_is_missing_and_other_orders_are_realigned(tmp_path):
    one = read_log(
        interactions(tmp_path / "one.jsonl", [{"age": 3.5, "city": "x"}, {"age": None, "city": "y"}])
    )
    assert set(one.feature_names) == {"age", "city=x", "city=y", "age is missing"}
    missing = one.contexts[:, one.feature_names.index("age is missing")]
    assert missing.tolist() == [0, 1]
    two = interactions(tmp_path / "two.jsonl", [{"city": "y", "age": None}, {"city": "x", "age": 3.5}])
    again = read_log(two, features=one.encoder)
    np.testing.assert_array_equal(again.contexts, one.contexts[::-1])


def test_words_of_vowpal_wabbit_that_were_never_seen_are_left_out(tmp_path):
    (tmp_path / "one.vw").write_text("1:-1:0.5 | cheap red\n2:0:0.5 | dear blue\n")
    (tmp_path / "two.vw").write_text("2:-1:0.5 | new red\n1:0:0.5 | blue cheap\n")
    one = read_log(tmp_path / "one.vw")
    two = read_log(tmp_path / "two.vw", features=one.encoder)
    assert two.feature_names == one.feature_names
    rows = [
        {name for name, value in zip(two.feature_names, row, strict=True) if value} for row in two.contexts
    ]
    assert rows == [{"red"}, {"blue", "cheap"}]
