"""What the log shows nothing of: numbers outside its range are clipped, unknown categories named."""

import json

import numpy as np
import pytest

import sparing
from sparing.log.features.encoder import Encoder

pytestmark = pytest.mark.filterwarnings("ignore::sparing.errors.UnitWarning")


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    age, country = rng.uniform(20, 70, n), rng.choice(["de", "fr"], n)
    age[:2] = 20, 70
    return {
        "age": age.tolist(),
        "country": country.tolist(),
        "action": rng.choice(["a", "b"], n).tolist(),
        "reward": (0.01 * age + 0.1 * rng.standard_normal(n)).tolist(),
    }


@pytest.fixture(scope="module")
def log():
    return sparing.read_log(table(), features="auto")


@pytest.mark.parametrize(
    ("age", "as_if"),
    [(1e9, 75.0), (-1e9, 15.0), (76, 75.0), (75, 75.0), (74.5, 74.5), (14, 15.0), ("80", 75.0)],
)
def test_numbers_are_clipped_to_the_range_and_a_tenth_of_it(log, age, as_if):
    """Alone and in a batch, to the same bits."""
    single = log.encoder.encode({"age": age, "country": "de"})
    assert single == pytest.approx(log.encoder.encode({"age": as_if, "country": "de"}), rel=1e-12)
    batch = (
        log.encoder.encode_table({"age": [age, 50.0, None], "country": ["de"] * 3})
        if age != "80"
        else [single]
    )
    assert np.array_equal(batch[0], single)


def test_a_number_far_outside_has_a_value_within_reach(log):
    learner = sparing.confident(log)
    assert abs(learner.decide({"age": 1e9, "country": "de"}).value) < 2


def test_logged_rows_are_what_they_were(log):
    assert np.array_equal(
        log.contexts,
        log.encoder.without_limits().encode_table({name: table()[name] for name in ("age", "country")}),
    )
    assert log.encoder.digest == log.encoder.without_limits().digest


def test_limits_are_saved_and_older_encoders_extrapolate(log):
    saved = json.loads(json.dumps(log.encoder.header()))
    again = Encoder.from_header(saved)
    row = {"age": 200.0, "country": "de"}
    assert np.array_equal(again.encode(row), log.encoder.encode(row))
    for column in saved["columns"]:
        column.pop("low", None)
        column.pop("high", None)
    older = Encoder.from_header(saved)
    assert json.loads(json.dumps(older.header())) == saved
    assert older.encode(row)[1] > 2 * again.encode(row)[1]


def test_raw_numbers_are_not_clipped():
    log = sparing.Log.from_arrays([[0.0], [1.0], [0.5]], ["a", "b", "a"], [0.0, 1.0, 0.5])
    assert log.encoder.encode({log.encoder.names[0]: 9.0}).tolist() == [9.0]


@pytest.mark.parametrize(
    ("row", "unseen"),
    [
        ({"age": 30, "country": "de"}, ()),
        ({"age": 30, "country": "jp"}, ("country",)),
        ({"age": 300, "country": "fr"}, ("age",)),
        ({"age": "300", "country": "kr"}, ("age", "country")),
        ({"age": np.float32(30), "country": "fr"}, ()),
        ({"age": None, "country": None}, ()),
    ],
)
def test_a_decision_names_what_the_log_never_had(log, row, unseen, tmp_path):
    learner = sparing.confident(log, tolerance=1e-6, seed=1)
    decision = learner.decide(row)
    assert decision.unseen == unseen
    assert all(name in repr(decision) for name in unseen)
    learner.save(tmp_path / "saved.sparing")
    assert sparing.load(tmp_path / "saved.sparing").open == learner.open


def test_weekdays_beyond_a_log_of_less_than_a_week_count_as_its_ends():
    """Monday to Thursday: later moments are Thursdays, earlier ones Mondays; alone, in a batch and saved, to the same bits."""
    days = [f"2026-03-{2 + i % 4:02} {i % 24:02}:30" for i in range(96)]
    rows = {"at": days, "action": ["a", "b"] * 48, "reward": [0.0, 1.0, 1.0] * 32}
    encoder = sparing.read_log(rows, features="auto").encoder
    live = [
        "2026-03-06 10:30",
        "2026-03-12 10:30",
        "2026-03-05 10:30",
        "2026-02-28 10:30",
        "2026-03-02 10:30",
    ]
    found = encoder.encode_table({"at": live})
    again = Encoder.from_header(json.loads(json.dumps(encoder.header())))
    for other in ([encoder.encode({"at": one}) for one in live], again.encode_table({"at": live})):
        assert np.array_equal(found, other)
    assert np.array_equal(found[0, :5], found[2, :5])
    assert np.array_equal(found[1, :5], found[2, :5])
    assert np.array_equal(found[3, :5], found[4, :5])
    assert [encoder.unseen({"at": one}) for one in live] == [("at",), (), (), ("at",), ()]
    assert np.array_equal(
        encoder.without_limits().encode_table({"at": days}), encoder.encode_table({"at": days})
    )
    whole = {**rows, "at": [f"2026-03-{2 + i % 7:02} {i % 24:02}:30" for i in range(96)]}
    assert sparing.read_log(whole, features="auto").encoder.unseen({"at": "2026-03-28 10:30"}) == ()
