"""Every engine does the same work, joins it along the same tree, and survives what kills a worker."""

import subprocess
import sys
import threading
import time

import pytest

import sparing
from each import for_each
from engines.counting import Named, bracketed, shape
from sparing import engines
from sparing.errors import EngineError, LogError, SettingError


@pytest.fixture(params=["one", "threads", "dask"])
def engine(request):
    made = {
        "one": lambda: engines.local(1),
        "threads": lambda: engines.local(3),
    }
    if request.param == "dask":
        return engines.dask(request.getfixturevalue("client"))
    return made[request.param]()


@for_each("count", [1, 2, 3, 7, 12])
def test_the_tree_has_one_shape(engine, tmp_path, count):
    seen = []
    found = engine.fold(Named(str(tmp_path)), range(count), bracketed, progress=lambda *at: seen.append(at))
    assert found == shape(count)
    assert seen == [(done, count) for done in range(1, count + 1)]
    assert list(engine.results(Named(str(tmp_path)), range(count))) == list(map(str, range(count)))


@for_each("many", range(1, 40))
def test_states_that_come_one_by_one_make_the_same_tree(many):
    tree = engines.TreeReduce(bracketed)
    for item in range(many):
        tree.add(str(item))
    assert tree.total() == shape(many)


def test_an_error_is_that_of_the_first_item(engine, tmp_path):
    with pytest.raises(LogError, match="row 3 is wrong"):
        engine.fold(Named(str(tmp_path), wrong=(3, 5)), range(8), bracketed)


def test_threads_do_not_run_far_ahead(tmp_path):
    results = engines.local(2).results(Named(str(tmp_path)), range(100))
    assert next(results) == "0"
    time.sleep(0.05)
    assert len(list(tmp_path.iterdir())) <= 6
    results.close()
    time.sleep(0.05)
    assert len(list(tmp_path.iterdir())) <= 8


def test_a_killed_dask_worker_costs_only_its_work(client, tmp_path):
    work = Named(str(tmp_path), deadly=2, pause=0.02)
    assert engines.dask(client).fold(work, range(12), bracketed) == shape(12)
    assert len(list(tmp_path.glob("2-*"))) == 2
    client.wait_for_workers(2, timeout=30)


def test_an_interruption_stops_what_has_not_begun(tmp_path):
    engine, work = engines.local(2), Named(str(tmp_path), pause=0.02)

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.fold(work, range(1000), bracketed, progress=stop)
    assert len(list(tmp_path.iterdir())) < 20
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sparing")]


@pytest.mark.parametrize(
    ("wanted", "name", "workers"),
    [(None, "local", None), ("local", "local", 2)],
)
def test_engines_by_their_names(wanted, name, workers):
    found = engines.engine_of(wanted, workers)
    assert found.name == name
    assert found.workers == (workers or found.workers)
    assert engines.engine_of(found) is found


def test_a_client_is_an_engine(client):
    found = engines.engine_of(client)
    assert (found.name, found.workers) == ("dask", 2)
    again = engines.engine_of(client.scheduler.address.replace("tcp", "dask"))
    assert list(again.results(abs, [-1, 2])) == [1, 2]
    again.client.close()


def test_unknown_engines_are_rejected(monkeypatch):
    monkeypatch.setattr("sparing.engines.cluster.TIMEOUT", "0.5s")
    for unknown in ("spark", "processes"):
        with pytest.raises(SettingError, match=r"'local'.* dask://host:8786"):
            engines.engine_of(unknown)
    with pytest.raises(SettingError, match="workers=0"):
        engines.local(0)
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1 .*dask scheduler"):
        engines.engine_of("dask://127.0.0.1:1")


def test_the_core_does_without_dask():
    code = (
        "import sys; sys.modules['distributed'] = sys.modules['dask'] = None\n"
        "import sparing, sparing.log.scan\n"
        "try: sparing.engines.dask('tcp://x:1')\n"
        "except sparing.errors.MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'sparing[dask]'" in done.stdout
    assert sparing.engines is engines
