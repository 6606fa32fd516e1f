"""Exported policies in JavaScript: the features and scores of Python, bit for bit where both only add and multiply."""

import base64
import datetime
import json
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

import sparing
from policies.exported_logs import columns, live_table, log_of, wide_columns
from sparing.errors import DecisionError, SpellingWarning, UnitWarning
from sparing.log.features import cells
from sparing.policies.policy import SoftmaxPolicy

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
CLIENT = ROOT / "clients" / "js" / "index.js"
SPECS = {
    "number": "number",
    "category": "category",
    "bool": "bool",
    "time": "time",
    "time-day-first": "time-day-first",
    "time-month-first": "time-month-first",
    "hashed": sparing.hashed(64),
    "raw": "raw",
    "euros": "number",
    "percent": "number",
}
"""What columns are declared as; the last two are numbers in a notation."""


def find_node():
    found = shutil.which("node")
    if found is None:
        pytest.fail("no Node to test with: install it (make node)")
    return found


def node(script, *arguments):
    done = subprocess.run(
        [find_node(), str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text, columns):
    return np.frombuffer(base64.b64decode(text)).reshape(-1, columns)


def scored(policy, rows, folder):
    """What JavaScript makes of rows, and the scorer of Python."""
    policy.export("json", folder / "policy.json")
    (folder / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    node(HERE / "score.mjs", CLIENT, folder)
    return json.loads((folder / "scored.json").read_text(encoding="utf-8")), sparing.load_scorer(
        folder / "policy.json"
    )


def as_json(table):
    """Rows of a table as JSON has them; moments as text in ISO 8601."""
    return json.loads(json.dumps(table.to_pylist(), default=lambda moment: moment.isoformat()))


def contexts_of(scorer, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnitWarning)
        warnings.simplefilter("ignore", SpellingWarning)
        return scorer.rows(rows)


def test_ten_thousand_rows_are_equal_in_every_bit(tmp_path):
    """Numbers, categories, truth values, times, costs: features, scores and actions."""
    log = log_of(
        columns,
        features=sparing.features("auto", country="category"),
        costs={"red": 0.0, "it's \\ blue": 0.02, "gold": 0.05},
    )
    rows = as_json(live_table(columns))
    policy = sparing.learn(log, "posterior")
    theirs, scorer = scored(policy, rows, tmp_path)
    x = contexts_of(scorer, rows)
    np.testing.assert_array_equal(numbers(theirs["contexts"], x.shape[1]), x)
    np.testing.assert_array_equal(numbers(theirs["scores"], 3), scorer.scores(x))
    assert theirs["actions"] == policy.actions(x).tolist()
    assert min(np.unique(theirs["actions"], return_counts=True)[1]) > 500


def test_ten_thousand_rows_with_texts_vectors_and_a_kernel(tmp_path):
    """Sums of products in another order than NumPy's, and another logarithm and exponential: equal to rounding; the rest in every bit."""
    spec = sparing.features("auto", city=sparing.hashed(16), embedding=sparing.vector(6, keep=3), kernel=20)
    policy = sparing.learn(log_of(wide_columns, features=spec), "greedy", ridge=1.0)
    rows = as_json(live_table(wide_columns))
    theirs, scorer = scored(policy, rows, tmp_path)
    x = contexts_of(scorer, rows)
    found = numbers(theirs["contexts"], x.shape[1])
    names = np.array(scorer.encoder.names)
    rounded = np.array(
        [name.startswith(("kernel_", "embedding[")) or name == "prompt length" for name in names]
    )
    assert 0 < rounded.sum() < len(names) / 2
    np.testing.assert_array_equal(found[:, ~rounded], x[:, ~rounded])
    np.testing.assert_allclose(found[:, rounded], x[:, rounded], rtol=0, atol=1e-12)
    np.testing.assert_allclose(numbers(theirs["scores"], 3), scorer.scores(x), rtol=0, atol=1e-12)
    assert theirs["actions"] == policy.actions(x).tolist()


def test_probabilities_of_a_softmax_policy(tmp_path):
    rng = np.random.default_rng(0)
    policy = SoftmaxPolicy(("a", 3, True, "d"), rng.normal(size=(4, 3)), 0.7)
    x = rng.normal(size=(1000, 3))
    theirs, _ = scored(policy, x.tolist(), tmp_path)
    shares = policy.probabilities(x)
    np.testing.assert_allclose(numbers(theirs["probabilities"], 4), shares, rtol=1e-13)
    drawn = (shares.cumsum(axis=1) <= 0.5).sum(axis=1)
    assert theirs["actions"] == [policy.action_names[action] for action in drawn]


PIECES = {
    "number": [
        "0",
        "1",
        "12",
        "-3",
        "+4",
        "1.",
        ".5",
        "1e5",
        "1E-3",
        "1_0",
        "0x10",
        "inf",
        "nan",
        "NaN",
        "1,5",
        "1.5",
        "1e60",
        "1e50",
        "１",
        "5%",
        "€",
        "-",
        ".",
        "e5",
        "1e",
    ],
    "category": ["a", "b", "A", "aa", "5", "5.0", "true", "True", "1e16", "ß", "nan"],
    "bool": [*cells.TRUTH_WORDS, "TRUE", "Ja", "SÍ", "2", "1.0", "0", "1", "maybe", "1e0"],
    "time": [
        "2026-03-01",
        "20260301",
        "2026-13-01",
        "2026-02-29",
        "2024-02-29",
        "0001-01-01",
        "9999-12-31",
        "10:30",
        "1030",
        "103059",
        "10:30:59.1234567",
        "24:00",
        "17.11.2026",
        "2026/11/17",
        "17/11/2026",
        "11/17/2026",
        "1-2-2026",
        "17-Nov-2026",
        "17",
        "Nov",
        "2026",
        "November",
        "17,",
        "2026",
        "Tue",
        "Nov",
        "Sept",
        "8:30",
        "PM",
        "12:00",
        "AM",
        "13:00",
        "PM",
        "UTC",
        "GMT",
        "Z",
        "+02:00",
        "-0530",
        "+05",
        "+25:00",
        "T",
        "1767225600",
        "1767225600000",
        "-62135596801",
        "20261301",
        "1e9",
        ".5",
    ],
}
PIECES |= {
    "time-day-first": PIECES["time"],
    "time-month-first": PIECES["time"],
    "hashed": PIECES["category"],
    "raw": PIECES["number"],
}
PIECES["euros"] = [
    "1.133,15",
    "€",
    "EUR",
    "eur",
    "12,5",
    "1'000",
    "-3",
    "−4",
    "+5",
    "12.5",
    "1,5e3",
    "€",
    "7",
    "0,5",
    "1.000.000",
    "1.00",
    ",",
    ".5",
    "12",
    "%",
    "1",
    "000",
    "Fr.",
    "zł",
    "ZŁ",
    "kr",
]
PIECES["percent"] = [*PIECES["euros"], "%", "12 %", "12,5%", "0", "0 %", "-3,25 %"]
ANY = [
    None,
    True,
    False,
    0,
    1,
    -1,
    5,
    5.5,
    1e-7,
    1.5e-5,
    123456.789,
    1e16,
    1e22,
    2**53,
    -0.0,
    20260131,
    1767225600.25,
    "",
    " ",
    [],
    [1],
    {},
]
"""Cells of every type."""

DATES = [
    {"milliseconds": milliseconds}
    for milliseconds in (
        0,
        1767225600123,
        -1,
        -62135596800000,
        -62135596800001,
        253402300799999,
        253402300800000,
    )
]
"""JavaScript's own dates, also of years that Python does not have."""


def some_cells(kind):
    rng = np.random.default_rng(len(kind))
    joined = [
        "".join(rng.choice([" ", "T", "", ""], 1)[0].join(rng.choice(PIECES[kind], rng.integers(1, 4))))
        for _ in range(3000)
    ]
    padded = [f"\x1f\u00a0{word}\u2003\x85" for word in PIECES[kind]]
    dates = DATES if kind.startswith("time") else []
    return [*ANY, *PIECES[kind], *padded, "\ufeff1", *joined, *dates]


def test_odd_cells_are_read_alike_or_refused(tmp_path):
    """What Python refuses is refused; what both read gives the same bits. Only some notations of moments may be refused here alone."""
    log = {"cell": [], "action": ["a", "b", "b", "a"] * 30, "reward": np.random.default_rng(0).random(120)}
    shown = {
        "category": ["a", "5", "true", ""],
        "bool": [True, False, None, False],
        "hashed": ["a", "b", "", "d"],
        "number": [1.5, 2, None, 4e3],
    }
    shown |= {
        "raw": [1.5, 2.0, 3.0, 4.0],
        "euros": ["1.133,15 €", "2,5 €", "7 €", "0,25 €"],
        "percent": ["12,5 %", "3 %", "0 %", "7,25 %"],
    }
    times = ["2026-03-01", "2026-04-01 10:00", None, "2026-03-09"]
    policies, encoders, given = {}, {}, {}
    for kind, spec in SPECS.items():
        table = {**log, "cell": shown.get(kind, times) * 30}
        read = sparing.read_log(table, features=sparing.features({"cell": spec}))
        policy = sparing.learn(read, "greedy", ridge=1.0)
        policies[kind], encoders[kind], given[kind] = (
            json.loads(policy.export("json")),
            policy.encoder,
            some_cells(kind),
        )
    (tmp_path / "policies.json").write_text(json.dumps(policies), encoding="utf-8")
    (tmp_path / "cells.json").write_text(json.dumps(given), encoding="utf-8")
    node(HERE / "cells.mjs", CLIENT, tmp_path)
    theirs = json.loads((tmp_path / "read.json").read_text(encoding="utf-8"))
    for kind, encoder in encoders.items():
        differs, refused, both = [], [], 0
        for cell, found in zip(given[kind], theirs[kind], strict=True):
            own = encoded(encoder, cell)
            if found is not None and (own is None or base64.b64decode(found) != own.tobytes()):
                differs.append((cell, own, found and np.frombuffer(base64.b64decode(found))))
            elif found is None and own is not None:
                refused.append(cell)
            else:
                both += found is not None
        assert not differs, (kind, differs[:5])
        assert both > 15
        assert not refused or kind.startswith("time"), (kind, refused[:5])
        assert len(refused) < 0.1 * len(given[kind]), (kind, refused[:50])


def encoded(encoder, cell):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if cell in DATES:
                cell = datetime.datetime(1970, 1, 1) + datetime.timedelta(**cell)
            return encoder.encode({"cell": cell})
        except (DecisionError, OverflowError):  # the latter: no moment of Python
            return None
