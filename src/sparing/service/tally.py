"""Totals as arrays: decisions and rewards by hour, and by reason, arm and whether their reward was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparing.service import events
from sparing.service.overview import Hour, Reasons
from sparing.service.store.sql import Total

MOST_STEPS = 96
"""Steps of time that a history is shown in, at most."""

STEPS = (1, 2, 3, 6, 12, 24, 48, 96, 168)
"""Hours that a step may have; beyond them whole weeks."""

HOUR = events.HOUR // events.SECOND

Group = tuple[str, str, bool]
"""A reason, an arm, and whether the reward was asked for."""


@dataclass(frozen=True, eq=False)
class Tally:
    """A row an hour and group: hours (n,), group (n,) as numbers of `groups`, and numbers (n, 4): decisions, rewards, Σr, Σr²."""

    hours: np.ndarray
    group: np.ndarray
    numbers: np.ndarray
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, totals: Sequence[Total]) -> "Tally":
        """The store's totals."""
        known: dict[tuple[str, str, int], int] = {}
        group = [known.setdefault((reason, arm, asked), len(known)) for _, reason, arm, asked, *_ in totals]
        return cls(
            np.array([total[0] for total in totals], dtype=np.int64),
            np.array(group, dtype=np.int64),
            np.array([total[4:] for total in totals], dtype=np.float64).reshape(len(totals), 4),
            tuple((reason, arm, bool(asked)) for reason, arm, asked in known),
        )

    def added(self, place: np.ndarray, places: int) -> np.ndarray:
        """The numbers of the rows at each place, (places, 4); rows at a place below 0 are left out."""
        kept = place >= 0
        return np.stack(
            [np.bincount(place[kept], column[kept], minlength=places) for column in self.numbers.T], axis=1
        )

    def reasons(self) -> list[Reasons]:
        """Decisions of each group, most first."""
        sums = self.added(self.group, len(self.groups)).tolist()
        found = [
            Reasons(*group, int(decisions), int(rewarded), total / rewarded if rewarded else None)
            for group, (decisions, rewarded, total, _) in zip(self.groups, sums, strict=True)
        ]
        return sorted(found, key=lambda one: (-one.decisions, one.reason, one.arm, one.asked))

    def calls_since(self, hour: int) -> int:
        """Rewards that were asked for in decisions of an hour and later ones."""
        asked = np.array([asked for *_, asked in self.groups], dtype=bool)
        return int(self.numbers[asked[self.group] & (self.hours >= hour), 0].sum()) if len(self.hours) else 0


@dataclass(frozen=True)
class Steps:
    """Steps of equal length that a history falls into: hours of a step, the first hour, and how many there are."""

    hours: int
    first: int
    count: int

    @classmethod
    def of(cls, tally: Tally, now: int) -> "Steps":
        """As fine as `MOST_STEPS` allow, from the first decision to now (µs)."""
        if not len(tally.hours):
            return cls(1, 0, 0)
        begin, end = int(tally.hours.min()), max(now // events.HOUR, int(tally.hours.max()))
        weeks = -(-(end - begin + 1) // (STEPS[-1] * (MOST_STEPS - 1)))
        for hours in (*STEPS, STEPS[-1] * max(weeks, 1)):
            first = begin // hours * hours
            count = (end - first) // hours + 1
            if count <= MOST_STEPS:
                break
        return cls(hours, first, count)

    @property
    def seconds(self) -> int:
        """Seconds of a step."""
        return self.hours * HOUR

    def place(self, hours: np.ndarray) -> np.ndarray:
        """The step that each hour falls into."""
        return (hours - self.first) // self.hours

    def ends(self, now: int) -> list[int]:
        """When each step ends, in seconds; the last one now (µs), if that is earlier."""
        ends = [(self.first + (i + 1) * self.hours) * HOUR for i in range(self.count)]
        return [min(end, max(now // events.SECOND, end - self.seconds)) for end in ends]

    def by_reason(self, tally: Tally) -> list[Hour]:
        """Decisions of each step by reason; a step without any is there too."""
        counted: list[dict[str, int]] = [{} for _ in range(self.count)]
        cells = self.place(tally.hours) * len(tally.groups) + tally.group
        found = np.bincount(cells, tally.numbers[:, 0], minlength=self.count * len(tally.groups))
        for cell in np.flatnonzero(found).tolist():
            step, group = divmod(cell, len(tally.groups))
            reason = tally.groups[group][0]
            counted[step][reason] = counted[step].get(reason, 0) + int(found[cell])
        return [Hour((self.first + i * self.hours) * HOUR, one) for i, one in enumerate(counted)]
