"""How far an evaluation has come."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Steps:
    """Tells a caller's function how many of all steps are done: methods, folds of fitted propensities, passes over a long log."""

    report: Callable[[int, int], None] | None
    total: int
    done: int = 0

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self.report is not None:
            self.report(min(self.done, self.total), self.total)

    def fold(self, done: int, folds: int) -> None:
        """One more fold is fitted."""
        self.step()
