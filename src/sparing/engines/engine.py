"""Work on the parts of a log, wherever it is done: on threads, on processes, on a cluster; the same bits everywhere.

What is computed of the parts is joined along a tree whose shape follows from their number alone: neighbours, then
neighbours of those. No engine, and no number of workers, changes the order in which anything is added.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
State = TypeVar("State")

Progress = Callable[[int, int], None]
"""Told how many of all parts are done."""


@dataclass
class ProgressCounter:
    """Calls a function with the number of steps that are done and of all steps."""

    report: Progress | None = None
    total: int = 1
    done: int = 0

    def step(self) -> None:
        """Count one more step."""
        self.done += 1
        if self.report is not None:
            self.report(min(self.done, self.total), self.total)

    def finish(self) -> None:
        """Report that all steps are done, where some were not needed."""
        if self.report is not None and self.done < self.total:
            self.report(self.total, self.total)
        self.done = self.total


class Tree(Generic[State]):
    """Joins states that come one after the other: each with its neighbour as soon as both are there."""

    def __init__(self, merge: Callable[[State, State], State]) -> None:
        self._merge = merge
        self._waiting: list[tuple[int, State]] = []

    def add(self, state: State) -> None:
        """Take the next state; it is joined with what it completes."""
        level = 0
        while self._waiting and self._waiting[-1][0] == level:
            state = self._merge(self._waiting.pop()[1], state)
            level += 1
        self._waiting.append((level, state))

    def total(self) -> State:
        """All states as one."""
        (_, state), *others = reversed(self._waiting)
        for _, before in others:
            state = self._merge(before, state)
        return state


class Engine(ABC):
    """Where work is done, by how many workers."""

    name: str

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many work at once."""

    @property
    def threads(self) -> int | None:
        """How many threads of this process what is done here may take; None: one a core."""
        return self.workers

    @property
    def alone(self) -> bool:
        """Whether the caller's own thread does all work, one item after the other: nothing is gained by cutting it."""
        return False

    @abstractmethod
    def results(self, work: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        """What the work makes of each item, in their order; few are kept before they are asked for."""

    def map(
        self, work: Callable[[Item], Any], items: Sequence[Item], *, progress: Progress | None = None
    ) -> list[Any]:
        """What the work makes of every item, in their order."""
        return list(reported(self.results(work, items), len(items), progress))

    def fold(
        self,
        work: Callable[[Item], State],
        items: Sequence[Item],
        merge: Callable[[State, State], State],
        *,
        progress: Progress | None = None,
    ) -> State:
        """What the work makes of every item, joined by `merge`, which changes neither of its two arguments."""
        tree: Tree[State] = Tree(merge)
        for state in reported(self.results(work, items), len(items), progress):
            tree.add(state)
        return tree.total()

    def __repr__(self) -> str:
        return f"{self.name} engine ({self.workers} worker{'s' if self.workers > 1 else ''})"


def reported(results: Iterator[Any], total: int, progress: Progress | None) -> Iterator[Any]:
    """The results as they come, each told."""
    for done, result in enumerate(results, start=1):
        if progress is not None:
            progress(done, total)
        yield result
