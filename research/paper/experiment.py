"""What an experiment is: units of work that run apart, and an analysis of them all together."""

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparing.errors import SettingError

Record = dict[str, Any]
"""Plain values, as JSON has them: numbers, text, lists, and names for them."""

Columns = dict[str, list[Any]]
"""A table: column names and equally long lists."""

Pairs = Sequence[tuple[Record, Record]]
"""Units of work, each with its result."""

HOLDS, ONLY_WHEN, FAILS = "holds", "holds only when", "does not hold"

NAMES = ("fig1", "fig2", "fig3", "fig4", "table1", "theorems", "propositions", "beyond")
"""The experiments in the order in which they run and are shown; each is a module beside this one."""

CLAIMS = {
    "C1": "fig1",
    "C2": "fig1",
    "C3": "fig2",
    "C4": "fig3",
    "C5": "fig4",
    "C6": "theorems",
    "C7": "theorems",
    "C8": "theorems",
    "C9": "propositions",
    "C10": "propositions",
}
"""The paper's claims, and the experiment that judges each."""

DIGITS = 12
"""Significant digits that are kept: more would differ between machines for no reason that matters."""


@dataclass(frozen=True)
class Verdict:
    """What became of one of the paper's claims.

    claim is its number (`C1`), source where the paper makes it, says what it says; measured what came out,
    with 95 % intervals over seeds; verdict is `holds`, `holds only when` or `does not hold`; when says
    under which settings that changes.
    """

    claim: str
    source: str
    says: str
    measured: str
    verdict: str
    when: str


@dataclass(frozen=True, eq=False)
class Analysis:
    """What an experiment found.

    numbers are all of its results as plain values; tables are the data behind its figures; verdicts judge
    the claims it speaks to.
    """

    numbers: Record
    tables: dict[str, Columns] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """One experiment: its settings as data, and three functions.

    `units(setting)` lists independent pieces of work, each a record that says all that `run` needs to know;
    `run(unit)` does one of them, in any process and any order, and gives a record; `analyse(setting, results)`
    sees every (unit, result) pair in the order of `units`.
    """

    name: str
    title: str
    quick: Any
    full: Any
    units: Callable[[Any], list[Record]]
    run: Callable[[Record], Record]
    analyse: Callable[[Any, Pairs], Analysis]

    def setting(self, *, quick: bool, seeds: int | None = None) -> Any:
        """The quick or the full setting, with another number of seeds if given."""
        chosen = self.quick if quick else self.full
        return chosen if seeds is None else replace(chosen, seeds=tuple(range(seeds)))


def load(name: str) -> Experiment:
    """The experiment of this name, imported when it is asked for."""
    if name not in NAMES:
        raise SettingError(
            f"no experiment is called {name!r}; there are {', '.join(NAMES)}, and all of them: all"
        )
    experiment: Experiment = importlib.import_module(f"research.paper.{name}").EXPERIMENT
    return experiment


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments named, `all` meaning every one, each once and in the order of `NAMES`."""
    wanted = (set(names) - {"all"}) | (set(NAMES) if "all" in names else set())
    loaded = {name: load(name) for name in sorted(wanted)}
    return [loaded[name] for name in NAMES if name in loaded]


def settled(value: Any) -> Any:
    """Plain values: NumPy's numbers and tuples unwrapped, 12 digits, NaN as null, infinity as "inf"."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): settled(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [settled(inner) for inner in value]
    if isinstance(value, float):
        return _settled_number(value)
    return value


def _settled_number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def text(value: Any) -> str:
    """Settled values as JSON for people to read."""
    return json.dumps(settled(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def digest(value: Any) -> str:
    """The SHA-256 of plain values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
