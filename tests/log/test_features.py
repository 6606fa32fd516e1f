"""Raw columns become contexts: what each kind does, that a row and a column agree, and what is kept on disk."""

import json
import zlib
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from each import for_each
from sparing import features, hashed, nystroem, read_log, vector, write_log
from sparing.errors import DecisionError, FileError, LogError, SettingError
from sparing.log import passes
from sparing.log.features import Encoder
from sparing.log.features.files import read_features, write_features
from sparing.log.tables import open_table
from sparing.model.statistics import Statistics

LINEAR = ("age", "country", "member", "seen_at", "zip")


def raw_table(n=300, seed=0):
    """Columns of every kind, with gaps."""
    rng = np.random.default_rng(seed)
    start = datetime(2026, 3, 1, 10, tzinfo=UTC)
    return {
        "age": [None if i % 17 == 0 else float(age) for i, age in enumerate(rng.normal(40, 12, n))],
        "country": [
            None if i % 23 == 0 else str(word) for i, word in enumerate(rng.choice(["NZ", "CH", "DE"], n))
        ],
        "member": [None if i % 29 == 0 else bool(yes) for i, yes in enumerate(rng.random(n) < 0.4)],
        "seen_at": [None if i % 31 == 0 else start + timedelta(minutes=97 * i) for i in range(n)],
        "zip": [str(code) for code in rng.integers(0, 40, n)],
        "query": [None if i % 37 == 0 else row.tolist() for i, row in enumerate(rng.normal(size=(n, 5)))],
        "banner": rng.choice(["a", "b", "c"], n).tolist(),
        "clicked": (rng.random(n) < 0.3).astype(float).tolist(),
    }


def fitted(table, **more):
    kinds = {"age": "number", "country": "category", "member": "bool", "seen_at": "time", "zip": hashed(16)}
    plan = features(**kinds, query=vector(5, keep=3), **more)
    return plan.fit(open_table(table), [*LINEAR, "query"])


def row_of(table, i, names):
    return {name: table[name][i] for name in names}


def test_a_row_and_a_column_are_encoded_alike():
    table = raw_table()
    encoder = fitted(table, kernel=nystroem(20))
    contexts = encoder.encode_table({name: table[name] for name in encoder.by_column})
    own = encoder.linear.stop - 3 - 1  # the vector's components go through BLAS, which rounds otherwise
    for i in range(len(contexts)):
        one = encoder.encode(row_of(table, i, encoder.by_column))
        np.testing.assert_array_equal(one[:own], contexts[i, :own])
        np.testing.assert_allclose(one, contexts[i], atol=1e-12)
    assert (
        encoder.size
        == contexts.shape[1]
        == len(encoder.names)
        == len(set(encoder.names))
        == len(encoder.blocks)
    )


def test_numbers_are_standardised_over_the_rows_that_have_them():
    table = raw_table()
    encoder = fitted(table)
    x = encoder.encode_table({name: table[name] for name in encoder.by_column})
    values = x[:, encoder.names.index("age")]
    there = x[:, encoder.names.index("age is missing")] == 0
    assert there.tolist() == [age is not None for age in table["age"]]
    np.testing.assert_allclose([values[there].mean(), values[there].var()], [0, 1], atol=1e-12)
    assert not values[~there].any()
    assert (x[:, 0] == 1).all()
    assert encoder.names[0] == "constant"


def test_a_category_has_one_place_a_row():
    table = raw_table()
    encoder = fitted(table)
    x = encoder.encode_table({name: table[name] for name in encoder.by_column})
    places = [i for i, name in enumerate(encoder.names) if name.startswith("country")]
    assert [encoder.names[i] for i in places] == [
        "country=CH",
        "country=DE",
        "country=NZ",
        "country is missing",
    ]
    np.testing.assert_array_equal(x[:, places].sum(axis=1), 1)


def category(values, **more):
    return features(c="category", **more).fit(open_table({"c": values}), ["c"])


def test_rare_values_share_a_place_and_unknown_ones_have_none():
    encoder = category(["a"] * 500 + ["b"] * 400 + ["x", "y"])
    assert encoder.names == ("constant", "c=a", "c=b", "c is other")
    for value, other in (("x", 1), ("y", 1), ("never seen", 0), (7, 0)):
        assert encoder.encode({"c": value}).tolist() == [1, 0, 0, other]
        assert encoder.encode_table({"c": [value]}).tolist() == [[1, 0, 0, other]]
        assert encoder.unseen({"c": value}) == (() if other else ("c",))
    older = encoder.without_limits()  # as encoders were before they kept the rare values
    assert older.encode({"c": "never seen"}).tolist() == [1, 0, 0, 1]
    assert older.unseen({"c": "never seen"}) == ()
    assert (older.header()["columns"][0].keys(), older.digest) == (
        {"kind", "column", "gap", "values", "rare"},
        encoder.digest,
    )
    without = category(["a"] * 50 + ["b"] * 40)
    assert without.encode({"c": "never seen"}).tolist() == [1, 0, 0]  # nowhere: no value is rare
    assert without.encode({"c": None}).tolist() == [1, 0, 0]


def test_whole_numbers_and_truth_values_are_categories_by_their_text():
    encoder = category([1, 2, 2, 1] * 10)
    assert encoder.encode({"c": 2}).tolist() == encoder.encode({"c": "2"}).tolist() == [1, 0, 1]
    assert encoder.encode({"c": 2.0}).tolist() == encoder.encode({"c": np.int64(2)}).tolist() == [1, 0, 1]
    assert category([True, False] * 9).encode({"c": True}).tolist() == [1, 0, 1]


MOMENT = datetime(2026, 3, 4, 21, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "form",
    [
        MOMENT,
        MOMENT.replace(tzinfo=None),
        MOMENT.astimezone(timezone(timedelta(hours=13))),
        "2026-03-04T21:30",
        "2026-03-04 21:30:00+00:00",
        "2026-03-05T10:30+13:00",
        "2026-03-04T21:30Z",
        np.datetime64("2026-03-04T21:30:00"),
        pd.Timestamp("2026-03-04T21:30"),
        MOMENT.timestamp(),
    ],
)
def test_one_moment_in_any_form_is_one_context(form):
    encoder = features(t="time").fit(open_table({"t": [MOMENT - timedelta(days=30), MOMENT]}), ["t"])
    np.testing.assert_array_equal(encoder.encode({"t": form}), encoder.encode({"t": MOMENT}))
    column = pa.array([form.isoformat() if isinstance(form, datetime) else form])
    np.testing.assert_array_equal(encoder.encode_table({"t": column})[0], encoder.encode({"t": MOMENT}))


def test_circles_of_time():
    first = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday
    encoder = features(t="time").fit(open_table({"t": [first, first + timedelta(days=100)]}), ["t"])
    at = lambda **later: encoder.encode({"t": first + timedelta(**later)})  # noqa: E731
    np.testing.assert_array_equal(at(days=1)[1:3], at(days=20)[1:3])
    np.testing.assert_array_equal(at(days=1)[3:5], at(days=8)[3:5])
    np.testing.assert_allclose(at(hours=6)[1:3], [1, 0], atol=1e-15)
    np.testing.assert_allclose(at()[3:5], [0, 1], atol=1e-15)
    assert at(days=1)[5] > at()[5]
    np.testing.assert_array_equal(at(days=100)[5], at(days=5000)[5])  # the log knows nothing of later times
    assert encoder.encode({"t": date(2026, 3, 2)}).tolist() == at().tolist()


def test_a_hash_is_the_checksum_of_the_text():
    encoder = features(c=hashed(8)).fit(open_table({"c": ["a", "b"] * 5}), ["c"])
    for word in ("a", "b", "anything"):
        assert encoder.encode({"c": word})[1:].argmax() == zlib.crc32(word.encode()) % 8


def test_a_vector_keeps_its_principal_components():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6)) + 5
    encoder = features(v=vector(6, keep=2)).fit(open_table({"v": rows}), ["v"])
    scores = encoder.encode_table({"v": rows})[:, 1:]
    u, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    expected = u[:, :2] * s[:2] / (s[0] / np.sqrt(400))
    np.testing.assert_allclose(np.abs(scores), np.abs(expected), atol=1e-8)


def test_nystroem_features_multiply_to_the_kernel():
    x = np.random.default_rng(2).normal(size=(40, 3))
    table = {f"x{i}": x[:, i] for i in range(3)}
    encoder = features("auto", kernel=nystroem(40)).fit(open_table(table), list(table))
    contexts = encoder.encode_table(table)
    linear, phi = contexts[:, encoder.linear], contexts[:, encoder.linear.stop :]
    squares = ((linear[:, None] - linear) ** 2).sum(axis=2)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-squares / (2 * encoder.kernel.width**2)), atol=1e-4)
    assert encoder.kernel.width == pytest.approx(0.7 * np.sqrt(np.median(squares[np.triu_indices(40, 1)])))
    assert set(encoder.blocks[encoder.linear.stop :]) == {"kernel"}


AUTO = {
    "numbers": ([1.5, 2.5, 4.0], "number"),
    "texts of numbers": (["1.5", "2.5", " 4 "], "number"),
    "words": (["a", "b", "a"], "category"),
    "truths": ([True, False, True], "bool"),
    "texts of truths": (["true", "False", "TRUE"], "bool"),
    "dates": ([date(2026, 1, 1), date(2026, 1, 2), date(2026, 2, 1)], "time"),
    "texts of dates": (["2026-01-01", "2026-01-02", "2026-02-01"], "time"),
    "other dates": (["01/02/2026", "13/02/2026", "01/02/2026"], "time-day-first"),
    "digits": (["20260101", "20260102", "20260105"], "time"),
    "lists": ([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]], "vector"),
}


@pytest.mark.parametrize(("values", "kind"), AUTO.values(), ids=AUTO)
def test_auto_tells_a_column_by_its_cells(values, kind):
    encoder = features("auto").fit(open_table({"c": pa.array(values * 5)}), ["c"])
    assert [column.kind for column in encoder.columns] == [kind]


def test_auto_leaves_out_what_carries_nothing_and_says_so():
    table = {
        "same": ["x"] * 100,
        "empty": pa.nulls(100),
        "id": [f"row {i}" for i in range(100)],
        "struct": [{"a": 1}] * 100,
        "n": list(range(100)),
    }
    encoder = features("auto").fit(open_table(table), list(table))
    assert [column.column for column in encoder.columns] == ["n"]
    assert dict(encoder.left_out) == {
        "same": "left out, the same in every row",
        "empty": "left out, empty",
        "id": "left out, a different value in nearly every row",
        "struct": "left out, a column of struct<a: int64>",
    }
    said = encoder.described()
    assert all(name in said for name in table)
    # A row may hold them all the same.
    np.testing.assert_array_equal(encoder.encode({name: 5 for name in table}), encoder.encode({"n": 5}))


def test_a_million_categories_are_hashed():
    rng = np.random.default_rng(3)
    values = [f"v{i}" for i in rng.integers(0, 1_000_000, 300_000)] * 2
    encoder = features("auto").fit(open_table({"c": values}), ["c"])
    assert encoder.described() == "c: hashed to 64 places"
    assert encoder.size == 65


def test_polars_categories_stay_categories():
    texts = pl.DataFrame(
        {"c": ["x", "y", None] * 20, "action": ["a", "b"] * 30, "reward": [0.0, 1.0, 0.5] * 20}
    )
    for kind in (pl.Categorical, pl.Enum(["y", "z", "x"])):
        frame = texts.with_columns(pl.col("c").cast(kind), pl.col("action").cast(pl.Categorical))
        log = read_log(frame)
        np.testing.assert_array_equal(log.contexts, read_log(texts).contexts)
        np.testing.assert_array_equal(log.encoder.encode_table(frame.select("c")), log.contexts)


def test_values_that_differ_only_in_case_or_spaces_are_told():
    encoder = features(c="category").fit(open_table({"c": ["NZ", "NZ ", "nz", "CH"] * 10}), ["c"])
    assert encoder.described() == "c: category of 4 values, 'NZ' and 'NZ ' differ only in case or spaces"


def test_pandas_categories_stay_categories():
    frame = pd.DataFrame({"c": pd.Categorical(["1", "2", "1"] * 5)})
    assert features("auto").fit(open_table(frame), ["c"]).described() == "c: category of 2 values"


@pytest.mark.parametrize("rows_at_a_time", [1, 7, 1000])
def test_how_a_table_is_cut_does_not_matter(monkeypatch, rows_at_a_time):
    table = raw_table()
    whole = fitted(table, kernel=nystroem(8))
    monkeypatch.setattr(passes, "BATCH_ROWS", rows_at_a_time)
    cut = fitted(table, kernel=nystroem(8))
    columns = {name: table[name] for name in whole.by_column}
    assert cut.names == whole.names
    np.testing.assert_allclose(cut.encode_table(columns), whole.encode_table(columns), atol=1e-9)


# On disk


def test_json_gives_the_same_encoder_back(tmp_path):
    table = raw_table()
    encoder = fitted(table, kernel=nystroem(8))
    columns = {name: table[name] for name in encoder.by_column}
    write_features(encoder, tmp_path / "f.json")
    again = read_features(tmp_path / "f.json")
    assert again.digest == encoder.digest
    assert again.digest != fitted(raw_table(seed=1), kernel=nystroem(8)).digest
    np.testing.assert_array_equal(again.encode_table(columns), encoder.encode_table(columns))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_written_log_carries_its_encoder(tmp_path, ending):
    log = read_log(raw_table(), action="banner", reward="clicked")
    path = tmp_path / f"log.{ending}"
    write_log(log, path)
    again = read_log(path)
    assert again.encoder.digest == log.encoder.digest
    assert again.feature_names == log.feature_names
    np.testing.assert_array_equal(again.contexts, log.contexts)
    with pytest.raises(SettingError, match="was written with its features encoded"):
        read_log(path, features="auto")


def spoil(header, path, value):
    *most, last = path
    place = header
    for key in most:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return header


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["version"], 99),
        (["columns"], 5),
        (["columns", 0, "kind"], "magic"),
        (["columns", 0, "mean"], float("nan")),
        (["columns", 0, "scale"], 0.0),
        (["columns", 0, "mean"], None),
        (["columns", 0, "column"], "country"),
        (["kernel", "landmarks"], [[1.0]]),
        (["kernel", "width"], -1.0),
        (["left_out"], [1]),
    ],
)
def test_damaged_features_are_refused(path, value):
    header = json.loads(json.dumps(fitted(raw_table(), kernel=nystroem(4)).header()))
    with pytest.raises(FileError, match=r"damaged features|of version 99"):
        Encoder.from_header(spoil(header, path, value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not whole JSON"),
        ("[1]", "has no features"),
        ('{"age": "nombre"}', "age='nombre'; must be one of auto, number"),
        ("{}", "names no column"),
        ('{"age": "number", "age": "category"}', r"f\.json: 'age' stands twice in one object; name each"),
    ],
)
def test_files_that_are_no_features(tmp_path, text, message):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises((FileError, SettingError), match=message):
        read_features(tmp_path / "f.json")
    with pytest.raises(FileError, match="cannot be read"):
        read_features(tmp_path / "none.json")


def test_a_file_of_ones_own(tmp_path):
    saying = {
        "columns": {"age": "number", "q": {"kind": "vector", "size": 3, "keep": 2}},
        "kernel": 64,
        "others": "auto",
    }
    (tmp_path / "f.json").write_text(json.dumps(saying))
    found = read_features(tmp_path / "f.json")
    expected = features("auto", age="number", q=vector(3, keep=2), kernel=64)
    assert found == expected
    (tmp_path / "g.json").write_text('{"age": "number"}')
    assert read_features(tmp_path / "g.json") == features(age="number")


# By name


def test_columns_in_another_order_are_realigned(tmp_path):
    table = raw_table()
    log = read_log(table, action="banner", reward="clicked")
    turned = dict(reversed(table.items()))
    again = read_log(turned, action="banner", reward="clicked", features=log.encoder)
    np.testing.assert_array_equal(again.contexts, log.contexts)


def test_columns_of_other_names_are_refused():
    table = raw_table()
    log = read_log(table, action="banner", reward="clicked")
    renamed = {("years" if name == "age" else name): values for name, values in table.items()}
    with pytest.raises(LogError, match="no context column"):
        read_log(renamed, action="banner", reward="clicked", features=log.encoder)
    row = row_of(renamed, 5, [name for name in renamed if name not in ("banner", "clicked")])
    with pytest.raises(
        DecisionError, match="no column 'age' and unknown column 'years'; the columns are 'age', "
    ):
        log.encoder.encode(row)
    with pytest.raises(DecisionError, match="no column 'age' and unknown column 'years'"):
        log.encoder.encode_table({name: [value] for name, value in row.items()})


def test_raw_features_are_matched_by_name():
    there = read_log({"x_age": [1.0, 2.0], "x_size": [3.0, 5.0], "action": ["a", "b"], "reward": [0.0, 1.0]})
    turned = read_log({"x_size": [3.0, 5.0], "x_age": [1.0, 2.0], "action": ["a", "b"], "reward": [0.0, 1.0]})
    np.testing.assert_array_equal(there.encoder.aligned(turned.encoder, turned.contexts), there.contexts)
    other = read_log(
        {"x_size": [3.0, 5.0], "x_years": [1.0, 2.0], "action": ["a", "b"], "reward": [0.0, 1.0]}
    )
    with pytest.raises(LogError, match="no column 'age' and unknown column 'years'"):
        there.encoder.aligned(other.encoder, other.contexts)
    table = {"age": [1.0, 2.0], "size": [3.0, 5.0], "action": ["a", "b"], "reward": [0.0, 1.0]}
    with pytest.raises(LogError, match="have other features"):
        there.encoder.aligned(read_log(table).encoder, np.ones((1, 3)))


def test_sums_of_other_features_refuse_to_add():
    first, second = (read_log(raw_table(seed=i), action="banner", reward="clicked") for i in (0, 1))
    same = read_log(raw_table(seed=1), action="banner", reward="clicked", features=first.encoder)
    with pytest.raises(LogError, match="cannot add statistics of different features"):
        Statistics.of(first) + Statistics.of(second)
    total = Statistics.of(first) + Statistics.of(same)
    assert (total.n_rows, total.encoder) == (600, first.encoder.digest)


# Rows and frames


def test_frames_rows_and_mappings_are_one():
    table = raw_table(40)
    encoder = fitted(table)
    rows = {name: table[name] for name in encoder.by_column}
    frame = pd.DataFrame(rows)
    shuffled = frame.sample(frac=1, random_state=0)  # an index in another order, which is not looked at
    polar = pl.DataFrame(rows)
    expected = encoder.encode_table(rows)
    np.testing.assert_array_equal(encoder.named_rows(frame), expected)
    np.testing.assert_array_equal(encoder.named_rows(polar), expected)
    np.testing.assert_array_equal(encoder.named_rows(shuffled), expected[shuffled.index])
    np.testing.assert_allclose(encoder.named_rows(polar.to_dicts()), expected, atol=1e-12)
    for i in (0, 3, 17):
        np.testing.assert_allclose(encoder.named(frame.iloc[i]), expected[i], atol=1e-12)
        np.testing.assert_allclose(encoder.named(frame.iloc[[i]]), expected[i], atol=1e-12)
        np.testing.assert_allclose(encoder.named(polar[i]), expected[i], atol=1e-12)
        np.testing.assert_allclose(encoder.named(polar.row(i, named=True)), expected[i], atol=1e-12)
    assert encoder.named([1.0, 2.0]) is None
    with pytest.raises(DecisionError, match="a frame of 2 rows; expected one"):
        encoder.named(frame.iloc[:2])


@for_each("nothing", [pd.NA, pd.NaT, float("nan"), np.datetime64("NaT"), ""])
@for_each("column", ["age", "country", "member", "seen_at"])
def test_whatever_stands_for_a_missing_value_is_none(column, nothing):
    table = raw_table(40)
    encoder = fitted(table)
    row = row_of(table, 1, encoder.by_column)
    assert np.array_equal(encoder.encode({**row, column: nothing}), encoder.encode({**row, column: None}))


@for_each(
    ("column", "value", "message"),
    [
        ("age", "forty", "age is 'forty'; expected a finite number"),
        ("age", float("inf"), "age is inf; expected a finite number"),
        ("age", [1.0], "age is .* expected a finite number"),
        ("age", np.array([1.0, 2.0]), "age is array.* expected a finite number"),
        ("country", np.array(["NZ", "CH"]), "country is array.* expected a text"),
        ("seen_at", np.array([1, 2]), "seen_at is array.* expected a date or moment"),
        ("country", [1], "country is .* expected a text"),
        ("country", {"a": 1}, "country is .* expected a text"),
        ("member", "perhaps", "member is 'perhaps'; expected true or false"),
        ("member", 2, "member is 2; expected true or false"),
        (
            "seen_at",
            "yesterday",
            "seen_at is 'yesterday'; expected a date or moment such as 2026-03-01T10:00",
        ),
        ("query", [1.0, 2.0], "query is .*; expected a list of 5 finite numbers"),
        ("query", "words", "query is 'words'; expected a list of 5 finite numbers"),
        ("query", [1.0, 2.0, float("nan"), 0.0, 0.0], "query is .*; expected a list of 5 finite numbers"),
    ],
)
def test_a_value_of_another_type_is_refused(column, value, message):
    table = raw_table(40)
    encoder = fitted(table)
    row = row_of(table, 1, encoder.by_column)
    with pytest.raises(DecisionError, match=message):
        encoder.encode({**row, column: value})


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("age", ["1", "2", "x"], "age at row 2 is 'x'; expected a finite number"),
        ("age", [1.0, float("inf"), 2.0], "age at row 1 is inf; expected a finite number"),
        ("member", ["yes", "no", "perhaps"], "member at row 2 is 'perhaps'; expected true or false"),
        ("seen_at", ["2026-01-01", "soon", None], "seen_at at row 1 is 'soon'; expected a date"),
        ("query", [[1.0] * 5, [1.0] * 4, None], "query at row 1 is .*; expected a list of 5 finite numbers"),
        ("query", ["a", "b", "c"], "query is a column of string; expected a list of 5"),
    ],
)
def test_a_column_of_another_type_is_refused_with_its_row(column, values, message):
    table = raw_table(3)
    encoder = fitted(raw_table())
    rows = {name: table[name] for name in encoder.by_column}
    with pytest.raises((LogError, DecisionError), match=message):
        encoder.encode_table({**rows, column: values})


def test_infinities_are_refused_when_a_log_is_read():
    table = {**raw_table(30)}
    table["age"][7] = float("-inf")
    with pytest.raises(LogError, match="age at row 7 is -inf; expected a finite number"):
        read_log(table, action="banner", reward="clicked")


def test_a_missing_number_that_no_row_of_the_log_missed_is_the_mean():
    encoder = features(n="number").fit(open_table({"n": [1.0, 3.0]}), ["n"])
    assert encoder.encode({"n": None}).tolist() == encoder.encode({"n": float("nan")}).tolist() == [1, 0]


def test_raw_features_have_no_place_for_what_is_missing():
    log = read_log({"x_age": [1.0, 2.0], "action": ["a", "b"], "reward": [0.0, 1.0]})
    assert log.encoder.encode({"age": 2}).tolist() == [2.0]
    with pytest.raises(DecisionError, match="age is missing, and these features are raw numbers"):
        log.encoder.encode({"age": None})


def test_a_role_is_no_feature():
    with pytest.raises(LogError, match="'reward' as the reward, so it cannot be a feature"):
        read_log({"a": [1.0], "action": ["x"], "reward": [1.0]}, contexts=["a", "reward"])
    log = read_log({"a": [1.0, 2.0], "action": ["x", "y"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5]})
    assert log.feature_names == ("constant", "a")


def test_two_columns_that_would_make_one_feature_are_refused():
    table = {
        "a": ["b=c"] * 5 + ["d"] * 5,
        "a=b": ["c"] * 5 + ["e"] * 5,
        "action": ["x"] * 10,
        "reward": [0.0] * 10,
    }
    with pytest.raises(LogError, match="would both make a feature 'a=b=c'"):
        read_log(table)


@pytest.mark.parametrize("wrong", ["all", 7, {"age": "number"}])
def test_features_must_be_features(wrong):
    with pytest.raises(SettingError, match=r"features=.*; must be 'auto', 'raw', sparing.features\(...\)"):
        read_log(raw_table(5), action="banner", reward="clicked", features=wrong)


def test_what_features_can_not_be():
    for wrong, message in (
        (lambda: features(), "names no column"),
        (lambda: features("raw"), "the first argument must be 'auto'"),
        (lambda: features(a="numeric"), "must be one of auto, number"),
        (lambda: features(a="number", kernel="auto"), "must be nystroem"),
        (lambda: nystroem(0), "landmarks=0"),
        (lambda: vector(0), "size=0"),
    ):
        with pytest.raises(SettingError, match=message):
            wrong()


# scikit-learn


def test_a_column_transformer_is_translated_exactly():
    compose, preprocessing = (
        pytest.importorskip("sklearn.compose"),
        pytest.importorskip("sklearn.preprocessing"),
    )
    rng = np.random.default_rng(5)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(rng.normal(3, 2, (60, 4)), columns=names).assign(
        city=rng.choice(["x", "y", "z"], 60), size=rng.integers(0, 3, 60), rest=rng.normal(size=60), gone=1.0
    )
    transformer = compose.ColumnTransformer(
        [
            ("s", preprocessing.StandardScaler(), ["a"]),
            ("m", preprocessing.MinMaxScaler(), ["b"]),
            ("r", preprocessing.RobustScaler(), ["c"]),
            ("x", preprocessing.MaxAbsScaler(), ["d"]),
            (
                "o",
                preprocessing.OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                ["city", "size"],
            ),
            ("p", "passthrough", ["rest"]),
        ]
    ).fit(frame)
    encoder = features.from_sklearn(transformer)
    fresh = frame.drop(columns="gone").assign(city=["y", "unknown"] * 30)
    np.testing.assert_allclose(
        encoder.encode_table(fresh), transformer.transform(fresh.assign(gone=1.0)), atol=1e-12
    )


def test_what_cannot_be_translated_is_refused_by_name():
    compose, preprocessing = (
        pytest.importorskip("sklearn.compose"),
        pytest.importorskip("sklearn.preprocessing"),
    )
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": ["x", "y", "x"]})
    odd = compose.ColumnTransformer([("q", preprocessing.QuantileTransformer(n_quantiles=2), ["a"])]).fit(
        frame
    )
    with pytest.raises(
        SettingError, match="'q' is a QuantileTransformer, which is not translated; known are"
    ):
        features.from_sklearn(odd)
    strict = compose.ColumnTransformer([("o", preprocessing.OneHotEncoder(), ["b"])]).fit(frame)
    with pytest.raises(SettingError, match="handle_unknown='error'"):
        features.from_sklearn(strict)
    with pytest.raises(SettingError, match="expected a fitted ColumnTransformer"):
        features.from_sklearn(preprocessing.StandardScaler())
