"""A peer's features by name become the raw columns that they came from, as live requests send them."""

import json

import numpy as np
import pytest

import other_formats
import sparing
from sparing.log import Log, convert
from sparing.log.formats.events import raw_columns

N = 200
ROLES = {"action": "shown", "reward": "clicked"}


def people():
    rng = np.random.default_rng(0)
    return {
        "user.country": rng.choice(["NZ", "CH", "DE"], N).tolist(),
        "user.age": rng.integers(18, 80, N).tolist(),
        "user.height": [None if i % 7 == 0 else 150.0 + i % 40 for i in range(N)],
        "user.member": [bool(i % 3) for i in range(N)],
        "shown": [["red", "blue"][i % 2] for i in range(N)],
        "clicked": rng.integers(0, 2, N).astype(float).tolist(),
    }


def dsjson(path, table):
    with path.open("w") as file:
        for i in range(N):
            user = {name.removeprefix("user."): table[name][i] for name in table if name.startswith("user.")}
            place = ["red", "blue"].index(table["shown"][i])
            event = {"_label_cost": -table["clicked"][i], "_label_probability": 0.5, "_labelIndex": place}
            event |= {"_label_Action": place + 1, "a": [place + 1, 2 - place], "p": [0.5, 0.5]}
            event["c"] = {"user": user, "_multi": [{"id": "red"}, {"id": "blue"}]}
            file.write(json.dumps(event) + "\n")
    return path


def test_dsjson_is_encoded_as_the_same_table(tmp_path):
    table = people()
    events = dsjson(tmp_path / "log.dsjson", table)
    actions = ["red", "blue", "gold"]
    one = sparing.read_log(events, features="auto", actions=actions)
    two = sparing.read_log(table, actions=actions, **ROLES)
    order = [two.feature_names.index(name) for name in one.feature_names]
    assert sorted(order) == list(range(two.n_features))
    assert np.array_equal(one.contexts, two.contexts[:, order])
    assert one.support.kind == "exact"
    assert np.array_equal(one.rewards, two.rewards)
    assert one.propensities.tolist() == [0.5] * N
    row = {"user.country": "NZ", "user.age": 31, "user.height": None, "user.member": True}
    assert np.array_equal(one.encoder.encode(row), two.encoder.encode(row)[order])
    sparing.warm_started(one).decide(row)


def test_another_file_is_read_as_the_first_was(tmp_path):
    table = people()
    first = sparing.read_log(dsjson(tmp_path / "one.dsjson", table), features="auto")
    table["user.country"] = ["FR"] * N
    second = sparing.read_log(dsjson(tmp_path / "two.dsjson", table), features=first.encoder)
    assert second.encoder.digest == first.encoder.digest
    places = [i for i, name in enumerate(first.feature_names) if name.startswith("user.country=")]
    assert not second.contexts[:, places].any()
    del table["user.age"]
    with pytest.raises(sparing.errors.LogError, match=r"no context column 'user\.age'"):
        sparing.read_log(dsjson(tmp_path / "three.dsjson", table), features=first.encoder)


def test_what_is_no_word_stays_a_number():
    contexts = np.array([[1.0, 1.0, 0.5, 0.0, 3.0], [1.0, 0.0, 1.0, 1.0, 0.0]])
    names = ["tag=a", "tag=b", "share=x", "age is missing", "age"]
    log = Log.from_arrays(contexts, [0, 1], [0.0, 1.0], action_names=[0, 1], feature_names=names)
    found = raw_columns(log)
    assert list(found) == ["tag=a", "tag=b", "share=x", "age"]  # two tags in a row; half of a word
    assert found["age"][0] == 3.0
    assert np.isnan(found["age"][1])


def test_a_word_for_features_is_no_list_of_its_letters(tmp_path):
    path = dsjson(tmp_path / "log.dsjson", people())
    wanted = sparing.read_log(path, features="auto")
    log, notes = other_formats.read(path, features="auto")
    assert np.array_equal(log.contexts, wanted.contexts)
    assert f"Features: {wanted.encoder.described()}." in notes
    assert other_formats.opened(path, features="auto")[0].feature_names == wanted.feature_names
    convert(path, tmp_path / "log.parquet", features="auto")
    assert np.array_equal(sparing.read_log(tmp_path / "log.parquet").contexts, wanted.contexts)
    raw = other_formats.read(path, features="raw")[0]
    assert raw.feature_names == sparing.read_log(path).feature_names
    for read in (other_formats.read, other_formats.opened):
        assert read(path, features="user.age")[0].feature_names == ("user.age",)
