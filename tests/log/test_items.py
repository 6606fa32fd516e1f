"""Features of the actions: a table with a row an item, matched to the log's actions by label."""

import numpy as np
import pytest

from sparing import features, read_log, write_log
from sparing.errors import LogError, SettingError

ROWS = {"age": [30.0, 40.0, 50.0, 20.0], "banner": ["b", "a", "b", "a"], "clicked": [0.0, 1.0, 1.0, 0.0]}
ITEMS = {"banner": ["c", "a", "b"], "price": [3.0, 1.0, 2.0], "genre": ["x", "y", "x"]}


def read(items=ITEMS, **more):
    return read_log(ROWS, action="banner", reward="clicked", items=items, **more)


def test_items_are_matched_by_label_and_bring_actions_never_logged():
    log = read()
    assert log.action_names == ("a", "b", "c")
    assert log.counts.tolist() == [2, 2, 0]
    price = log.items.features[:, log.items.encoder.names.index("price")]
    np.testing.assert_allclose(price, (np.array([1.0, 2.0, 3.0]) - 2) / np.sqrt(2 / 3))
    assert log.items.features[:, log.items.encoder.names.index("genre=x")].tolist() == [0, 1, 1]
    assert "constant" not in log.items.encoder.names


def test_the_order_of_the_items_does_not_matter():
    turned = {name: values[::-1] for name, values in ITEMS.items()}
    np.testing.assert_array_equal(read(turned).items.features, read().items.features)


def test_item_features_can_be_said():
    assert read(item_features=features(price="number")).items.encoder.names == ("price",)
    given = read(item_features=read().items.encoder)
    np.testing.assert_array_equal(given.items.features, read().items.features)
    with pytest.raises(SettingError, match="item_features='raw'; must be 'auto'"):
        read(item_features="raw")


def test_numbers_in_text_files_are_the_logs_numbers(tmp_path):
    (tmp_path / "log.csv").write_text("age,banner,clicked\n1,7,0\n2,8,1\n3,7,1\n")
    (tmp_path / "items.csv").write_text("banner,price\n8,1.5\n7,2.5\n9,3.5\n")
    log = read_log(tmp_path / "log.csv", action="banner", reward="clicked", items=tmp_path / "items.csv")
    assert log.action_names == (7, 8, 9)
    assert log.items.features[:, 0].argsort().tolist() == [1, 0, 2]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_written_log_carries_its_items(tmp_path, ending):
    log = read()
    write_log(log, tmp_path / f"log.{ending}")
    again = read_log(tmp_path / f"log.{ending}")
    np.testing.assert_array_equal(again.items.features, log.items.features)
    assert again.items.encoder.digest == log.items.encoder.digest
    turned = read_log(tmp_path / f"log.{ending}", actions=["c", "b", "a"])
    np.testing.assert_array_equal(turned.items.features, log.items.features[::-1])
    assert log.take([0, 1]).items is log.items


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            {"banner": ["a", "b", "a"], "price": [1.0, 2.0, 3.0]},
            "the item 'a' is in two rows of the items",
        ),
        ({"banner": ["a", "c"], "price": [1.0, 2.0]}, "1 of 3 actions have no row in the table: 'b'"),
        ({"banner": ["a", None, "b"], "price": [1.0, 2.0, 3.0]}, "'banner' at row 1 of the items is missing"),
        ({"item": ["a", "b"], "price": [1.0, 2.0]}, "the items in the table have no column 'banner'"),
        ({"Banner": ["a", "b"], "price": [1.0, 2.0]}, "Did you mean 'Banner'\\? Name it as"),
        ({"banner": ["a", "b"], "price": [1.0, 1.0]}, "no column of the table carries anything"),
        ({"banner": ["a", "b"], "price": [1.0, float("inf")]}, "price at row 1 is inf"),
    ],
)
def test_items_that_do_not_fit(items, message):
    with pytest.raises(LogError, match=message):
        read(items)


def test_an_item_without_features_has_them_missing():
    log = read({"banner": ["a", "b", "c"], "price": [1.0, None, 3.0]})
    assert log.items.encoder.names == ("price", "price is missing")
    assert log.items.features[1].tolist() == [0, 1]
