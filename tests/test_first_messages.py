"""What a new user does first and gets wrong: the message names what to do, or it just works."""

import json

import numpy as np
import pytest

import sparing
from sparing.errors import LogError, SettingError

pd = pytest.importorskip("pandas")
COUNTRIES = np.array(["NZ", "CH"])


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "country": rng.choice(COUNTRIES, 200),
            "age": rng.integers(18, 80, 200),
            "banner": rng.choice(["red", "blue"], 200),
            "clicked": rng.integers(0, 2, 200),
        }
    )


def read(frame, **more):
    return sparing.read_log(frame, action="banner", reward="clicked", **more)


def test_actions_in_one_text_are_refused_with_the_list_to_pass(frame):
    with pytest.raises(LogError, match=r"pass \['red', 'blue', 'gold'\]"):
        read(frame, actions="red, blue,gold")


@pytest.mark.parametrize(
    "settings", [{"call_cost": "0.05"}, {"call_cost": 0.1, "horizon": "20"}, {"calls": "5"}]
)
def test_a_number_in_quotes_is_told_from_a_number(frame, settings):
    name, value = next((name, value) for name, value in settings.items() if isinstance(value, str))
    with pytest.raises(SettingError, match=f"is a text.*quotes: {name}={value}"):
        sparing.economical(read(frame), **settings)


def test_learn_without_a_method_is_greedy_as_the_command(frame):
    assert sparing.learn(read(frame)).method == "greedy"


def test_a_misspelt_metric_gets_a_suggestion(frame):
    from sparing.auditing.audit import gate

    with pytest.raises(SettingError, match="did you mean unsupported_share"):
        gate("unsuported_share>0.2")({"unsupported_share": 0.1, "gaps": 0})


@pytest.mark.parametrize("encoded", [True, False])
def test_a_frame_may_still_have_the_columns_of_the_log(frame, encoded, tmp_path):
    columns = ["country", "age"] if encoded else ["x_0", "x_1"]
    if not encoded:
        frame = pd.DataFrame({"x_0": frame["age"] / 80, "x_1": 1.0, **frame[["banner", "clicked"]]})
    log = read(frame)
    policy, learner = sparing.learn(log), sparing.confident(log)
    sparing.save_policy(policy, tmp_path / "policy")
    learner.save(tmp_path / "learner")
    for each in (policy, sparing.load_policy(tmp_path / "policy")):
        assert list(each.actions(frame)) == list(each.actions(frame[columns]))
    for each in (learner, sparing.load(tmp_path / "learner")):
        assert each.decide_many(frame).labels() == each.decide_many(frame[columns]).labels()
        assert each.decide(frame.iloc[0]).action == each.decide(frame[columns].iloc[0]).action
    other = frame.rename(columns={"clicked": "something"})
    with pytest.raises(sparing.errors.DecisionError, match="unknown column 'something'"):
        learner.decide_many(other)


def test_roles_do_not_change_which_encoding_it_is(frame):
    one, other = (sparing.read_log(frame, action="banner", reward=name) for name in ("clicked", "age"))
    assert one.encoder.digest != other.encoder.digest
    encoder = read(frame).encoder
    assert json.loads(json.dumps(encoder.header()))["roles"] == ["banner", "clicked"]
    plain = type(encoder)(encoder.columns, encoder.constant, encoder.kernel, encoder.left_out)
    assert plain.digest == encoder.digest
    assert "roles" not in plain.header()


def codes(**columns):
    """A log of 300 rows with these columns, as a CSV file has them."""
    rng = np.random.default_rng(1)
    chosen = {name: rng.choice(values, 300) for name, values in columns.items()}
    return {**chosen, "banner": rng.choice(["red", "blue"], 300), "clicked": rng.integers(0, 2, 300)}


def written(table, path):
    pd.DataFrame(table).to_csv(path, index=False)
    return path


def test_leading_zeros_are_kept(tmp_path):
    path = written(codes(shop=["01234", "20000", "30000"], price=["0.5", "0", "10"]), tmp_path / "log.csv")
    encoder = read(path).encoder
    kinds = {column.column: column for column in encoder.columns}
    assert kinds["shop"].values == ("01234", "20000", "30000")
    assert "digits kept as text" in encoder.described()
    assert kinds["price"].kind == "number"


@pytest.mark.parametrize("name", ["zip", "zip_code", "ZIP", "postcode", "home plz"])
@pytest.mark.parametrize("values", [["8001", "9000"], [8001, 9000]])
def test_postal_codes_are_categories(name, values):
    log = read(codes(**{name: values}))
    assert log.encoder.columns[0].values == ("8001", "9000")
    assert np.array_equal(log.encoder.encode({name: 8001}), log.encoder.encode({name: "8001"}))


@pytest.mark.parametrize("name", ["zipped", "gzip", "unzip_seconds"])
def test_other_names_are_not_postal_codes(name):
    assert read(codes(**{name: [8001, 9000]})).encoder.columns[0].kind == "number"


@pytest.mark.parametrize("as_text", [True, False])
def test_dates_without_signs_are_dates(as_text, tmp_path):
    days = pd.date_range("2026-01-01", periods=60)
    compact = [f"{day:%Y%m%d}" if as_text else int(f"{day:%Y%m%d}") for day in days]
    table = codes(day=compact)
    encoder = read(table).encoder
    (column,) = encoder.columns
    assert column.kind == "time"
    iso = {**table, "day": [f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in map(str, table["day"])]}
    (same,) = read(iso).encoder.columns
    assert (column.first, column.last) == (same.first, same.last)
    assert column.mean == pytest.approx(same.mean)
    one, two, three = (encoder.encode({"day": day}) for day in (20260131, "20260131", "2026-01-31"))
    assert np.array_equal(one, two)
    assert np.array_equal(two, three)
    assert np.array_equal(encoder.encode_table({"day": [20260131]})[0], one)


def test_numbers_that_are_not_all_dates_stay_numbers():
    for values in ([20260101, 20261301], [20260101, 20250, 7], [19000101.5, 20260101.0]):
        assert read(codes(amount=values)).encoder.columns[0].kind == "number"


def test_another_spelling_of_a_known_value_is_told(frame):
    learner = sparing.confident(read(frame))
    with pytest.warns(sparing.errors.SpellingWarning, match=r"'nz'.*it has 'NZ'"):
        learner.decide({"country": "nz", "age": 30})
