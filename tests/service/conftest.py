"""The stores that tests run on: a folder with SQLite, and a PostgreSQL server of the tests' own."""

import pytest

from service.clusters import Cluster
from service.workers import Place


@pytest.fixture(scope="session")
def cluster():
    """A PostgreSQL server, running."""
    server = Cluster()
    yield server
    server.remove()


@pytest.fixture
def on_postgres(cluster, tmp_path):
    """Where a fresh store in PostgreSQL is."""
    return Place(tmp_path / "store", cluster.schema())


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request, tmp_path):
    """Where a fresh store is, once in each database: a Place."""
    if request.param == "sqlite":
        return Place(tmp_path / "store")
    return request.getfixturevalue("on_postgres")
