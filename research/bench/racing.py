"""Runs contenders in turn, round after round, so that all meet the same machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from research.bench.field import Field
from research.bench.measuring import Failure, Measurement, Outcome
from research.bench.older import OLDER, older_title
from research.children import Child, ContenderError

MOST = 20_000
"""Repetitions that a round has at most."""

OURS = ("ours", "public")
"""Children whose contenders the older release has too."""


@dataclass(frozen=True)
class Entry:
    """A contender in a race: whose child serves it, its name there, what to call it, and what it gets.

    `most` bounds the repetitions in a round; `patience` its CPU seconds, roughly.
    """

    child: str
    name: str
    title: str
    regime: str
    spec: dict[str, Any]
    patience: float = 0.15
    most: int = MOST


@dataclass
class _Runner:
    entry: Entry
    handle: int = -1
    count: int = 1
    rounds: list[float] = field(default_factory=list)
    failure: str = ""
    tried: list[int] = field(default_factory=list)
    twin: "_Runner | None" = None


def race(arena: Field, entries: Sequence[Entry], *, part: str, size: str, unit: str, rounds: int) -> Outcome:
    """Prepare all, then let each run once in every round; who fails is reported and left out."""
    arena.say(f"{part}, {size}: {', '.join(entry.title for entry in entries)}; {rounds} rounds")
    runners = [runner for entry in entries for runner in _runners(arena, entry)]
    for runner in runners:
        _attempt(arena, runner, runners, _prepare)
    for _ in range(rounds):
        for runner in runners:
            _attempt(arena, runner, runners, _run)
    for runner in runners:
        _attempt(arena, runner, runners, _drop)
    measured = [
        Measurement(part, size, r.entry.title, r.entry.regime, unit, r.count, tuple(r.rounds))
        for r in runners
        if not r.failure
    ]
    failed = [Failure(part, f"{r.entry.title}, {size}", r.failure) for r in runners if r.failure]
    return Outcome(tuple(measured), (), tuple(failed))


def _runners(arena: Field, entry: Entry) -> list[_Runner]:
    """The contender and, where there is one, the older release's, which does as much as it."""
    mine = _Runner(entry)
    if arena.older is None or entry.child not in OURS:
        return [mine]
    other = replace(entry, child=f"{OLDER} {entry.child}", title=older_title(entry.title))
    return [mine, _Runner(other, twin=mine)]


def _attempt(
    arena: Field, runner: _Runner, runners: Sequence[_Runner], action: Callable[[Child, _Runner], None]
) -> None:
    """Do something with a contender that has not failed yet; a child that dies takes its others along."""
    if runner.failure:
        return
    try:
        action(arena.child(runner.entry.child), runner)
    except ContenderError as error:
        runner.failure = str(error)
        if arena.died(runner.entry.child):
            arena.forget(runner.entry.child)
            for other in runners:
                if other.entry.child == runner.entry.child and other.handle >= 0 and not other.failure:
                    other.failure = f"it ended with {runner.entry.title}: {error}"


def _prepare(child: Child, runner: _Runner) -> None:
    """Make it, and find how many repetitions fill its patience by trying 1, 30, 900, …"""
    entry = runner.entry
    runner.handle = int(child.ask(do="make", contender=entry.name, spec=entry.spec)["handle"])
    if runner.twin is not None:  # the state depends on the steps done so far
        for count in runner.twin.tried:
            _timed(child, runner, count)
        runner.count = runner.twin.count
        return
    count = 1
    while True:
        runner.tried.append(count)
        taken = _timed(child, runner, count)
        if count >= entry.most or taken >= entry.patience / 30:
            break
        count = min(30 * count, entry.most)
    fitting = int(entry.patience * count / max(taken, 1e-9))
    runner.count = max(1, min(fitting, entry.most))


def _run(child: Child, runner: _Runner) -> None:
    runner.rounds.append(_timed(child, runner, runner.count) / runner.count)


def _timed(child: Child, runner: _Runner, count: int) -> float:
    return float(child.ask(do="run", handle=runner.handle, count=count)["cpu_seconds"])


def _drop(child: Child, runner: _Runner) -> None:
    child.ask(do="drop", handle=runner.handle)
