"""Exported policies play what the policy plays, on 10,000 rows: as JSON, in three databases, as ONNX."""

import asyncio
import base64
import contextlib
import datetime
import json
import sqlite3

import asyncpg
import duckdb
import numpy as np
import onnxruntime
import pyarrow as pa
import pytest

import sparing
from policies.exported_logs import columns, live_table, log_of, wide_columns
from service.clusters import Cluster
from sparing.errors import FileError, SettingError
from sparing.policies.policy import ConstantPolicy, GreedyPolicy, PessimisticPolicy, SoftmaxPolicy
from sparing.policies.support import KnownSupport, TablePolicy

KERNEL = sparing.features("auto", city=sparing.hashed(16), embedding=sparing.vector(6, keep=3), kernel=20)
NOISY = np.array([1.0, 0.0, 0.0, 1.0] * 25) + np.random.default_rng(0).normal(size=100)
COSTS = {"red": 0.0, "it's \\ blue": 0.02, "gold": 0.05}


@pytest.fixture(scope="module")
def cluster():
    server = Cluster()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def plain():
    """The policy of a learner with costs, whose categories have a place for unseen values; and live rows."""
    log = log_of(columns, costs=COSTS)
    learner = sparing.economical(log, call_cost=0.1, horizon=1000, seed=0)
    return learner.policy(), live_table(columns)


@pytest.fixture(scope="module")
def wide():
    return sparing.learn(log_of(wide_columns, features=KERNEL), "greedy", ridge=1.0), live_table(wide_columns)


def assert_spread(actions):
    """A control: an export that always plays one action, or ignores a column, would be found."""
    assert min(np.unique(np.array(actions, dtype=object), return_counts=True)[1]) > 500


def test_json_is_the_policy(wide, plain, tmp_path):
    for policy, live in (wide, plain):
        policy.export("json", tmp_path / "policy.json")
        scorer = sparing.load_scorer(tmp_path / "policy.json")
        x = policy.rows(live)
        np.testing.assert_array_equal(scorer.rows(live), x)  # the encoder, bit for bit
        exact = (x.astype(np.longdouble) @ policy.theta.T.astype(np.longdouble)) - (
            0 if policy.costs is None else policy.costs
        )
        np.testing.assert_allclose(scorer.scores(x), exact.astype(float), rtol=0, atol=1e-13)
        played = policy.actions(x)
        np.testing.assert_array_equal(scorer.actions(x), played)
        assert_spread(played)
        again = (tmp_path / "policy.json").read_text(encoding="utf-8")
        assert scorer.to_json() == again == policy.export("json")


def test_a_scorer_is_a_policy(plain):
    policy, _ = plain
    log = log_of(columns, n=500, costs=COSTS, features=policy.encoder)
    estimates = [
        sparing.evaluate(log, each, methods=["dm"], training_rows="allow").estimates[0].value
        for each in (policy, sparing.Scorer.of(policy))
    ]
    assert estimates[0] == estimates[1]


def test_json_of_a_softmax_policy_and_of_numbers():
    rng = np.random.default_rng(0)
    policy = SoftmaxPolicy(("a", 3, ("b", 1)), rng.normal(size=(3, 4)), 0.5)
    scorer = sparing.Scorer.from_json(policy.export("json"))
    x = rng.normal(size=(100, 4))
    np.testing.assert_allclose(scorer.probabilities(x), policy.probabilities(x), rtol=1e-13)
    assert scorer.action_names == policy.action_names
    drawn = scorer.indices(x, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, policy.indices(x, np.random.default_rng(1)))


def test_ties_go_to_the_first_in_order():
    theta = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]])
    for priority, first in (([2.0, 1.0, 0.0], "b"), ([0.0, 1.0, 2.0], "a")):
        policy = GreedyPolicy(("a", "b", "c"), theta, np.array(priority))
        x = np.random.default_rng(0).random((50, 2))
        assert set(policy.actions(x)) == {first}
        scorer = sparing.Scorer.from_json(policy.export("json"))
        assert set(scorer.actions(x)) == {first}
        (model_actions,) = onnx_run(policy.export("onnx"), {"context": x}, ["action"])
        assert set(model_actions) == {first}


def test_a_fixed_support_is_kept_and_others_are_refused():
    theta, priority, x = np.eye(3), np.arange(3.0), np.random.default_rng(0).random((200, 3))
    fixed = GreedyPolicy((7, 8, 9), theta, priority, KnownSupport.fixed(np.array([True, False, True]), 3))
    scorer = sparing.Scorer.from_json(fixed.export("json"))
    np.testing.assert_array_equal(scorer.actions(x), fixed.actions(x))
    assert scorer.action_names == (7, 9)
    log = sparing.simulation.draw_log(
        sparing.simulation.LinearWorld(n_actions=5, n_features=3, seed=0),
        rows=200,
        support="per-context",
        unsupported=0.4,
        seed=0,
    )
    varying = sparing.learn(log, "opr", k=0.0, l2=1e-3)
    table = TablePolicy(("a", "b"), np.eye(2), np.eye(2))
    for policy, reason in (
        (varying, "differ from context to context"),
        (
            PessimisticPolicy((1, 2), np.eye(2), np.ones((2, 2, 2)), np.ones(2), np.arange(2.0)),
            "no linear scores",
        ),
        (table, "no linear scores"),
        (ConstantPolicy(("a", "b"), "a"), "no linear scores"),
    ):
        with pytest.raises(SettingError, match=reason):
            policy.export("json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "version 2"),
        ({"format": "other"}, "without a scorer"),
        ({"theta": [[1.0]]}, "damaged"),
        ({"theta": [[None] * 3] * 3}, "damaged"),
        ({"order": [0, 0, 1]}, "damaged"),
        ({"order": [True, False, 2]}, "damaged"),
        ({"temperature": -1}, "damaged"),
        ({"costs": [1, 2]}, "damaged"),
        ({"actions": ["a", "a", "b"]}, "damaged"),
    ],
)
def test_a_damaged_scorer_is_refused(change, told):
    saved = json.loads(GreedyPolicy(("a", "b", "c"), np.eye(3), np.arange(3.0)).export("json"))
    with pytest.raises(FileError, match=told):
        sparing.Scorer.from_json(json.dumps({**saved, **change}))
    with pytest.raises(FileError, match="whole JSON"):
        sparing.Scorer.from_json(json.dumps(saved)[:-1])


# Databases.

ROW = "row"
"""A column that the policies do not use, with the number of the row."""


def numbered(table):
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))


def in_duckdb(query, table):
    with contextlib.closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        connection.register("given", table)
        connection.execute("CREATE TABLE contexts AS SELECT * FROM given")
        return in_order(table, connection.execute(query).fetchall())


def in_order(table, rows):
    """The last column of the rows, in the order of the table: databases give rows in any order."""
    place = table.column_names.index(ROW)
    return [row[-1] for row in sorted(rows, key=lambda row: row[place])]


def in_sqlite(query, table):
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return run_in_sqlite(connection, query, table)


def run_in_sqlite(connection, query, table):
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in table.column_names)
    connection.execute(f"CREATE TABLE contexts ({names})")
    rows = [tuple(map(as_sqlite, row.values())) for row in table.to_pylist()]
    connection.executemany(f"INSERT INTO contexts VALUES ({', '.join('?' * table.num_columns)})", rows)
    return in_order(table, connection.execute(query).fetchall())


def as_sqlite(cell):
    return cell.isoformat(" ") if isinstance(cell, datetime.datetime) else cell


POSTGRES = {
    pa.float64(): "double precision",
    pa.int64(): "bigint",
    pa.string(): "text",
    pa.bool_(): "boolean",
}


def in_postgres(cluster, query, table, settings=()):
    async def run():
        connection = await asyncpg.connect(cluster.address("postgres"))
        try:
            for setting in ("TimeZone = 'America/New_York'", *settings):
                await connection.execute(f"SET {setting}")
            kinds = [POSTGRES.get(field.type, "timestamp") for field in table.schema]
            parts = [
                '"' + name.replace('"', '""') + '" ' + kind
                for name, kind in zip(table.column_names, kinds, strict=True)
            ]
            await connection.execute(f"CREATE TEMPORARY TABLE contexts ({', '.join(parts)})")
            rows = [tuple(row.values()) for row in table.to_pylist()]
            await connection.copy_records_to_table("contexts", records=rows)
            return in_order(table, await connection.fetch(query))
        finally:
            await connection.close()

    return asyncio.run(run())


DATABASES = {"duckdb": in_duckdb, "sqlite": in_sqlite, "postgres": in_postgres}


@pytest.mark.parametrize("dialect", DATABASES)
def test_a_database_plays_what_the_policy_plays(dialect, plain, request):
    policy, live = plain
    query = policy.export("sql", dialect=dialect)
    place = [request.getfixturevalue("cluster")] if dialect == "postgres" else []
    found = DATABASES[dialect](*place, query, numbered(live))
    played = policy.actions(live).tolist()
    assert found == played
    assert_spread(played)


def test_postgres_computes_each_value_once(cluster):
    """Its plan is as long as the query: where it puts subqueries into one another, each score repeats what it is made of."""
    rng = np.random.default_rng(0)
    n, k = 400, 30
    table = {f"c{j}": rng.choice([f"value {i}" for i in range(10)], n) for j in range(3)}
    log = sparing.read_log(
        {**table, "action": rng.permutation(np.arange(n) % k), "reward": rng.normal(size=n)}
    )
    query = sparing.learn(log, "greedy", ridge=1.0).export("sql", dialect="postgres", table="thrice")
    cluster.execute("CREATE TABLE thrice (c0 text, c1 text, c2 text)")
    plan = cluster.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {query}")
    assert len("".join(row[0] for row in plan)) < 4 * len(query)


HOSTILE = ['a"; DROP TABLE contexts; --', "it's", "back\\' OR 1=1 --", "t.v0", "unreadable", "%s {} $1 ?"]


@pytest.mark.parametrize("dialect", DATABASES)
def test_names_and_labels_cannot_leave_their_quotes(dialect, request):
    """Columns, categories and labels that are SQL; categories differ only in case from those of the log."""
    rng = np.random.default_rng(0)
    n = 600
    words = ["'); DROP TABLE contexts; --", "\\'; SELECT 1; --", "'' OR ''='", "e\\", "Ünï"]
    table = {name: rng.choice(words, n) for name in HOSTILE}
    labels = ["'); DELETE FROM contexts; --", "\\", "x\" ' y"]
    action = rng.choice(labels, n)
    reward = (
        (table["it's"] == words[0]) * (action == labels[0])
        + (table["it's"] == words[1]) * (action == labels[1])
        + 0.1 * rng.random(n)
    )
    log = sparing.read_log({**table, "act": action, "reward": reward}, action="act", reward="reward")
    policy = sparing.learn(log, "greedy", ridge=1.0)
    live = {name: rng.choice([*words, "ÜNÏ", "E\\"], 300) for name in HOSTILE}
    live = pa.table(live)
    played = policy.actions(live).tolist()
    assert set(played) == set(labels)
    live = numbered(live)
    query = policy.export("sql", dialect=dialect)
    if dialect == "postgres":
        for setting in ("on", "off"):
            found = in_postgres(
                request.getfixturevalue("cluster"), query, live, [f"standard_conforming_strings = {setting}"]
            )
            assert found == played
    else:
        assert DATABASES[dialect](query, live) == played


@pytest.mark.parametrize("dialect", DATABASES)
def test_a_column_that_ignores_case_does_not_matter(dialect, request):
    log = sparing.read_log(
        {
            "word": ["a", "B"] * 50,
            "action": ["one", "one", "two", "two"] * 25,
            "reward": NOISY,
        }
    )
    policy = sparing.learn(log, "greedy", ridge=1.0)
    query = policy.export("sql", dialect=dialect, table="words")
    rows = "INSERT INTO words VALUES (0, 'a'), (1, 'B'), (2, 'b'), (3, 'A')"
    if dialect == "postgres":
        cluster = request.getfixturevalue("cluster")
        collation = (
            "CREATE COLLATION ignoring (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        for statement in (collation, "CREATE TABLE words (row int, word text COLLATE ignoring)", rows):
            cluster.execute(statement)
        found = cluster.execute(query)
    else:
        opened = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
        with contextlib.closing(opened) as connection:
            connection.execute("CREATE TABLE words (row INTEGER, word VARCHAR COLLATE NOCASE)")
            connection.execute(rows)
            found = connection.execute(query).fetchall()
    found = [row[-1] for row in sorted(found)]
    expected = policy.actions(pa.table({"word": ["a", "B", "b", "A"]})).tolist()
    assert found == expected
    assert expected[:2] == ["one", "two"]


ODD_MOMENTS = (
    "now",
    "10:00",
    "2460000.5",  # a Julian day
    "2026-02-30",
    b"2026-01-05",
    1.7674848e12,  # milliseconds
    20260105,  # a date in Python
    9e999,
)
"""What SQLite would take for another moment than Python, or Python refuses."""


def test_cells_that_sqlite_cannot_read_give_no_action():
    log = sparing.read_log(
        {"age": [20.0, 60.0] * 50, "when": ["2026-01-01", "2026-02-01"] * 50, "sure": [True, False] * 50}
        | {"action": ["a", "a", "b", "b"] * 25, "reward": NOISY},
    )
    query = sparing.learn(log, "greedy", ridge=1.0).export("sql", dialect="sqlite")
    good = {"age": 20.0, "when": "2026-01-05", "sure": "yes"}
    rows = [
        good,
        {**good, "age": "abc"},
        {**good, "when": "soon"},
        {**good, "sure": "maybe"},
        {**good, "age": 1e60},
        *({**good, "when": odd} for odd in ODD_MOMENTS),
    ]
    found = in_sqlite(query, Cells([{ROW: number, **row} for number, row in enumerate(rows)]))
    assert found[0] in ("a", "b")
    assert found[1:] == [None] * (4 + len(ODD_MOMENTS))
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        in_sqlite(query, Cells([{ROW: 0, "age": 1.0, "sure": 1}]))


@pytest.fixture(scope="module")
def missing():
    """A policy of columns with missing cells, and rows with NaN and shouted words; each cell changes the score."""
    rng, nan = np.random.default_rng(0), float("nan")
    code, sure = rng.choice([1.0, 2.0, nan], 600), rng.choice([0.0, 1.0, nan], 600)
    word, action = rng.choice(["sí", "no"], 600), rng.choice(["a", "b"], 600)
    worth = 0.8 * np.isnan(code) - 0.8 * np.isnan(sure) + np.where(word == "sí", 0.5, -0.5)
    reward = worth * (action == "b") + 0.1 * rng.normal(size=600)
    table = {"code": code, "sure": sure, "word": word, "action": action, "reward": reward}
    features = sparing.features(code="category", sure="bool", word="bool")
    policy = sparing.learn(sparing.read_log(table, features=features), "greedy", ridge=1.0)
    codes, sures, words = np.meshgrid([1.0, 2.0, nan], [0.0, 1.0, nan], ["sí", "SÍ", "No"])
    return policy, pa.table({"code": codes.ravel(), "sure": sures.ravel(), "word": words.ravel()})


@pytest.mark.parametrize("dialect", DATABASES)
def test_nan_is_missing_and_words_may_be_shouted(dialect, missing, request):
    policy, live = missing
    place = [request.getfixturevalue("cluster")] if dialect == "postgres" else []
    played = policy.actions(live).tolist()
    assert set(played) == {"a", "b"}
    for column, other in (("code", 0.5), ("sure", 0.0), ("word", "no")):  # a control: each column matters
        assert (
            policy.actions(live.set_column(live.column_names.index(column), column, [[other] * 27])).tolist()
            != played
        )
    assert DATABASES[dialect](*place, policy.export("sql", dialect=dialect), numbered(live)) == played


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_a_moment_without_end_gives_no_action(dialect, request):
    log = sparing.read_log(
        {"when": ["2026-01-01", "2026-02-01"] * 50, "action": ["a", "a", "b", "b"] * 25, "reward": NOISY}
    )
    query = sparing.learn(log, "greedy", ridge=1.0).export("sql", dialect=dialect, table="moments")
    make = """CREATE TABLE moments AS SELECT 0 AS row, TIMESTAMP 'infinity' AS "when"
        UNION ALL SELECT 1, TIMESTAMP '-infinity' UNION ALL SELECT 2, TIMESTAMP '2026-01-20'"""
    if dialect == "postgres":
        cluster = request.getfixturevalue("cluster")
        cluster.execute(make)
        found = cluster.execute(query)
    else:
        with contextlib.closing(duckdb.connect()) as connection:
            found = connection.execute(make).execute(query).fetchall()
    found = [row[-1] for row in sorted(found)]
    assert found[:2] == [None, None]
    assert found[2] in ("a", "b")


class Cells:
    """Rows of any cells, as a table for `in_sqlite`."""

    def __init__(self, rows):
        self.rows, self.column_names, self.num_columns = rows, list(rows[0]), len(rows[0])

    def to_pylist(self):
        return self.rows


def test_what_sql_cannot_do_is_refused(wide):
    policy, _ = wide
    softmax = SoftmaxPolicy(("a", "b"), np.eye(2), 1.0)
    many = GreedyPolicy(
        tuple(range(2000)), np.ones((2000, 1)), np.arange(2000.0), encoder=sparing.Encoder.raw(["x"])
    )
    for given, options, reason in (
        (policy, {"dialect": "duckdb"}, "kernel features"),
        (log_policy("city", sparing.hashed(8)), {"dialect": "duckdb"}, "hashes"),
        (log_policy("prompt", "text"), {"dialect": "sqlite"}, "kind text"),
        (log_policy("price", "number"), {"dialect": "postgres"}, "written as"),
        (softmax, {"dialect": "duckdb"}, "at random"),
        (GreedyPolicy(("a", "b"), np.eye(2), np.arange(2.0)), {"dialect": "duckdb"}, "no encoder"),
        (many, {"dialect": "sqlite"}, "2,000 actions"),
        (many, {}, "needs a database"),
        (many, {"dialect": "mysql"}, "must be one of"),
    ):
        with pytest.raises(SettingError, match=reason):
            given.export("sql", **options)
    names = [f"n{number}" for number in range(900)]
    wide_policy = GreedyPolicy(("a", "b"), np.eye(2, 900), np.arange(2.0), encoder=sparing.Encoder.raw(names))
    for dialect in ("postgres", "sqlite"):
        with pytest.raises(SettingError, match="900 columns"):
            wide_policy.export("sql", dialect=dialect)
    row = pa.table({ROW: [0], **{name: [float(name == "n1")] for name in names}})
    assert in_duckdb(wide_policy.export("sql", dialect="duckdb"), row) == ["b"]
    with pytest.raises(SettingError, match="must be one of json, sql, onnx"):
        softmax.export("pmml")
    with pytest.raises(SettingError, match="only sql has dialects"):
        softmax.export("json", dialect="duckdb")


def log_policy(column, kind):
    """A policy of one column of the wide log."""
    table = wide_columns(300, 0, live=False)[column]
    log = sparing.read_log(
        {column: table, "action": ["a", "b"] * 150, "reward": [0.0, 1.0, 1.0] * 100},
        features=sparing.features({column: kind}),
    )
    return sparing.learn(log, "greedy", ridge=1.0)


# ONNX.


def onnx_run(model, feed, outputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(outputs, feed)


def onnx_inputs(live):
    """Raw columns as the inputs of a model: NaN and empty texts where they are missing, moments as seconds."""
    feed = {}
    for name in live.column_names:
        cells = live[name].to_pylist()
        if isinstance(next(cell for cell in cells if cell is not None), str):
            feed[name] = np.array([cell or "" for cell in cells], dtype=object)[:, None]
        elif isinstance(cells[0], list):
            feed[name] = np.array(cells, dtype=np.float64)
        else:
            feed[name] = np.array([np.nan if cell is None else as_float(cell) for cell in cells])[:, None]
    return feed


def as_float(cell):
    return (
        cell.replace(tzinfo=datetime.UTC).timestamp() if isinstance(cell, datetime.datetime) else float(cell)
    )


def test_onnx_plays_what_the_policy_plays(plain):
    policy, live = plain
    actions, scores = onnx_run(policy.export("onnx"), onnx_inputs(live), ["action", "scores"])
    scorer = sparing.Scorer.of(policy)
    np.testing.assert_allclose(scores, scorer.scores(live), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(actions, policy.actions(live))
    assert_spread(actions)


def test_onnx_has_vectors_and_kernels_and_refuses_texts(wide):
    some = ("age", "visits", "country", "embedding")
    spec = sparing.features(
        {"age": "number", "visits": "raw", "country": "category", "embedding": sparing.vector(6, keep=3)},
        kernel=16,
    )
    policy = sparing.learn(log_of(wide_columns, features=spec), "greedy", ridge=1.0)
    live = wide[1].select(some)
    actions, scores = onnx_run(policy.export("onnx"), onnx_inputs(live), ["action", "scores"])
    np.testing.assert_allclose(scores, sparing.Scorer.of(policy).scores(live), rtol=0, atol=1e-11)
    np.testing.assert_array_equal(actions, policy.actions(live))
    with pytest.raises(SettingError, match="kind hashed"):
        wide[0].export("onnx")


def test_onnx_of_a_softmax_policy():
    rng = np.random.default_rng(0)
    policy = SoftmaxPolicy((10, 20, 30), rng.normal(size=(3, 4)), 0.5)
    x = rng.normal(size=(500, 4))
    actions, shares = onnx_run(policy.export("onnx"), {"context": x}, ["action", "probabilities"])
    np.testing.assert_allclose(shares, policy.probabilities(x), rtol=1e-12)
    np.testing.assert_array_equal(actions, np.array([10, 20, 30])[policy.probabilities(x).argmax(axis=1)])


def test_tables_are_those_of_the_code(wide):
    """Another language needs no mathematics of its own for moments, and no Unicode data for texts."""
    tables = json.loads(wide[0].export("json"))["tables"]
    hours = np.frombuffer(base64.b64decode(tables["hours"])).reshape(1440, 2)
    np.testing.assert_allclose(hours[:, 0], np.sin(2 * np.pi * np.arange(1440) / 1440), atol=1e-15)
    assert tables["folds"]["ß"] == "ss"
