"""Reading a table costs the same per column, however many there are: names are looked up, never searched for."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

import sparing
from sparing.log import arrays, scan

WIDE = 300


class Name(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Counted:
    """A batch or a source that counts how often its names are listed, which takes time in proportion to them."""

    def __init__(self, real):
        self.real, self.listed = real, 0

    def __getattr__(self, name):
        return getattr(self.real, name)

    @property
    def schema(self):
        return self

    @property
    def names(self):
        self.listed += 1
        return self.real.schema.names

    def field(self, name):
        return self.real.schema.field(name)


@pytest.fixture(scope="module")
def table():
    columns = {f"c{place}": [1.0, 2.0, 1.5, 0.5] for place in range(WIDE)}
    return pa.table({**columns, "action": ["a", "b", "a", "b"], "reward": [0, 1, 0, 1]})


def test_names_are_listed_once_for_a_batch(table):
    encoder = sparing.read_log(table, action="action", reward="reward").encoder
    batch = Counted(table.to_batches()[0])
    assert encoder.encode_batch(batch).shape == (4, encoder.size)
    assert batch.listed <= 2


def test_names_are_not_searched_one_by_one(table):
    from sparing.log.tables import open_table

    source = Counted(open_table(table))
    chosen = [f"c{place}" for place in range(WIDE)]
    assert len(arrays._named_columns(source, chosen)) == WIDE
    assert source.listed <= 2
    names = tuple(map(Name, chosen))
    columns = arrays.TableColumns(names, "action", "reward", None, None)
    Name.compared = 0
    assert columns.others == ("action", "reward")
    assert Name.compared < 10 * WIDE


def test_names_are_listed_once_to_find_columns_of_text(table):
    from sparing.log.tables import open_table

    names = tuple(f"c{place}" for place in range(WIDE))
    columns, source = arrays.TableColumns(names, "action", "reward", None, None), Counted(open_table(table))
    assert scan._words(source, columns, SimpleNamespace(specs=())) == ()
    assert source.listed <= 2
