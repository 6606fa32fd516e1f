"""What an experiment is: units of work that run apart, and an analysis of them all together."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

Record = dict[str, Any]
"""Plain values, as JSON has them: numbers, text, lists, and names for them."""

HOLDS, ONLY_WHEN, FAILS = "holds", "holds only when", "does not hold"


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

    numbers are all of its results as plain values; tables are the data behind its figures, each a mapping
    of column names to equally long lists; verdicts judge the claims it speaks to.
    """

    numbers: Record
    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
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
    analyse: Callable[[Any, Sequence[tuple[Record, Record]]], Analysis]

    def setting(self, *, quick: bool, seeds: int | None = None) -> Any:
        """The quick or the full setting, with another number of seeds if given."""
        chosen = self.quick if quick else self.full
        return chosen if seeds is None else replace(chosen, seeds=tuple(range(seeds)))


def plain(setting: Any) -> Record:
    """A setting as plain values."""
    return asdict(setting)
