"""All that a benchmark run found, and its JSON."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from research.bench.measuring import Failure, Measurement, Outcome, Ratio
from sparing.errors import FileError

VERSION = 1
LIBRARIES = ("sparing", "numpy", "scipy", "numba", "pyarrow")


@dataclass(frozen=True)
class BenchmarkResult:
    """Machine, peers, measurements, ratios and failures of one run."""

    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    peers: tuple[Mapping[str, Any], ...]
    outcome: Outcome
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """For benchmarks.json."""
        return {
            "version": VERSION,
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "seconds": self.seconds,
            "peers": [dict(peer) for peer in self.peers],
            "ratios": [each.to_dict() for each in self.outcome.ratios],
            "failures": [dict(each.__dict__) for each in self.outcome.failures],
            "measurements": [each.to_dict() for each in self.outcome.measurements],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "BenchmarkResult":
        """Read what `to_dict` gave; what follows from the rounds is computed, not read."""
        if value.get("version") != VERSION:
            raise FileError(
                f"benchmarks of version {value.get('version')}; expected {VERSION}. Run the bench anew"
            )
        outcome = Outcome(
            tuple(
                Measurement(**{**_only(Measurement, each), "rounds": tuple(each["rounds"])})
                for each in value["measurements"]
            ),
            tuple(Ratio(**_only(Ratio, each)) for each in value["ratios"]),
            tuple(Failure(**each) for each in value["failures"]),
        )
        return cls(
            value["machine"], value["settings"], tuple(value["peers"]), outcome, float(value["seconds"])
        )


def _only(kind: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in kind.__dataclass_fields__}


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, system, and the versions that ran."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gigabytes": _memory(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in LIBRARIES},
    }


def _processor() -> str:
    try:
        lines: Sequence[str] = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = ()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _version(name: str) -> str:
    module = sys.modules.get(name)
    try:
        return str(module.__version__) if module is not None else metadata.version(name)
    except (AttributeError, metadata.PackageNotFoundError):
        return ""
