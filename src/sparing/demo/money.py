"""The desk goes live: what each learner has reviewed, what it pays for that, earns and nets, in euros."""

import csv
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparing import archive, settings
from sparing.auditing import Audit, audit
from sparing.demo import desk
from sparing.log import Log
from sparing.log.formats import read_log
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.simulation.simulate import Progress, play

TRUTH = "the truth itself"
ALONE = "the log alone"
COLD = "LinUCB, cold"
WARM = "warm-started"
CONFIDENT = "confident"
ECONOMICAL = "economical"
ORDER = (ALONE, COLD, WARM, CONFIDENT, ECONOMICAL, TRUTH)

FEW = 1500
"""Rounds in which everything is compiled: with 1 % spot checks, some occur. `warm_up` compiles more than they need."""


@dataclass(frozen=True)
class DeskSetting:
    """How large the log is, how many tickets come live, what a review costs, and the learners' settings.

    economical is told the price and the number of tickets, confident (unless a tolerance is given) nothing. alpha and
    radius_scale suited LinUCB and warm-started best, of three each, on other seeds (100 to 103).
    """

    rows: int = 2000
    rounds: int = 3000
    call_cost: float = desk.REVIEW
    tolerance: float | None = None
    alpha: float = 1.0
    radius_scale: float = 0.2
    seeds: tuple[int, ...] = tuple(range(10))

    def learners(self, log: Log, seed: int) -> dict[str, Learner]:
        """Each learner at its start, by the name it is shown under."""
        size: Any = {"actions": log.action_names, "n_features": log.n_features}
        priced: Any = {"call_cost": self.call_cost, "horizon": self.rounds}
        return {
            COLD: algorithms.linucb(**size, alpha=self.alpha, seed=seed),
            WARM: algorithms.warm_started(log, radius_scale=self.radius_scale, seed=seed),
            CONFIDENT: algorithms.confident(log, tolerance=self.tolerance, seed=seed),
            ECONOMICAL: algorithms.economical(log, **priced, seed=seed),
        }


@dataclass(frozen=True, eq=False)
class Begun:
    """The first seed's log, as a table (columns of n cells) and as it is read, and what an audit says of it."""

    setting: DeskSetting
    table: Mapping[str, list[Any]]
    log: Log
    audit: Audit


@dataclass(frozen=True, eq=False)
class Run:
    """One learner on one stream of T tickets: expected earnings (T,), whether each was reviewed (T,), who answered (T,)."""

    earned: NDArray[np.float64]
    reviewed: NDArray[np.bool_]
    actions: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """One learner over S seeds; money is in euros, and what was earned is its expectation under the truth."""

    name: str
    price: float
    runs: tuple[Run, ...]

    @property
    def reviews(self) -> NDArray[np.int64]:
        """Answers that were reviewed, (S,)."""
        return np.array([run.reviewed.sum() for run in self.runs])

    @property
    def paid(self) -> NDArray[np.float64]:
        """What the reviews cost, (S,)."""
        return self.price * self.reviews.astype(np.float64)

    @property
    def earned(self) -> NDArray[np.float64]:
        """What the answers earned, (S,)."""
        return np.array([run.earned.sum() for run in self.runs])

    @property
    def net(self) -> NDArray[np.float64]:
        """What is left, (S,)."""
        return self.earned - self.paid

    @property
    def over_time(self) -> NDArray[np.float64]:
        """What is left after each ticket, (S, T)."""
        return np.array([(run.earned - self.price * run.reviewed).cumsum() for run in self.runs])

    @property
    def reviewed_of(self) -> NDArray[np.int64]:
        """Reviews by who answered, (S, K)."""
        size = len(desk.HANDLERS)
        return np.array([np.bincount(run.actions[run.reviewed], minlength=size) for run in self.runs])

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain values, a number a seed."""
        numbers = {name: getattr(self, name).tolist() for name in ("reviews", "paid", "earned", "net")}
        reviewed = dict(zip(desk.HANDLERS, self.reviewed_of.T.tolist(), strict=True))
        return {"name": self.name, **numbers, "reviewed_of": reviewed}


@dataclass(frozen=True, eq=False)
class DeskResult:
    """Everything the demonstration shows."""

    begun: Begun
    outcomes: tuple[Outcome, ...]

    @property
    def setting(self) -> DeskSetting:
        """What it was run with."""
        return self.begun.setting

    def __getitem__(self, name: str) -> Outcome:
        return next(outcome for outcome in self.outcomes if outcome.name == name)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, the curves left out."""
        return {
            "setting": asdict(self.setting),
            "truth": desk.TRUTH,
            "never_tried": list(self.begun.audit.never_logged),
            "audit": self.begun.audit.to_dict(),
            "learners": [outcome.to_dict() for outcome in self.outcomes],
        }


def first_table(setting: DeskSetting) -> dict[str, list[Any]]:
    """The first seed's log as a table."""
    settings.number("call_cost", setting.call_cost, least=0)
    if setting.tolerance is not None:
        settings.number("tolerance", setting.tolerance, least=0)
    return _table(setting, setting.seeds[0])


def begin(setting: DeskSetting, table: Mapping[str, list[Any]]) -> Begun:
    """Read the table and look it over; what has to be compiled is compiled here, in a few rounds that do not count."""
    log = _read(table)
    for learner in setting.learners(log, seed=0).values():
        play(learner, _stream(setting, log, seed=0, rounds=FEW))
    return Begun(setting, table, log, audit(log))


def go_live(begun: Begun, *, progress: Progress | None = None) -> DeskResult:
    """Let each learner meet the same tickets with the same luck, and so for every seed."""
    setting = begun.setting
    runs: dict[str, list[Run]] = {name: [] for name in ORDER}
    for number, seed in enumerate(setting.seeds):
        log = _read(_table(setting, seed)) if number else begun.log
        stream, learners = _stream(setting, log, seed, setting.rounds), setting.learners(log, seed)
        known = learners[ECONOMICAL].policy().indices(stream.contexts)  # before it has asked for anything
        unasked = np.zeros(len(stream), dtype=np.bool_)
        played = {ALONE: (known, unasked), TRUTH: (stream.means.argmax(axis=1), unasked)}
        for done, (name, learner) in enumerate(learners.items(), start=number * len(learners) + 1):
            trace = play(learner, stream)
            played[name] = trace.actions, trace.needs_reward
            if progress is not None:
                progress(done, len(setting.seeds) * len(learners))
        for name, (actions, reviewed) in played.items():
            earned = stream.means[np.arange(len(stream)), actions]
            runs[name].append(Run(earned, reviewed, actions))
    return DeskResult(begun, tuple(Outcome(name, setting.call_cost, tuple(runs[name])) for name in ORDER))


def write_table(table: Mapping[str, list[Any]], path: str | os.PathLike[str]) -> None:
    """Write a table as CSV, what is missing as nothing; whole or not at all."""
    with archive.replacing(path) as part, Path(part).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def _table(setting: DeskSetting, seed: int) -> dict[str, list[Any]]:
    return desk.logged(setting.rows, np.random.default_rng([seed, 1]))


def _read(table: Mapping[str, list[Any]]) -> Log:
    return read_log(table, action=desk.ACTION, reward=desk.REWARD, actions=desk.HANDLERS)


def _stream(setting: DeskSetting, log: Log, seed: int, rounds: int) -> desk.TicketStream:
    drawn = desk.tickets(rounds, np.random.default_rng([seed, 2]), first=setting.rows)
    return desk.live(drawn, log.encoder.encode_table(drawn.columns), np.random.default_rng([seed, 3]))
