"""An older release as one more contender: a checkout and an environment of its own, measured by the bench it came with."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from research.bench.measuring import Measurement, Outcome, ratio
from research.environments import RECEIPT, failure_of, interpreter_in, run_quietly
from sparing.errors import SettingError
from sparing.simulation.datasets import cache_directory

HERE = Path(__file__).parents[2]
HOMES = ("ours", "house")
"""Folders of `research/bench` in which releases have their own contenders: 0.2 and later, 0.1."""

PUBLIC = Path(__file__).parent / "ours" / "public.py"
"""Contenders that use only names that releases share; each release runs this file itself."""

OURS, OLDER = "ours", "older"
"""What the titles of contenders begin with."""


@dataclass(frozen=True)
class Release:
    """A release that is installed: `title` to read, where its source is, and the Python that has it."""

    title: str
    checkout: Path
    interpreter: Path

    def environment(self) -> dict[str, str]:
        """Where its own modules come first."""
        return {**os.environ, "PYTHONPATH": str(self.checkout)}

    def module(self) -> str:
        """The module with its own contenders."""
        home = next(h for h in HOMES if (self.checkout / "research" / "bench" / h / "ours.py").is_file())
        return f"research.bench.{home}.ours"


def install(
    what: str,
    *,
    folder: Path | None = None,
    reinstall: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Release:
    """Make the environment of a revision of this repository, or of a folder with a checkout, where it is not there yet.

    All packages are those of its own requirements.lock, every file checked by its hash.
    """
    base = cache_directory() / "bench" / "releases" if folder is None else folder
    if Path(what).is_dir():
        checkout, mark = Path(what).resolve(), "folder"
        place = base / hashlib.sha256(str(checkout).encode()).hexdigest()[:12]
    else:
        commit = _commit(what)
        place, mark = base / commit[:12], commit[:7]
        checkout = place / "source"
    lock = checkout / "requirements.lock"
    if checkout.is_dir():
        _check(checkout)
        if not reinstall and _receipt(lock) == _read(place / RECEIPT):
            return Release(_title(checkout, mark), checkout, interpreter_in(place / "environment"))
    say(f"installing {what} with its own requirements.lock in an environment of its own …")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if mark != "folder":
        _unpack(commit, checkout)
        _check(checkout)
    python = interpreter_in(place / "environment")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        run_quietly([sys.executable, "-m", "venv", str(place / "environment")])
        run_quietly([*pip, "--require-hashes", "-r", str(lock)])
        run_quietly([*pip, "--no-deps", "--no-build-isolation", "--editable", str(checkout)])
    except (subprocess.SubprocessError, OSError) as error:
        raise SettingError(f"{what} does not install: {failure_of(error)}") from None
    (place / RECEIPT).write_text(_receipt(lock), encoding="utf-8")
    return Release(_title(checkout, mark), checkout, python)


def _commit(what: str) -> str:
    words = [
        "git",
        "-C",
        str(HERE),
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{what}^{{commit}}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SettingError(f"--beside {what}: neither a folder nor a revision of this repository")
    return done.stdout.strip()


def _unpack(commit: str, place: Path) -> None:
    archive = subprocess.run(
        ["git", "-C", str(HERE), "archive", commit], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # new in Python 3.11.4
        packed.extractall(place)  # what git archived


def _check(checkout: Path) -> None:
    """A checkout without a lock file or without a bench cannot be measured."""
    homes = [checkout / "research" / "bench" / home / "ours.py" for home in HOMES]
    if not ((checkout / "requirements.lock").is_file() and any(map(Path.is_file, homes))):
        raise SettingError(f"{checkout}: no checkout of sparing with requirements.lock and research/bench")


def _title(checkout: Path, mark: str) -> str:
    text = (checkout / "src" / "sparing" / "__init__.py").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("__version__ =")]
    return f"{lines[0].split(chr(34))[1] if lines else '?'} ({mark})"


def _receipt(lock: Path) -> str:
    """What an environment was made from; another Python or another lock file makes it anew."""
    return hashlib.sha256(sys.version.encode() + lock.read_bytes()).hexdigest()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def older_title(title: str) -> str:
    """What the older release's contender is called beside ours."""
    return OLDER + title.removeprefix(OURS)


def beside(measurements: tuple[Measurement, ...]) -> Outcome:
    """The older release's time over ours, wherever both were measured in the same rounds."""
    found = {(m.part, m.size, m.contender): m for m in measurements}
    ratios = [
        ratio(mine, other)
        for (part, size, name), mine in found.items()
        if name.split(",")[0] == OURS and (other := found.get((part, size, older_title(name)))) is not None
    ]
    return Outcome(ratios=tuple(ratios))
