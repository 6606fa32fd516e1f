"""A simulated support desk with known rewards: who answers a ticket, what the answer earns, what a review costs.

Tickets are answered by a template, one of three language models or an agent. A solved ticket saves a phone call. Whether
an answer solved it is known only if a person reads it over, which costs money: that is the reward call. The log is last
quarter's, when every answer was read over; agents were kept for premium customers, and the newest model was not there.
"""

import csv
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparing import archive, validation
from sparing.auditing import Audit, audit
from sparing.engines import Progress, ProgressCounter
from sparing.log import Log
from sparing.log.formats import read_log
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.simulation.simulate import play
from sparing.simulation.worlds import Stream

ACTION, REWARD = "handler", "saved"

SOLVED = 8.00  # value of a solved ticket in euros: a phone call saved
REVIEW = 0.80  # cost of reviewing an answer in euros
# Handlers and the known cost of an answer in euros.
PRICES = {"template": 0.02, "small-llm": 0.05, "large-llm": 0.40, "agent": 4.00, "new-llm": 0.25}

HANDLERS = tuple(PRICES)
NEW = "new-llm"

TOPICS = ("login", "delivery", "billing", "refund", "fault")
COUNTRIES = ("DE", "FR", "NL", "PL", "UK")
CHANNELS = ("email", "chat", "app")

# Log-odds that an answer solves a ticket, by handler and topic; customer and hour are added.
SKILLS = np.array(
    [
        [1.2, 0.4, -0.8, -1.4, -2.2],  # template
        [1.0, 0.8, 0.2, -0.4, -1.0],  # small-llm
        [1.2, 1.0, 0.9, 0.3, 0.2],  # large-llm
        [2.2, 2.0, 2.0, 1.9, 1.6],  # agent
        [1.1, 0.9, 0.5, 1.1, 1.3],  # new-llm
    ]
)

TRUTH_TEXT = (
    "an answer solves a ticket with a logistic probability of who answers × topic, lower for guests, for templates sent to old "
    "customers, for new-llm in Poland, for agents at night, and for faults reported by chat unless an agent answers. An answer "
    f"costs {', '.join(f'{price:.2f} ({name})' for name, price in PRICES.items())} EUR."
)

START = datetime(2026, 1, 5, tzinfo=UTC)
SPACING = timedelta(minutes=43)

TRUTH = "the truth itself"
ALONE = "offline policy"
COLD = "LinUCB, cold"
WARM = "warm-started"
CONFIDENT = "confident"
ECONOMICAL = "economical"
ORDER = (ALONE, COLD, WARM, CONFIDENT, ECONOMICAL, TRUTH)

FEW = 1500
"""Rounds in which everything is compiled: with 1 % spot checks, some occur. `warm_up` compiles more than they need."""


@dataclass(frozen=True, eq=False)
class Tickets:
    """Tickets as raw columns (n each), and the true probability that each handler solves each, (n, K)."""

    columns: dict[str, list[Any]]
    chances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.chances)


@dataclass(frozen=True, eq=False)
class TicketStream(Stream):
    """Rounds in euros: `draws` (T,) are uniform, and a ticket is solved where its probability (T, K) exceeds them."""

    chances: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    def reward(self, t: int, action: int) -> float:
        return SOLVED * bool(self.draws[t] < self.chances[t, action])


def tickets(count: int, rng: np.random.Generator, *, first: int = 0) -> Tickets:
    """Draw tickets, one after another from number `first` on."""
    topic = rng.choice(len(TOPICS), count, p=[0.2, 0.25, 0.2, 0.15, 0.2])
    country = rng.choice(len(COUNTRIES), count, p=[0.35, 0.2, 0.15, 0.15, 0.15])
    channel = rng.choice(len(CHANNELS), count, p=[0.5, 0.3, 0.2])
    months = rng.gamma(1.5, 14.0, count).astype(int)
    guest, premium = rng.random(count) < 0.12, rng.random(count) < 0.35
    received = [
        START + (first + place + part) * SPACING for place, part in enumerate(rng.random(count).tolist())
    ]
    hour = np.array([moment.hour for moment in received])

    score = SKILLS[:, topic].T.copy()  # (n, K)
    template, agent, new = (HANDLERS.index(name) for name in ("template", "agent", NEW))
    others = np.arange(len(HANDLERS)) != agent
    score[guest] -= 0.3
    score[:, template] -= np.where(guest, 0.0, 0.02 * months)
    score[country == COUNTRIES.index("PL"), new] -= 1.5
    score[(hour >= 22) | (hour < 6), agent] -= 1.2
    score -= 0.8 * np.outer((topic == TOPICS.index("fault")) & (channel == CHANNELS.index("chat")), others)

    columns: dict[str, list[Any]] = {
        "received": [f"{moment:%Y-%m-%d %H:%M}" for moment in received],
        "country": [COUNTRIES[place] for place in country],
        "via": [CHANNELS[place] for place in channel],
        "topic": [TOPICS[place] for place in topic],
        "months": [None if none else int(value) for none, value in zip(guest, months, strict=True)],
        "premium": ["yes" if yes else "no" for yes in premium],
    }
    return Tickets(columns, 1 / (1 + np.exp(-score)))


def logged_table(count: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    """Return last quarter's table: tickets, who answered each, and what that saved, before the answer's cost."""
    drawn = tickets(count, rng)
    easy = np.isin(drawn.columns["topic"], ("login", "delivery"))
    weights = np.zeros((count, len(HANDLERS)))
    weights[:, :3] = np.where(easy[:, None], (3, 3, 1), (1, 3, 2))
    weights[:, HANDLERS.index("agent")] = 2.0 * (np.array(drawn.columns["premium"]) == "yes")
    shares = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
    actions = (rng.random((count, 1)) > shares).sum(axis=1)
    solved = rng.random(count) < drawn.chances[np.arange(count), actions]
    handlers = [HANDLERS[action] for action in actions]
    return {**drawn.columns, ACTION: handlers, REWARD: (SOLVED * solved).tolist()}


def live_stream(drawn: Tickets, contexts: np.ndarray, rng: np.random.Generator) -> TicketStream:
    """Return future tickets as rounds with encoded contexts (n, d)."""
    return TicketStream(contexts, SOLVED * drawn.chances, rng.random(len(drawn)), chances=drawn.chances)


@dataclass(frozen=True)
class DeskSetting:
    """Size of the log, number of live tickets, cost of a review, and the learners' settings.

    alpha and radius_scale were the best of 0.3, 1 and 3 for LinUCB and of 0.1, 0.2 and 0.4 for warm-started, on other seeds (100 to 103).
    """

    rows: int = 2000
    rounds: int = 3000
    call_cost: float = REVIEW
    tolerance: float | None = None
    alpha: float = 1.0
    radius_scale: float = 0.1
    seeds: tuple[int, ...] = tuple(range(10))

    def learners(self, log: Log, seed: int) -> dict[str, Learner]:
        """Return each learner at its start, by its displayed name."""
        size: Any = {"actions": log.action_names, "n_features": log.n_features}
        priced: Any = {"call_cost": self.call_cost, "horizon": self.rounds}
        return {
            COLD: algorithms.linucb(**size, alpha=self.alpha, costs=PRICES, seed=seed),
            WARM: algorithms.warm_started(log, radius_scale=self.radius_scale, seed=seed),
            CONFIDENT: algorithms.confident(log, tolerance=self.tolerance, seed=seed),
            ECONOMICAL: algorithms.economical(log, **priced, seed=seed),
        }


@dataclass(frozen=True, eq=False)
class DeskStart:
    """The log of the first seed, as a table (columns of n cells) and as it is read, and its audit."""

    setting: DeskSetting
    table: Mapping[str, list[Any]]
    log: Log
    audit: Audit


class Run(NamedTuple):
    """One learner on one stream of T rounds, (T,) each: expected rewards − costs, whether there was a call, actions."""

    earned: NDArray[np.float64]
    called: NDArray[np.bool_]
    actions: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LearnerOutcome:
    """One learner over S seeds: its runs, and the error of its final policy on held-out rows, (S,), if there are any."""

    name: str
    call_cost: float
    runs: tuple[Run, ...]
    final_error: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def calls_over_time(self) -> NDArray[np.int64]:
        """Calls up to each round, (S, T)."""
        return np.array([run.called.cumsum() for run in self.runs])

    @property
    def calls(self) -> NDArray[np.int64]:
        return self.calls_over_time[:, -1]

    @property
    def paid(self) -> NDArray[np.float64]:
        return self.call_cost * self.calls.astype(np.float64)

    @property
    def earned(self) -> NDArray[np.float64]:
        return np.array([run.earned.sum() for run in self.runs])

    @property
    def net(self) -> NDArray[np.float64]:
        return self.earned - self.paid

    @property
    def over_time(self) -> NDArray[np.float64]:
        """Net up to each round, (S, T)."""
        return np.array([(run.earned - self.call_cost * run.called).cumsum() for run in self.runs])

    def calls_of(self, n_actions: int) -> NDArray[np.int64]:
        """Calls by action, (S, K)."""
        return np.array([np.bincount(run.actions[run.called], minlength=n_actions) for run in self.runs])


@dataclass(frozen=True, eq=False)
class DeskResult:
    """All results of the demonstration."""

    begun: DeskStart
    outcomes: tuple[LearnerOutcome, ...]

    @property
    def setting(self) -> DeskSetting:
        return self.begun.setting

    def __getitem__(self, name: str) -> LearnerOutcome:
        return next(outcome for outcome in self.outcomes if outcome.name == name)

    def to_dict(self) -> dict[str, Any]:
        return {
            "setting": asdict(self.setting),
            "truth": TRUTH_TEXT,
            "never_tried": list(self.begun.audit.never_logged),
            "audit": self.begun.audit.to_dict(),
            "learners": [_values(outcome) for outcome in self.outcomes],
        }


def _values(outcome: LearnerOutcome) -> dict[str, Any]:
    numbers = {name: getattr(outcome, name).tolist() for name in ("paid", "earned", "net")}
    reviewed = dict(zip(HANDLERS, outcome.calls_of(len(HANDLERS)).T.tolist(), strict=True))
    return {"name": outcome.name, "reviews": outcome.calls.tolist(), **numbers, "reviewed_of": reviewed}


def first_table(setting: DeskSetting) -> dict[str, list[Any]]:
    validation.number("call_cost", setting.call_cost, least=0)
    if setting.tolerance is not None:
        validation.number("tolerance", setting.tolerance, least=0)
    return _table(setting, setting.seeds[0])


def begin(setting: DeskSetting, table: Mapping[str, list[Any]]) -> DeskStart:
    """Read and audit the table, and compile everything in a few rounds that do not count."""
    log = _read(table)
    for learner in setting.learners(log, seed=0).values():
        play(learner, _stream(setting, log, seed=0, rounds=FEW))
    return DeskStart(setting, table, log, audit(log))


def go_live(begun: DeskStart, *, progress: Progress | None = None) -> DeskResult:
    """Let each learner meet the same tickets with the same noise, for every seed."""
    setting = begun.setting
    counter, runs = ProgressCounter(progress, len(setting.seeds) * (len(ORDER) - 2)), []
    for number, seed in enumerate(setting.seeds):
        log = _read(_table(setting, seed)) if number else begun.log
        stream = _stream(setting, log, seed, setting.rounds)
        runs.append(play_all(setting.learners(log, seed), stream, counter))
    outcomes = (LearnerOutcome(name, setting.call_cost, tuple(each[name] for each in runs)) for name in ORDER)
    return DeskResult(begun, tuple(outcomes))


def play_all(learners: Mapping[str, Learner], stream: Stream, counter: ProgressCounter) -> dict[str, Run]:
    """Let each learner meet the same rounds; the offline policy plays as `economical` does before any call."""
    ours, net = learners[ECONOMICAL], stream.means
    if ours.action_costs is not None:
        net = net - ours.action_costs
    known, best = ours.policy().indices(stream.contexts), net.argmax(axis=1)
    no_calls = np.zeros(len(stream), dtype=np.bool_)
    played = {ALONE: (known, no_calls), TRUTH: (best, no_calls)}
    for name, learner in learners.items():
        trace = play(learner, stream)
        played[name] = trace.actions, trace.needs_reward
        counter.step()
    rounds = np.arange(len(stream))
    return {name: Run(net[rounds, actions], called, actions) for name, (actions, called) in played.items()}


def write_table(table: Mapping[str, list[Any]], path: str | os.PathLike[str]) -> None:
    """Write a table as CSV, missing values as empty cells."""
    with archive.replacing(path) as part, Path(part).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def _table(setting: DeskSetting, seed: int) -> dict[str, list[Any]]:
    return logged_table(setting.rows, np.random.default_rng([seed, 1]))


def _read(table: Mapping[str, list[Any]]) -> Log:
    return read_log(table, action=ACTION, reward=REWARD, actions=HANDLERS, costs=PRICES)


def _stream(setting: DeskSetting, log: Log, seed: int, rounds: int) -> TicketStream:
    drawn = tickets(rounds, np.random.default_rng([seed, 2]), first=setting.rows)
    return live_stream(drawn, log.encoder.encode_table(drawn.columns), np.random.default_rng([seed, 3]))
