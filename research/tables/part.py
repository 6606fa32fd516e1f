"""What a table of the docs is: runs over seeds, what is averaged, and how the page tells it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from research.pages import put_between
from research.paper.experiment import Analysis, Experiment, Pairs, Record, settled
from research.paper.frame import Frame
from research.paper.running import libraries

END = "<!-- end of numbers -->"


@dataclass(frozen=True)
class Part:
    """One table: the page it stands on, its settings, its work, and its words.

    `units(setting)` are pieces of work that run apart, a seed each; `run(unit)` gives a record of `rows`. Those that agree `by`
    these names are averaged over the seeds, each of the numbers `of` which with its standard error; `tell` makes lines of that.
    """

    name: str
    page: str
    quick: Any
    full: Any
    units: Callable[[Any], list[Record]]
    run: Callable[[Record], Record]
    by: tuple[str, ...]
    of: tuple[str, ...]
    tell: Callable[[Frame], Iterator[str]]

    @property
    def experiment(self) -> Experiment:
        """As it is run."""
        return Experiment(self.name, self.name, self.quick, self.full, self.units, self.run, self._analyse)

    def _analyse(self, setting: Any, pairs: Pairs) -> Analysis:
        return Analysis({"setting": asdict(setting), "rows": gathered(pairs, self.by, self.of)})

    def record(self, setting: Any, pairs: Pairs) -> Record:
        """Every run's numbers, as plain values."""
        found: Record = settled(self._analyse(setting, pairs).numbers)
        return {"command": f"python -m research tables {self.name}", "libraries": libraries(), **found}

    def markdown(self, found: Record) -> str:
        """The table."""
        return "\n".join(self.tell(Frame(averages(row, self.of) for row in found["rows"])))

    def put_into(self, page: str, found: Record) -> str:
        """The page with its table renewed."""
        begin = f"<!-- numbers: written by `python -m research tables {self.name}`, not by hand -->"
        return put_between(page, begin, END, self.markdown(found))


def gathered(pairs: Pairs, by: Sequence[str], of: Sequence[str]) -> list[Record]:
    """A row for all runs that agree: their seeds, and for each number a list of what they found."""
    runs = Frame({**unit, **row} for unit, result in pairs for row in result["rows"])
    return [
        {**dict(zip(by, key, strict=True)), **{name: group[name] for name in ("seed", *of)}}
        for key, group in runs.by(*by).items()
    ]


def averages(row: Record, of: Sequence[str]) -> Record:
    """Means over the runs, their standard errors as `name_se`, and how many `runs` there were.

    What a run does not have (None) is left out, `name_of` says how many have it; where all lack it, the mean is NaN.
    """
    found = {**row, "runs": len(row["seed"])}
    for name in of:
        known = np.array([value for value in row[name] if value is not None], dtype=float)
        found[f"{name}_of"] = len(known)
        found[name] = known.mean() if len(known) else np.nan
        found[f"{name}_se"] = known.std(ddof=1) / len(known) ** 0.5 if len(known) > 1 else np.nan
    return found


def text(found: Record) -> str:
    """A record as JSON, a row a line."""
    rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in found["rows"])
    rest = {name: value for name, value in found.items() if name != "rows"}
    head = json.dumps(rest, indent=1, ensure_ascii=False)[1:-2]
    return f'{{{head},\n "rows": [\n{rows}\n ]\n}}\n'


def table(*heads: str) -> Iterator[str]:
    """The head of a table."""
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)


def line(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def give(row: Record, name: str, digits: int = 0, *, percent: bool = False) -> str:
    """A mean and its standard error; a percentage if it is a share."""
    if np.isnan(row[name]):
        return "–"
    times, unit = (100, " %") if percent else (1, "")
    error = row[f"{name}_se"]
    doubt = "" if np.isnan(error) else f" ± {times * error:,.{digits}f}"
    return f"{times * row[name]:,.{digits}f}{doubt}{unit}".replace(" ", "\u00a0")  # on one line
