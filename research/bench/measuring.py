"""What was measured, the ratios that follow from it, and all that a run found as JSON."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sparing.errors import FileError, SettingError

VERSION = 1
LIBRARIES = ("sparing", "numpy", "scipy", "numba", "pyarrow")

FASTER = "other / ours"
"""How many times faster ours is: at least the target."""

COST = "ours / other"
"""How many times the other's time ours takes: at most the target."""


@dataclass(frozen=True)
class Measurement:
    """CPU seconds of one unit of work (a step, a run, a file), one number for each interleaved round; of the service, what
    its unit says.

    `size` and `regime` say under what circumstances; `count` is how many units a round repeated.
    """

    part: str
    size: str
    contender: str
    regime: str
    unit: str
    count: int
    rounds: tuple[float, ...]

    @property
    def minimum(self) -> float:
        """The least disturbed round."""
        return min(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """25 %, 50 % and 75 % of the rounds."""
        low, middle, high = np.quantile(self.rounds, [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; what follows from the rounds goes along for readers."""
        return {**self.__dict__, "minimum": self.minimum, "quartiles": list(self.quartiles)}


@dataclass(frozen=True)
class Ratio:
    """Two contenders side by side: the ratio of their minima, and the range of the rounds' own ratios.

    `of` is FASTER or COST; `target` is None where none is set.
    """

    part: str
    size: str
    ours: str
    our_regime: str
    other: str
    other_regime: str
    of: str
    value: float
    low: float
    high: float
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the value reaches the target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.of == FASTER else self.value <= self.target

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.__dict__, "met": self.met}


def ratio(
    ours: Measurement,
    other: Measurement,
    *,
    of: str = FASTER,
    target: float | None = None,
) -> Ratio:
    """Divide the minima; [low, high] is the range of the ratios round by round.

    The rounds are interleaved, so that round i of both met the same machine. min p / min q always lies
    in the range of p_i/q_i.
    """
    if len(ours.rounds) != len(other.rounds):
        raise SettingError(f"{len(ours.rounds)} rounds and {len(other.rounds)}; both need the same number")
    mine, theirs = np.array(ours.rounds), np.array(other.rounds)
    above, below = (theirs, mine) if of == FASTER else (mine, theirs)
    each = above / below
    return Ratio(
        part=ours.part,
        size=ours.size,
        ours=ours.contender,
        our_regime=ours.regime,
        other=other.contender,
        other_regime=other.regime,
        of=of,
        value=float(above.min() / below.min()),
        low=float(each.min()),
        high=float(each.max()),
        target=target,
    )


@dataclass(frozen=True)
class Failure:
    """A contender that could not be measured, and why."""

    part: str
    contender: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """A part's harvest."""

    measurements: tuple[Measurement, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    failures: tuple[Failure, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.measurements + other.measurements,
            self.ratios + other.ratios,
            self.failures + other.failures,
        )


def shown(name: str, measurements: Sequence[Measurement]) -> Measurement | None:
    """The measurement of this contender, if it was measured."""
    return next((m for m in measurements if m.contender == name), None)


def compared(
    raced: Outcome, ours: str, other: str, *, of: str = FASTER, target: float | None = None
) -> Outcome:
    """The ratio of two contenders of a race; nothing where one of them was not measured."""
    mine, theirs = (shown(name, raced.measurements) for name in (ours, other))
    if mine is None or theirs is None:
        return Outcome()
    return Outcome(ratios=(ratio(mine, theirs, of=of, target=target),))


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
