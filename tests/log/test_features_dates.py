"""Dates with slashes: taken in the order that the column tells, and refused where it does not."""

import json

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import DecisionError, LogError
from sparing.log.features import Encoder, cells

N = 300
MOMENTS = pd.Timestamp("2026-11-17 08:30") + pd.to_timedelta(np.arange(N) * 37, "min")


def read(seen, features="auto"):
    rng = np.random.default_rng(0)
    table = {"seen": list(seen), "action": rng.choice(["a", "b"], N), "reward": rng.random(N)}
    return sparing.read_log(table, features=features)


@pytest.mark.parametrize(
    ("form", "taken"),
    [
        ("%m/%d/%Y %H:%M", "time, month first"),
        ("%d/%m/%Y %H:%M", "time, day first"),
        ("%m-%d-%Y %H:%M:%S", "time, month first"),
        ("%m/%d/%Y %I:%M %p", "time, month first"),
        ("%Y/%m/%d %H:%M", "time"),
        ("%Y-%m-%d %H:%M:%S UTC", "time"),
        ("%d %b %Y %H:%M", "time"),
        ("%B %d, %Y %I:%M %p", "time"),
        ("%a, %d %b %Y %H:%M:%S GMT", "time"),
        ("%m/%d/%Y %H:%M GMT", "time, month first"),
    ],
)
def test_a_column_that_tells_its_order_is_a_time(form, taken):
    log = read(MOMENTS.strftime(form))
    assert log.encoder.described() == f"seen: {taken}"
    assert np.array_equal(log.contexts, read(MOMENTS).contexts)
    saved = Encoder.from_header(json.loads(json.dumps(log.encoder.header())))
    for moment in MOMENTS[::50]:
        live = saved.encode({"seen": moment.strftime(form)})
        assert np.array_equal(live, log.encoder.encode({"seen": moment}))


def test_the_order_is_that_of_the_log_in_live_rows():
    encoder = read(MOMENTS.strftime("%m/%d/%Y")).encoder
    assert np.array_equal(encoder.encode({"seen": "3/4/2026"}), encoder.encode({"seen": "2026-03-04"}))
    with pytest.raises(
        DecisionError, match="seen is '17/11/2026'; expected a date or moment with the month first"
    ):
        encoder.encode({"seen": "17/11/2026"})
    with pytest.raises(DecisionError, match="seen is '3/4/26'"):
        encoder.encode({"seen": "3/4/26"})
    with pytest.raises(LogError, match=r"seen at row 0 is '17/11/2026 08:30'; expected .* the month first"):
        read(MOMENTS.strftime("%d/%m/%Y %H:%M"), encoder)


AMBIGUOUS = [f"{1 + i % 12}/{1 + i % 7}/2026" for i in range(N)]


def test_an_order_that_no_row_tells_is_asked_for():
    with pytest.raises(
        LogError, match="seen holds '1/1/2026', and no row shows whether the day or the month is first"
    ):
        read(AMBIGUOUS)
    days, months = (
        read(AMBIGUOUS, sparing.features(seen=f"time-{first}-first")) for first in ("day", "month")
    )
    row = {"seen": "3/4/2026"}
    assert np.array_equal(days.encoder.encode(row), days.encoder.encode({"seen": "2026-04-03"}))
    assert np.array_equal(months.encoder.encode(row), months.encoder.encode({"seen": "2026-03-04"}))
    with pytest.raises(LogError, match="kinds time-day-first and time-month-first define the order"):
        read(AMBIGUOUS, sparing.features(seen="time"))
    assert "category" in read(AMBIGUOUS, sparing.features(seen="category")).encoder.described()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["17/3/2026", "3/17/2026"], "holds '3/17/2026' and '17/3/2026': the day is not first in all rows"),
        (["99/99/9999", "3/17/2026"], "holds '99/99/9999': the day is not first in all rows, nor is"),
        (["3/17/26", "4/18/26"], "holds '3/17/26': dates with two digits for the year"),
        (["NA", "2026-03-01", "2026-03-02"], "holds 'NA' among dates; expected dates, and an empty"),
        (["NA", "3/17/2026", "4/18/2026"], "holds 'NA' among dates"),
    ],
)
def test_dates_that_would_be_words_are_refused(words, told):
    column = (words * N)[:N]
    with pytest.raises(LogError, match=f"seen {told}"):
        read(column)
    assert "category" in read(column, sparing.features(seen="category")).encoder.described()


@pytest.mark.parametrize(
    "words", [["1/2/2026"], ["a/b", "1/2/2026"], ["10.0.0.1", "10.0.0.2"], ["1/2", "2/2"]]
)
def test_others_stay_what_they_were(words):
    said = read((words * N)[:N]).encoder.described()
    assert ("category" if len(words) > 1 else "the same in every row") in said


@pytest.mark.parametrize(
    "text", ["13/13/2026", "1/2/2026 13:00 PM", "0/1/2026", "1/2-2026", "31/02/2026", "1/2/26"]
)
def test_no_dates_in_any_order(text):
    assert not cells.is_date(text, cells.DAY)
    assert not cells.is_date(text, cells.MONTH)


@pytest.mark.parametrize(
    "text", ["2026-03-01 UTC", "2026-03-01 08:00+02:00 UTC", "2026-03-01 08:00 CET", "UTC"]
)
def test_only_a_time_of_the_day_is_in_utc(text):
    assert not cells.is_time(text)


@pytest.mark.parametrize(
    "text", ["17 Foo 2026", "31 Feb 2026", "Mar 2026", "17 Mar-2026", "Market 17 2026", "2026W12"]
)
def test_words_that_are_no_month_make_no_date(text):
    assert not cells.is_time(text)


def test_noon_and_midnight():
    assert cells.parse_time("1/2/2026 12:05 am", cells.DAY).hour == 0
    assert cells.parse_time("1/2/2026 12:05PM", cells.DAY).hour == 12


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
def test_a_later_batch_tells_the_order(tmp_path):
    seen = [*AMBIGUOUS, *MOMENTS.strftime("%m/%d/%Y")]
    frame = pd.DataFrame({"seen": seen, "action": ["a", "b"] * N, "reward": np.arange(2 * N) / N})
    frame.to_parquet(tmp_path / "log.parquet", row_group_size=N)
    log = sparing.read_log(tmp_path / "log.parquet")
    iso = frame.assign(seen=pd.to_datetime(frame.seen, format="%m/%d/%Y"))
    assert log.encoder.described() == "seen: time, month first"
    assert np.array_equal(log.contexts, sparing.read_log(iso).contexts)


@pytest.mark.parametrize("moment", [1_772_352_000_000, "1772352000000", 1e18, -1e12])
def test_milliseconds_are_not_taken_for_seconds(moment):
    encoder = read(MOMENTS).encoder
    encoder.encode({"seen": 1_772_352_000})
    with pytest.raises(
        DecisionError, match=r"seen is .*; expected .* seconds \(not milliseconds\) since 1970"
    ):
        encoder.encode({"seen": moment})
    with pytest.raises(LogError, match=r"seen at row 0 is .* seconds \(not milliseconds\) since 1970"):
        read([moment] * N, sparing.features(seen="time"))
