"""Live rounds by name: mappings, rows and frames of the log's raw columns, aligned or refused."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sparing
from sparing.errors import DecisionError, FileError, LogError, SettingError, UnitWarning

SETTINGS = {
    "confident": (sparing.confident, {"prior_scale": 1.0}),
    "certified": (sparing.certified, {}),
    "linucb": (sparing.linucb, {}),
}


def clicks(n=400, seed=0):
    rng = np.random.default_rng(seed)
    age, country = rng.integers(18, 80, n), rng.choice(["NZ", "CH", "DE"], n)
    banner = rng.choice(["red", "blue", "green"], n)
    rate = 0.2 + 0.4 * ((banner == "red") & (country == "NZ")) + 0.3 * ((banner == "blue") & (age > 50))
    clicked = (rng.random(n) < rate).astype(float)
    return pd.DataFrame({"age": age, "country": country, "banner": banner, "clicked": clicked})


@pytest.fixture(scope="module")
def log():
    return sparing.read_log(clicks(), action="banner", reward="clicked")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_mapping_decides_as_its_context_does(log, name):
    make, settings = SETTINGS[name]
    by_name, by_number = make(log, **settings), make(log, **settings)
    for age, country in [(20, "NZ"), (70, "CH"), (33, "elsewhere"), (None, None)]:
        row = {"country": country, "age": age}
        one = by_name.decide(row)
        two = by_number.decide(by_number.encoder.encode(row))
        assert one._replace(unseen=()) == two
        if one.needs_reward:
            by_name.update(one, 1.0)
            by_number.update(two, 1.0)
    np.testing.assert_array_equal(by_name.sets.theta, by_number.sets.theta)


def test_a_context_by_name_is_ones_own_and_fit_for_compiled_code(log):
    learner = sparing.confident(log, prior_scale=1.0, spot_check=0)
    frame = clicks(1, seed=2)[["age", "country"]]
    row = frame.to_dict("records")[0]
    numbers, expected = (
        log.encoder.encode(row),
        learner.encoder.encode(row),
    )  # the second has a place for unseen values
    for x in (row, frame.iloc[0], frame, pl.from_pandas(frame), numbers, numbers.tolist(), expected):
        one, two = learner.context(x), learner.context(x)
        assert one.tobytes() == expected.tobytes()
        assert (one.dtype, one.shape) == (np.float64, (log.n_features + 1,))
        assert one.flags.c_contiguous
        assert one.flags.writeable
        assert not np.shares_memory(one, two)
        assert not np.shares_memory(one, expected)


def test_frames_decide_as_their_rows_do(log):
    learner = sparing.confident(log, prior_scale=1.0, spot_check=0)
    frame = clicks(50, seed=1)[["country", "age"]]
    many = learner.decide_many(frame)
    np.testing.assert_array_equal(many.actions, learner.decide_many(log.encoder.encode_table(frame)).actions)
    np.testing.assert_array_equal(many.actions, learner.decide_many(pl.from_pandas(frame)).actions)
    np.testing.assert_array_equal(many.actions, learner.decide_many(frame.to_dict("records")).actions)
    shuffled = frame.sample(frac=1, random_state=1)
    np.testing.assert_array_equal(learner.decide_many(shuffled).actions, many.actions[shuffled.index])
    one = learner.copy().decide(frame.iloc[3])
    assert one.action == log.action_names[many.actions[3]]
    assert learner.copy().decide(pl.from_pandas(frame).row(3, named=True)).action == one.action


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"age": 30}, "no column 'country'; the columns are 'age', 'country'"),
        ({"age": 30, "country": "NZ", "device": "phone"}, "unknown column 'device'"),
        ({"Age": 30, "country": "NZ"}, "no column 'age' and unknown column 'Age'"),
        ({"age": "NZ", "country": 30}, "age is 'NZ'; expected a finite number"),
        ({}, "no column 'age', 'country'"),
    ],
)
def test_columns_that_do_not_fit_are_refused_and_change_nothing(log, row, message):
    learner = sparing.confident(log, prior_scale=1.0)
    with pytest.raises(DecisionError, match=message):
        learner.decide(row)
    with pytest.raises(DecisionError, match=message):
        learner.decide_many([row])
    assert (learner.rounds, learner.calls) == (0, 0)


def test_a_saved_learner_and_its_copies_know_their_features(log, tmp_path):
    learner = sparing.confident(log, prior_scale=1.0)
    row = {"age": 25, "country": "DE"}
    learner.decide(row)
    learner.save(tmp_path / "l.sparing")
    expected = learner.copy().decide(row)
    for other in (
        sparing.load(tmp_path / "l.sparing"),
        copy.deepcopy(learner),
        pickle.loads(pickle.dumps(learner)),
    ):
        assert other.encoder.digest == learner.encoder.digest
        assert other.encoder.without_unseen().digest == log.encoder.digest
        assert other.decide(row) == expected


@pytest.mark.parametrize("far", [1e9, -(10**9), "1e9", np.float32(1e9)])
def test_a_number_far_from_the_log_is_taken_with_a_warning(log, far):
    learner, row = sparing.confident(log, prior_scale=1.0, spot_check=0), {"age": far, "country": "NZ"}
    told = r"age is more than 100 deviations from its mean in the log, which is .* Give it in the unit of the log"
    for call, rows in (
        (learner.decide, row),
        (learner.decide_many, [row]),
        (learner.decide_many, pd.DataFrame([{"age": 30.0, "country": "NZ"}, {**row, "age": float(far)}])),
    ):
        with pytest.warns(UnitWarning, match=told) as warned:
            call(rows)
        assert len(warned) == 1
        assert call != learner.decide or warned[0].filename == __file__  # where the caller can find it
    for near in (30.0, 90, "41", None):
        learner.decide({"age": near, "country": "NZ"})


def test_what_is_no_context_is_told_the_columns(log):
    learner = sparing.confident(log, prior_scale=1.0)
    for odd in ([30, "NZ"], "NZ", {30, "NZ"}):
        with pytest.raises(
            DecisionError, match=r"is not a list of numbers; .* or a mapping of the columns age, country"
        ):
            learner.decide(odd)
    with pytest.raises(DecisionError, match=r"row 1 is \[1, 2\]; expected a mapping of columns"):
        learner.decide_many([{"age": 30, "country": "NZ"}, [1, 2]])


def test_raw_numbers_have_no_mean_to_be_far_from():
    table = {"x_age": [1.0, 2.0, 3.0], "action": ["a", "b", "a"], "reward": [0.0, 1.0, 0.5]}
    sparing.confident(sparing.read_log(table)).decide({"age": 1e9})


def test_a_learner_without_a_log_takes_numbers_by_their_places():
    learner = sparing.moful(n_actions=2, n_features=2)
    twin = sparing.moful(n_actions=2, n_features=2)
    assert learner.decide({"x_1": 2.0, "x_0": 1.0}) == twin.decide([1.0, 2.0])


def test_a_policy_is_judged_by_name(log, tmp_path):
    policy = sparing.learn(log, "greedy", holdout=0.3)
    sparing.save_policy(policy, tmp_path / "p.sparing")
    policy = sparing.load_policy(tmp_path / "p.sparing")
    fresh = clicks(300, seed=7)
    turned = fresh[fresh.columns[::-1]]
    values = [
        sparing.evaluate(
            sparing.read_log(each, action="banner", reward="clicked", features=policy.encoder),
            policy,
            methods=["dm"],
        )["dm"].value
        for each in (fresh, turned)
    ]
    assert values[0] == values[1]
    with pytest.raises(LogError, match="have other features"):
        sparing.evaluate(sparing.read_log(fresh, action="banner", reward="clicked"), policy)
    np.testing.assert_array_equal(
        policy.indices(fresh[["country", "age"]]),
        policy.indices(policy.encoder.encode_table(fresh[["age", "country"]])),
    )


def test_swapped_raw_columns_are_realigned(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 2))
    actions, rewards = rng.integers(0, 2, 200), rng.normal(size=200)
    named = [
        sparing.Log.from_arrays(
            x[:, order], actions, rewards, propensities=np.full(200, 0.5), feature_names=names
        )
        for order, names in (
            ([0, 1], ["age", "size"]),
            ([1, 0], ["size", "age"]),
            ([0, 1], ["age", "weight"]),
        )
    ]
    policy = sparing.learn(named[0], "greedy", ridge=1.0)
    values = [
        sparing.evaluate(each, policy, methods=["ips"], training_rows="allow")["ips"].value
        for each in named[:2]
    ]
    assert values[0] == values[1]
    with pytest.raises(LogError, match="no column 'size' and unknown column 'weight'"):
        sparing.evaluate(named[2], policy, training_rows="allow")


def test_a_file_that_lost_its_features_is_refused(log, tmp_path):
    from sparing import archive
    from sparing.online.files import KIND, VERSION

    learner = sparing.confident(log, prior_scale=1.0)
    learner.save(tmp_path / "l.sparing")
    header, arrays = archive.read(tmp_path / "l.sparing", KIND, VERSION)
    header["encoder"]["columns"].pop()
    archive.write(tmp_path / "m.sparing", KIND, VERSION, header, arrays)
    with pytest.raises(FileError):
        sparing.load(tmp_path / "m.sparing")


def test_settings_that_are_no_log(log):
    with pytest.raises(SettingError, match="expected a Log"):
        sparing.confident(clicks())
