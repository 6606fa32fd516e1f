"""The passes over a log of several blocks: first what its rows are on average, then how far they are from that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparing.errors import SparingError
from sparing.evaluation.block import Block, Shared
from sparing.evaluation.estimators import ESTIMATORS, Parts
from sparing.evaluation.intervals import BLOCKS, Terms, poisson
from sparing.log import Log
from sparing.log.moments import Powers
from sparing.log.sampling import row_keys
from sparing.log.walking import Statistic
from sparing.policies.policy import Policy


def terms_of(parts: Parts) -> Iterator[tuple[str, Terms]]:
    """An estimator's statistics by name."""
    yield "plain", parts.plain
    if parts.low is not None and parts.high is not None:
        yield from (("low", parts.low), ("high", parts.high))
    if parts.ends is not None:
        yield from zip(("least", "most"), parts.ends, strict=True)
    if parts.check is not None:
        yield from ((f"check {name}", terms) for name, terms in terms_of(parts.check))


def columns_of(terms: Terms) -> Iterator[tuple[str, np.ndarray]]:
    """The rows of a statistic by name, (n,) each."""
    yield "base", terms.base
    if terms.numerator is not None and terms.denominator is not None:
        yield from (("numerator", terms.numerator), ("denominator", terms.denominator))


def rows_of(parts: Parts) -> Iterator[tuple[str, np.ndarray]]:
    """An estimator's other rows by name, (n,) each."""
    for name in ("missing", "clipped", "weights", "whole", "lack"):
        rows = getattr(parts, name)
        if rows is not None:
            yield name, rows
    if parts.whole is not None and parts.missing is not None:
        yield "whole lack", 1 - parts.missing - parts.whole
    if parts.check is not None:
        yield from ((f"check {name}", rows) for name, rows in rows_of(parts.check))


def without_rows(parts: Parts) -> Parts:
    """All but the rows."""
    none = np.empty(0)

    def bare(terms: Terms | None) -> Any:
        if terms is None:
            return None
        ratio = terms.numerator is not None
        return replace(
            terms, base=none, numerator=none if ratio else None, denominator=none if ratio else None
        )

    own = rows_of(replace(parts, check=None))
    emptied: dict[str, Any] = {name: none for name, _ in own if name != "whole lack"}
    return replace(
        parts,
        **emptied,
        plain=bare(parts.plain),
        low=bare(parts.low),
        high=bare(parts.high),
        ends=None if parts.ends is None else (bare(parts.ends[0]), bare(parts.ends[1])),
        check=None if parts.check is None else without_rows(parts.check),
    )


@dataclass(frozen=True, eq=False)
class Level:
    """An estimator without its rows, and the sums of what those are, by name."""

    parts: Parts
    powers: dict[str, Powers]

    def __add__(self, other: "Level") -> "Level":
        return Level(self.parts, {name: known + other.powers[name] for name, known in self.powers.items()})


Levels = dict[str, "Level | SparingError"]
"""By method; the first error, where it cannot be used."""


class LevelsGathered(Statistic[Log, Levels]):
    """Sums every estimator's rows."""

    def __init__(self, policy: Policy, shared: Shared, methods: Sequence[str]) -> None:
        self.policy, self.shared, self.methods = policy, shared, tuple(methods)

    def zero(self) -> Levels:
        """No rows."""
        return {}

    def update(self, state: Levels, block: Log, first_row: int) -> Levels:
        """The block's rows too."""
        of, found = Block(block, self.policy, self.shared, first_row), Levels()
        for method in self.methods:
            if isinstance(state.get(method), SparingError):
                continue
            try:
                parts = ESTIMATORS[method](of)
            except SparingError as error:
                found[method] = error
            else:
                found[method] = _level(parts)
        of.let_go()
        return self.merge(state, found)

    def merge(self, one: Levels, other: Levels) -> Levels:
        """Those of both."""
        both = Levels()
        for method in self.methods:
            known = [state[method] for state in (one, other) if method in state]
            error = next((each for each in known if isinstance(each, SparingError)), None)
            levels = [each for each in known if isinstance(each, Level)]
            if error is not None:
                both[method] = error
            elif levels:
                both[method] = levels[0] if len(levels) == 1 else levels[0] + levels[1]
        return both


def _level(parts: Parts) -> Level:
    seen: dict[int, Powers] = {}  # many statistics have rows in common

    def powers(rows: np.ndarray) -> Powers:
        if id(rows) not in seen:
            seen[id(rows)] = Powers.of(rows)
        return seen[id(rows)]

    own = [(name, rows) for name, rows in rows_of(parts)]
    own += [
        (f"{name} {column}", rows) for name, terms in terms_of(parts) for column, rows in columns_of(terms)
    ]
    return Level(without_rows(parts), {name: powers(rows) for name, rows in own})


@dataclass(frozen=True)
class Centre:
    """What a statistic's rows are on average: its value, the ratio in it and the mean of its denominator."""

    value: float
    ratio: float
    denominator: float

    @classmethod
    def of(cls, name: str, terms: Terms, powers: dict[str, Powers]) -> "Centre":
        """That of a statistic without rows, by its sums."""
        base, ratio, below = powers[f"{name} base"].mean, 0.0, 0.0
        if terms.numerator is not None:
            below = powers[f"{name} denominator"].mean
            ratio = powers[f"{name} numerator"].mean / below if below > 0 else float("nan")
        return cls(base + terms.factor * ratio, ratio, below)

    def deviations(self, terms: Terms) -> np.ndarray:
        """How far each row is from the value, to first order, (n,)."""
        if terms.numerator is None or terms.denominator is None:
            return terms.base - self.value
        slope = (terms.numerator - self.ratio * terms.denominator) / self.denominator
        return terms.base + terms.factor * (self.ratio + slope) - self.value


@dataclass(frozen=True, eq=False)
class Spread:
    """Powers of deviations, by method and name; and the sums of every column in each resample, or in each block of the bootstrap.

    sums (C, RESAMPLES or BLOCKS), taken (RESAMPLES or BLOCKS,): how many rows are in it.
    """

    powers: dict[tuple[str, str], Powers]
    sums: np.ndarray
    taken: np.ndarray


class SpreadGathered(Statistic[Log, Spread]):
    """Sums how far every estimator's rows are from its `centres`, by method and name; and resamples them for a bootstrap.

    Luck is of the seed and the rows' numbers: blocks of the bootstrap are drawn for each row, resamples for each block of the log.
    """

    def __init__(
        self,
        policy: Policy,
        shared: Shared,
        centres: dict[str, dict[str, Centre]],
        lacks: dict[str, dict[str, float]],
        interval: str,
    ) -> None:
        self.policy, self.shared, self.centres, self.lacks = policy, shared, centres, lacks
        self.interval = interval

    def zero(self) -> Spread:
        """No rows."""
        return Spread({}, np.empty((0, 0)), np.empty(0))

    def update(self, state: Spread, block: Log, first_row: int) -> Spread:
        """The block's rows too."""
        of, powers, columns = Block(block, self.policy, self.shared, first_row), {}, []
        for method, centres in self.centres.items():
            parts = ESTIMATORS[method](of)
            rows = dict(rows_of(parts))
            for name, terms in terms_of(parts):
                powers[method, name] = Powers.of(centres[name].deviations(terms))
                if "bootstrap" in self.interval:
                    columns += [values for _, values in columns_of(terms)]
            for name, mean in self.lacks[method].items():
                powers[method, name] = Powers.of(rows[name] - mean)
        of.let_go()
        return self.merge(state, Spread(powers, *self._sums(columns, block.n_rows, first_row)))

    def merge(self, one: Spread, other: Spread) -> Spread:
        """Those of both."""
        if not one.powers or not other.powers:
            return other if not one.powers else one
        powers = {name: known + other.powers[name] for name, known in one.powers.items()}
        return Spread(powers, one.sums + other.sums, one.taken + other.taken)

    def _sums(self, columns: list[np.ndarray], rows: int, first_row: int) -> tuple[np.ndarray, np.ndarray]:
        """The columns' sums in each resample, or in each block of the bootstrap, and how many rows are in it."""
        if not columns:
            return np.empty((0, 0)), np.empty(0)
        kept, places = _told_apart(columns)
        if self.interval == "bootstrap":
            sums, taken = poisson(
                np.array(kept), np.random.default_rng([self.shared.given.seed, 22, first_row])
            )
            return sums[places], taken
        salt = row_keys(np.array([self.shared.given.seed]))
        numbers = row_keys(np.arange(first_row, first_row + rows))
        block_of_row = (row_keys(numbers ^ salt) % np.uint64(BLOCKS)).astype(np.int64)
        sums = np.array([np.bincount(block_of_row, values, BLOCKS) for values in kept])
        return sums[places], np.bincount(block_of_row, minlength=BLOCKS).astype(float)


def _told_apart(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """The columns that differ, and which of them each column is."""
    kept: list[np.ndarray] = []
    places = []
    for values in columns:
        for place, known in enumerate(kept):
            if known is values or (known[0] == values[0] and np.array_equal(known, values)):
                places.append(place)
                break
        else:
            places.append(len(kept))
            kept.append(values)
    return kept, places
