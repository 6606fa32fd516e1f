"""Peers, each in a virtual environment of its own, with every version pinned."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparing.archive import replacing
from sparing.simulation.datasets import cache_directory

RECEIPT = "installed.json"
MINUTES = 20
"""A peer that takes longer to install is given up."""

_SCIENCE = ("numpy==2.4.6", "scipy==1.17.1")
_LEARN = (
    *_SCIENCE,
    "cloudpickle==3.1.2",
    "joblib==1.6.0",
    "narwhals==2.28.0",
    "pandas==3.1.1",
    "python-dateutil==4.0.0",
    "scikit-learn==1.9.1",
    "threadpoolctl==3.8.0",
    "tzdata==2026.6",
)


@dataclass(frozen=True)
class Peer:
    """A library to measure against: its title, its own pin, and what it is installed beside.

    Every pin is installed without its dependencies, so that the list is all there is.
    """

    name: str
    title: str
    pin: str
    companions: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """Everything in its environment."""
        return (*self.companions, self.pin)


PEERS = (
    Peer(
        "obp",
        "OBP",
        "obp==0.5.7",
        (
            "numpy==1.26.4",
            "scipy==1.11.4",
            "scikit-learn==1.3.2",
            "pandas==2.1.4",
            "python-dateutil==2.9.0.post0",
            "six==1.17.0",
            "pytz==2026.6",
            "tzdata==2026.6",
            "cloudpickle==3.1.2",
            "joblib==1.6.0",
            "threadpoolctl==3.8.0",
            "PyYAML==6.0.3",
            "tqdm==4.70.1",
        ),
        ("--ignore-requires-python",),
    ),
    Peer(
        "mabwiser",
        "MABWiser",
        "mabwiser==2.7.4",
        (
            *_LEARN,
            "contourpy==1.3.3",
            "cycler==0.12.1",
            "fonttools==4.68.0",
            "kiwisolver==1.5.1",
            "matplotlib==3.11.2",
            "packaging==26.3",
            "pillow==13.0.0",
            "pyparsing==3.3.3",
            "seaborn==0.13.2",
        ),
    ),
    Peer("contextualbandits", "contextualbandits", "contextualbandits==0.3.30", _LEARN),
    Peer("river", "river", "river==0.26.1", (*_SCIENCE, "narwhals==2.28.0")),
    Peer("coba", "coba", "coba==8.1.0", ("numpy==2.4.6",)),
    Peer(  # its own packages; all that both need (Starlette, uvicorn, …) is what ours runs on
        "fastapi",
        "FastAPI",
        "fastapi==0.162.4",
        (
            "annotated-doc==0.0.6",
            "annotated-types==0.8.0",
            "opentelemetry-api==1.45.2",
            "pydantic==2.14.3",
            "pydantic-core==2.50.4",
            "typing-extensions==4.16.0",
            "typing-inspection==0.4.5",
        ),
    ),
    Peer("vowpalwabbit", "VW", "vowpalwabbit==9.11.9", ("numpy==2.4.6",)),
)


@dataclass(frozen=True)
class Installed:
    """A peer that is ready, or why it is not."""

    peer: Peer
    interpreter: Path | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON: no path of this machine."""
        return {
            "name": self.peer.name,
            "title": self.peer.title,
            "requirements": list(self.peer.requirements),
            "installed": self.interpreter is not None,
            "reason": self.reason,
        }


def install(
    peers: Sequence[Peer] = PEERS,
    *,
    folder: Path | None = None,
    reinstall: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> list[Installed]:
    """Make each peer's environment where it is not there yet, one after the other."""
    base = cache_directory() / "bench" if folder is None else folder
    return [_ready(peer, base / peer.name, reinstall, say) for peer in peers]


def interpreter(peer: Peer, *, folder: Path | None = None) -> Path | None:
    """The Python of a peer's environment; None where there is none, or it was made from other pins."""
    place = (cache_directory() / "bench" if folder is None else folder) / peer.name
    python = interpreter_in(place)
    return python if python.exists() and _read(place / RECEIPT) == _receipt(peer) else None


def interpreter_in(place: Path) -> Path:
    """The Python of a virtual environment."""
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _ready(peer: Peer, place: Path, reinstall: bool, say: Callable[[str], None]) -> Installed:
    python = interpreter_in(place)
    if not reinstall and interpreter(peer, folder=place.parent) is not None:
        return Installed(peer, python)
    say(f"installing {peer.pin} in an environment of its own …")
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        run_quietly([sys.executable, "-m", "venv", str(place)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        run_quietly([*pip, *peer.companions])
        run_quietly([*pip, *peer.options, peer.pin])
        with replacing(place / RECEIPT) as part:
            part.write_text(json.dumps(_receipt(peer), indent=1), encoding="utf-8")
    except (subprocess.SubprocessError, OSError) as error:
        reason = failure_of(error).replace(str(place), peer.name)
        say(f"{peer.title} is left out: {reason}")
        return Installed(peer, None, reason)
    return Installed(peer, python)


def _receipt(peer: Peer) -> dict[str, Any]:
    """What an environment was made from; another Python or another pin makes it anew."""
    made_of = [sys.version, *peer.requirements, *peer.options]
    return {"made_of": made_of, "digest": hashlib.sha256("\n".join(made_of).encode()).hexdigest()}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def run_quietly(command: list[str]) -> None:
    """Run a step of an installation; what it says is kept for `failure_of`."""
    subprocess.run(
        command, check=True, capture_output=True, text=True, errors="replace", timeout=60 * MINUTES
    )


def failure_of(error: Exception) -> str:
    """The last line of what the installer said, which is the one that matters."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it did not install within {MINUTES} minutes"
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    lines = [line.strip() for line in (said or "").splitlines() if "ERROR" in line or "error" in line]
    return lines[-1] if lines else f"{type(error).__name__} without a message"
