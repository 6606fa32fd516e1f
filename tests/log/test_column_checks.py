"""Warnings at the door: columns known only after the action, ids, copies of rows, actions that are ids; and no false alarms."""

import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import LogError, LogWarning
from sparing.log.labels import check_action_labels

ROWS = 2000


def ordinary(seed, rows=ROWS):
    """Clicks or euros of three to six actions, over numbers, whole numbers, categories, truths, times and missing cells."""
    rng = np.random.default_rng(seed)
    k, binary = int(rng.integers(3, 7)), seed % 2 == 0
    actions = rng.choice(k, rows, p=rng.dirichlet(np.full(k, 3.0)))
    columns = {
        "age": rng.integers(18, 90, rows),
        "income": np.round(rng.lognormal(10.5, 0.6, rows)),
        "visits": rng.geometric(0.05, rows),
        "score": rng.normal(size=rows),
        "price": np.round(rng.gamma(2.0, 30.0, rows), 2),
        "country": rng.choice(["NZ", "DE", "US", "FR"], rows, p=[0.1, 0.2, 0.3, 0.4]),
        "city": np.char.add("city ", (rng.zipf(1.3, rows) % 5000).astype(str)),
        "member": rng.random(rows) < 0.3,
        "seen_at": [
            f"2026-03-{1 + i % 28:02d}T{i % 24:02d}:{i % 60:02d}" for i in rng.integers(0, 10**6, rows)
        ],
        "seconds": 1_700_000_000 + np.cumsum(rng.integers(1, 50, rows)),
    }
    columns["height"] = [None if rng.random() < 0.1 else float(h) for h in rng.normal(170, 10, rows)]
    z = 0.3 * actions + rng.normal() * (columns["age"] - 50) / 20 + rng.normal() * columns["score"]
    z = z + rng.normal(size=4)[np.unique(columns["country"], return_inverse=True)[1]]
    clicks = (rng.random(rows) < 1 / (1 + np.exp(1 - z))).astype(float)
    kept = rng.permutation(list(columns))[: rng.integers(2, len(columns) + 1)]
    rewards = clicks if binary else z + rng.normal(size=rows)
    return {**{name: columns[name] for name in kept}, "action": [f"a{i}" for i in actions], "reward": rewards}


def warned(given, **options):
    """What is told of a table, by read_log and by scan alike."""
    told = []
    for open_log in (sparing.read_log, sparing.scan):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            open_log(given, **options)
        assert all(each.category is LogWarning for each in caught)
        told.append([str(each.message) for each in caught])
    assert told[1] == [text for text in told[0] if "action column" not in text]
    return told[0]


def taken(given, rows):
    return {name: np.asarray(cells, dtype=object)[rows].tolist() for name, cells in given.items()}


def test_ordinary_logs_raise_no_warning():
    """At most one of 60 logs, the last of which is longer than what is checked."""
    alarms = [warned(ordinary(seed, 300 if seed % 3 else ROWS)) for seed in range(60)]
    alarms.append(warned(ordinary(60, 20_500)))
    assert sum(map(bool, alarms)) <= 1, [text for text in alarms if text]


RNG = np.random.default_rng(7)
AFTER = {
    "revenue": lambda r: np.where(r > 0, RNG.lognormal(3, 1, len(r)), 0.0),
    "revenue_or_nothing": lambda r: [float(RNG.lognormal(3, 1)) if one else None for one in r],
    "converted_at": lambda r: ["2026-01-02 10:00" if one else None for one in r],
    "status": lambda r: np.where(r > 0, RNG.choice(["paid", "sent"], len(r)), "open"),
}


@pytest.mark.parametrize("name", AFTER)
def test_a_column_known_only_after_the_action(name):
    for seed in (0, 2, 4):
        given = ordinary(seed)
        given[name] = AFTER[name](np.asarray(given["reward"]))
        (told,) = warned(given)
        assert f"'{name}' explains 100%" in told
        assert f"drop={name!r}" in told
        assert warned(given, drop=name) == []


def test_a_column_that_predicts_one_action_alone_is_no_leak():
    given = ordinary(0)
    there = np.array(given["action"]) == "a0"
    given["hint"] = np.where(there, given["reward"], RNG.random(ROWS))
    assert warned(given) == []


def test_euros_known_afterwards():
    given = ordinary(1)
    given["margin"] = 0.3 * given["reward"] + 0.02 * RNG.normal(size=ROWS)
    assert "'margin' explains" in warned(given)[0]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("customer", RNG.integers(10_000, 60_000, ROWS)),
        ("row", np.arange(ROWS)),
        ("nr", RNG.permutation(ROWS)),
        ("user_id", RNG.integers(0, 300, ROWS)),
        ("kdnr", np.char.add("K", RNG.integers(0, 1500, ROWS).astype(str))),
    ],
)
def test_columns_of_ids(name, cells):
    given = {**ordinary(0), name: cells}
    (told,) = warned(given)
    assert f"'{name}' looks like an id" in told
    assert warned(given, drop=[name]) == []


def test_another_id_of_the_same_user():
    """One number for each context id; the age, constant within a user too, is none."""
    user = RNG.integers(0, 400, ROWS)
    age = RNG.integers(18, 90, 400)[user]
    given = {**ordinary(0), "age": age, "context_id": user, "account": RNG.permutation(90_000)[:400][user]}
    (told,) = warned(given)
    assert "'account' looks like an id" in told


def test_copies_of_rows_are_counted():
    given = {**ordinary(0), "score": RNG.normal(size=ROWS)}
    twice = taken(given, np.r_[np.arange(ROWS), RNG.integers(0, ROWS, 100)])
    assert "100 of 2,100 rows repeat" in warned(twice)[0]
    few = {name: given[name] for name in ("action", "reward")} | {"country": RNG.choice(["NZ", "DE"], ROWS)}
    assert warned(few) == []  # equal by chance: rewards of equal contexts and actions differ


def test_actions_that_are_ids():
    given = {**ordinary(0), "action": RNG.integers(0, 1500, ROWS)}
    assert "labels with" in warned(given)[-1]
    plan = sparing.plan(
        sparing.Log.from_arrays(np.ones((200, 1)), np.arange(200) % 100, RNG.normal(size=200)),
        call_cost=0.1,
        horizon=20,
        worlds=20,
    )
    assert "is it an id?" in plan.warnings[0]
    assert check_action_labels(np.full(200, 2)) and not check_action_labels(np.full(200, 20))  # noqa: PT018
    assert not check_action_labels(np.full(20, 2))


def test_dropped_columns_are_accepted_live_and_misspelt_ones_refused():
    given = {**ordinary(0), "user_id": np.arange(ROWS), "age": RNG.integers(18, 90, ROWS)}
    log = sparing.read_log(given, drop=["user_id"], contexts=["age", "user_id"])
    assert log.encoder.names == ("constant", "age")
    np.testing.assert_array_equal(
        log.encoder.encode({"age": 40, "user_id": 3}), log.encoder.encode({"age": 40})
    )
    with pytest.raises(LogError, match=r"no column 'usr_id', named in drop.*user_id"):
        sparing.read_log(given, drop="usr_id")
    with pytest.raises(LogError, match="'reward' as the reward"):
        sparing.read_log(given, drop="reward")
    raw = {"x_0": [1.0, 2.0], "x_1": [3.0, 4.0], "action": [0, 1], "reward": [0.0, 1.0]}
    assert sparing.read_log(raw, drop="x_0").encoder.names == ("x_1",)


def test_the_command_names_the_option(tmp_path):
    given = {**ordinary(0), "user_id": np.arange(ROWS)}
    path = tmp_path / "log.parquet"
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: pa.array(list(cells)) for name, cells in given.items()}), path)
    words = ["learn", str(path), "--out", str(tmp_path / "policy.sparing")]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    assert "--drop user_id" in " ".join(told.stderr.split())
    told = CliRunner().invoke(app, [*words, "--drop", "user_id"])
    assert told.exit_code == 0, told.output
    assert "looks like an id" not in told.stderr
    assert "user_id: left out, dropped" in " ".join(told.stderr.split())
