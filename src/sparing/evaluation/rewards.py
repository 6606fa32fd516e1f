"""The rewards of a log, and the range that mean rewards are taken to lie in."""

from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.rows import AnyLog
from sparing.log.walking import Total
from sparing.settings import reward_range as known_range


@dataclass(frozen=True)
class Rewards:
    """The least and the largest reward seen, and whether all are 0 or 1, so that no mean reward lies outside."""

    low: float = np.inf
    high: float = -np.inf
    binary: bool = True

    @classmethod
    def of(cls, log: Log) -> "Rewards":
        """Those of a log with rows."""
        return cls(float(log.rewards.min()), float(log.rewards.max()), log.binary)

    def __add__(self, other: "Rewards") -> "Rewards":
        return Rewards(min(self.low, other.low), max(self.high, other.high), self.binary and other.binary)

    def bounds(self, given: tuple[float, float] | None, interval: str) -> tuple[float, float]:
        """Bounds on mean rewards: as given, 0 and 1 where no other rewards occur, else the range seen."""
        low, high = known_range(given) or ((0.0, 1.0) if self.binary else (self.low, self.high))
        if interval == "bernstein" and (self.low < low or self.high > high):
            raise SettingError(
                f"interval='bernstein' needs every reward inside reward_range={given}; the log has "
                f"{self.low:.4g} to {self.high:.4g}"
            )
        return low, high


def _seen(block: Log, first_row: int) -> Rewards:
    return Rewards.of(block)


SEEN = Total(_seen)
"""Gathers `Rewards`."""


def rewards_of(log: AnyLog) -> Rewards:
    """Those of a log, in memory or walked."""
    return Rewards.of(log) if isinstance(log, Log) else log.narrowed().fold(SEEN)
