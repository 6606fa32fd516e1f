"""One row by the short ways of a live decision: the bits of a table, the messages of the long way."""

import math
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pytest

from sparing import features, hashed
from sparing.errors import DecisionError
from sparing.log.features import cells
from sparing.log.tables import open_table

pytestmark = [
    pytest.mark.filterwarnings("ignore::sparing.errors.UnitWarning"),  # of numbers far from the log's
    pytest.mark.filterwarnings("ignore::sparing.errors.SpellingWarning"),
]
FIRST = datetime(2026, 3, 1, 10)
KINDS = ("n", "whole", "c", "b", "t", "h")
"""A number, a whole number, a category with rare values, a truth value, a moment, a hashed text."""


def log_of(gaps, n=400, seed=0):
    """Columns of each kind; with gaps, each of them has some."""
    rng = np.random.default_rng(seed)
    table = {
        "n": rng.normal(1e3, 7, n).tolist(),
        "whole": rng.integers(-50, 50, n).tolist(),
        "c": rng.choice(["a", "b", "ü", "rare"], n, p=[0.5, 0.3, 0.19, 0.01]).tolist(),
        "b": (rng.random(n) < 0.4).tolist(),
        "t": [str(FIRST + timedelta(minutes=97 * i)) for i in range(n)],
        "h": [f"v{i}" for i in rng.integers(0, 90, n)],
    }
    for number, name in enumerate(KINDS if gaps else ()):
        table[name][number :: 11 + number] = [None] * len(table[name][number :: 11 + number])
    return table


def fitted(gaps):
    plan = features(n="number", whole="number", c="category", b="bool", t="time", h=hashed(16))
    return plan.fit(open_table(log_of(gaps)), list(KINDS))


def moment(rng):
    """A text in one of ISO 8601's forms, from long before the log to long after it."""
    at = FIRST + timedelta(
        seconds=int(rng.integers(-(10**10), 10**10)), microseconds=int(rng.integers(10**6))
    )
    forms = [
        at.isoformat(),
        at.isoformat(" ", "minutes"),
        f" {at.isoformat()}\n",
        at.date().isoformat(),
        f"{at.isoformat(timespec='seconds')}Z",
        f"{at.isoformat()}+13:00",
        f"{at.isoformat(timespec='milliseconds')}-03:30",
        str(at.replace(tzinfo=UTC).timestamp()),
    ]
    return forms[rng.integers(len(forms))]


def any_row(rng):
    """A row of values in any form that a cell may have, each missing now and then."""
    number, whole = float(rng.normal(1e3, 9)), int(rng.integers(-(10**6), 10**6))
    forms = {
        "n": [number, number, whole, repr(number), f" {whole} ", True, 0, -0.0, 1e50],
        "whole": [whole, whole, float(whole), str(whole), False],
        "c": ["a", "b", "ü", "rare", "never seen", "a ", 7, 2.0, 2.5, True],
        "b": [True, False, True, False, "yes", " NO ", "t", "0", 1, 0, 1.0],
        "t": [moment(rng), moment(rng), whole * 1000, number],
        "h": ["v1", "never seen", "ü", 7, 2.5, False],
    }
    absent = [None, "", math.nan]
    return {
        name: absent[rng.integers(3)] if rng.random() < 0.15 else values[rng.integers(len(values))]
        for name, values in forms.items()
    }


@pytest.mark.parametrize("gaps", [False, True], ids=["without gaps", "with gaps"])
def test_a_row_has_the_bits_of_a_table_of_one_row(gaps):
    encoder = fitted(gaps)
    rng = np.random.default_rng(1)
    for _ in range(500):
        row = any_row(rng)
        table = encoder.encode_table({name: [value] for name, value in row.items()})
        assert encoder.encode(row).tobytes() == table[0].tobytes(), row


@pytest.mark.parametrize("gaps", [False, True], ids=["without gaps", "with gaps"])
def test_rows_have_the_bits_of_their_whole_table(gaps):
    encoder, table = fitted(gaps), log_of(gaps, seed=2)
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    assert encoder.named_rows(rows).tobytes() == encoder.encode_table(table).tobytes()


def test_a_moment_without_a_zone_has_the_seconds_of_the_same_in_utc():
    rng = np.random.default_rng(3)
    longest = (datetime.max - datetime.min) // timedelta(microseconds=1)
    for part in rng.random(5000):
        at = datetime.min + timedelta(microseconds=int(part * longest))
        expected = at.replace(tzinfo=UTC).timestamp()
        assert cells.as_seconds(at) == cells.as_seconds(at.isoformat()) == expected
        assert cells.as_seconds(f"{at.isoformat()}Z") == expected


def test_any_mapping_is_a_row_and_every_context_is_its_own():
    encoder = fitted(True)
    row = any_row(np.random.default_rng(4))
    one, two = encoder.encode(row), encoder.encode(row)
    assert not np.shares_memory(one, two)
    one[:] = 7.0
    for same in (row, OrderedDict(reversed(row.items())), MappingProxyType(row)):
        assert encoder.named(same).tobytes() == two.tobytes()


def test_a_category_that_the_log_never_missed_has_no_place_for_it():
    encoder = features(c="category").fit(open_table({"c": ["a"] * 50 + ["b"] * 40}), ["c"])
    assert encoder.encode({"c": None}).tolist() == encoder.encode({"c": math.nan}).tolist() == [1, 0, 0]


WRONG = {
    "n": (math.inf, "n is inf; expected a finite number"),
    "whole": (10**400, "whole is a number of more than 100 digits; expected a finite number"),
    "c": (
        ["a"],
        "c is ['a']; expected a text, a whole number or a truth value, or None (null in JSON) if it is missing",
    ),
    "b": (Decimal(1), "b is Decimal('1'); expected true or false, or None (null in JSON) if it is missing"),
    "t": ("2026-02-30", "t is '2026-02-30'; expected a date or moment such as 2026-03-01T10:00"),
    "h": (
        {},
        "h is {}; expected a text, a whole number or a truth value, or None (null in JSON) if it is missing",
    ),
}


@pytest.mark.parametrize("first", KINDS)
def test_the_first_of_several_wrong_values_is_told(first):
    """Numbers come first, then categories, then all others in the log's order: here, the order of the columns."""
    encoder = fitted(True)
    good = {"n": 1.0, "whole": 2, "c": "a", "b": True, "t": "2026-03-01", "h": "v1"}
    wrong = {name: WRONG[name][0] for name in KINDS[KINDS.index(first) :]}
    with pytest.raises(DecisionError) as raised:
        encoder.encode({**good, **wrong})
    assert str(raised.value).startswith(WRONG[first][1])


def test_a_column_that_is_not_there_or_not_known_is_told_whatever_its_kind():
    encoder = fitted(True)
    good = {"n": 1.0, "whole": 2, "c": "a", "b": True, "t": "2026-03-01", "h": "v1"}
    shown = "the columns are 'n', 'whole', 'c', 'b', 't', 'h'. Give each by its name, None (null in JSON) where it is missing"
    for name in KINDS:
        without = {each: value for each, value in good.items() if each != name}
        for row, said in (
            (without, f"no column '{name}'"),
            ({**without, "x": 1}, f"no column '{name}' and unknown column 'x'"),
            ({**good, "x": 1}, "unknown column 'x'"),
        ):
            with pytest.raises(DecisionError) as raised:
                encoder.encode(row)
            assert str(raised.value) == f"{said}; {shown}"
