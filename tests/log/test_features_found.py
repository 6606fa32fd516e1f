"""What columns of tables as people have them are taken for."""

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import LogError
from sparing.log.features import cells

N = 300


def read(features="auto", **columns):
    rng = np.random.default_rng(0)
    table = {**columns, "action": rng.choice(["a", "b"], N), "reward": rng.random(N)}
    return sparing.read_log(table, features=features)


def test_days_before_months_with_points():
    moments = pd.Timestamp("2026-11-17 08:30") + pd.to_timedelta(np.arange(N) * 37, "min")
    german, iso = (list(moments.strftime(form)) for form in ("%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M"))
    one, two = read(seen=german), read(seen=iso)
    assert one.encoder.described() == "seen: time"
    assert np.array_equal(one.contexts, two.contexts)
    live = one.encoder.encode({"seen": "3.12.2026 7:05"})
    assert np.array_equal(live, two.encoder.encode({"seen": "2026-12-03T07:05"}))


@pytest.mark.parametrize(
    ("text", "moment"), [("1.2.2026", "2026-02-01"), ("17.11.2026 08:30:05", "2026-11-17T08:30:05")]
)
def test_a_text_with_the_day_first_is_a_moment(text, moment):
    assert cells.is_time(text)
    assert cells.as_seconds(text) == cells.as_seconds(moment)


@pytest.mark.parametrize(
    "text", ["31.2.2026", "1.13.2026", "1.2.26", "17.11.2026 25:00", "11/17/2026", "1.5", "1.2.3"]
)
def test_others_are_none(text):
    assert not cells.is_time(text)


@pytest.mark.filterwarnings("ignore::sparing.errors.LogWarning")
def test_dates_that_cannot_be_told_are_left_out_with_a_word():
    log = read(seen=[f"{1 + i % 28}.{1 + i % 12}.{10 + i}" for i in range(N)], age=np.arange(N))
    assert (
        "seen: left out, a different value in nearly every row (dates are read as 2026-11-17"
        in log.encoder.described()
    )


def test_the_index_of_pandas_is_no_feature(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.random(N), "action": rng.choice(["a", "b"], N), "reward": rng.random(N)})
    frame[frame.age > 0.1].to_parquet(tmp_path / "log.parquet")
    log = sparing.read_log(tmp_path / "log.parquet")
    assert (
        log.encoder.described()
        == "age: number; __index_level_0__: left out, the row numbers that pandas wrote"
    )
    sparing.warm_started(log).decide({"age": 0.5})


@pytest.mark.parametrize("word", ["NA", "nan", "N/A", "null", "inf", "-Infinity", "?"])
def test_words_for_missing_numbers_do_not_make_categories_of_the_others(word):
    ages = [word if i % 7 == 0 else str(20 + i % 40) for i in range(N)]
    with pytest.raises(LogError, match=r"age holds '.*' among numbers; .* Empty such cells, or declare"):
        read(age=ages)
    empty = read(age=["" if age == word else age for age in ages])
    assert empty.encoder.described() == "age: number, some missing"
    codes = read(age=ages, features=sparing.features(age="category"))
    assert "age: category" in codes.encoder.described()
    assert read(age=["NA", "DE", "NZ"] * (N // 3)).encoder.described().startswith("age: category")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["$1,494.90", "€3", "-$2.50"], r"holds '\$1,494.90' and '€3', numbers in different units. Convert"),
        (["51%", "7"], "holds '51%' and '7', numbers in different units. Write all with %"),
        (
            ["1.234,50", "2,000.50"],
            "holds '2,000.50' and '1.234,50': numbers with a decimal point and with a comma",
        ),
        (
            ["76,081", "1,250", "900"],
            r"holds '76,081', which is 76081 or 76.081: pass decimal='.' or decimal=','",
        ),
        (["1e300", "2"], r"holds '1e300' among numbers; expected numbers, at most 1e\+50 in size"),
    ],
)
def test_numbers_with_signs_do_not_become_words(words, said):
    column = (words * N)[:N]
    with pytest.raises(LogError, match=f"price {said}.* declare the column a category"):
        read(price=column)
    assert "category" in read(price=column, features=sparing.features(price="category")).encoder.described()


@pytest.mark.parametrize(
    "words", [["5 kg", "7 kg"], ["a%", "5%"], ["+41 44", "x"], ["10-20", "20-30"], ["1e5e5", "2"]]
)
def test_words_with_digits_stay_words(words):
    assert "category of 2 values" in read(size=(words * N)[:N]).encoder.described()


def test_truth_values_in_several_words_are_truth_values():
    log = read(member=(["yes", "no", "0", "1", "TRUE"] * N)[:N])
    assert log.encoder.described() == "member: bool"
    assert log.encoder.encode({"member": "1"})[-1] == 1.0
    assert read(member=(["0", "1"] * N)[:N]).encoder.described() == "member: number"


def test_one_value_is_one():
    log = read(seen=(["x", None] * N)[:N])
    assert log.encoder.described() == "seen: category of 1 value, some missing"
