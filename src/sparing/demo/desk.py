"""A made-up support desk whose truth is known: who answers a ticket, what the answer earns, what it costs to know.

Tickets are answered by a template, one of three language models or an agent. A solved ticket saves a phone call. Whether
an answer solved it is known only if a person reads it over, which costs money: that is the reward call. The log is last
quarter's, when every answer was read over; agents were kept for premium customers, and the newest model was not there.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparing.simulation.worlds import Stream

ACTION, REWARD = "handler", "earned"

SOLVED = 8.00
"""What a solved ticket is worth, in euros: a phone call saved."""

REVIEW = 0.80
"""What it costs to have an answer read over, in euros."""

PRICES = {"template": 0.02, "small-llm": 0.05, "large-llm": 0.40, "agent": 4.00, "new-llm": 0.25}
"""Who may answer, and what an answer costs, in euros."""

HANDLERS = tuple(PRICES)
NEW = "new-llm"

TOPICS = ("login", "delivery", "billing", "refund", "fault")
COUNTRIES = ("DE", "FR", "NL", "PL", "UK")
CHANNELS = ("email", "chat", "app")

SKILLS = np.array(
    [
        [1.2, 0.4, -0.8, -1.4, -2.2],  # template
        [1.0, 0.8, 0.2, -0.4, -1.0],  # small-llm
        [1.2, 1.0, 0.9, 0.3, 0.2],  # large-llm
        [2.2, 2.0, 2.0, 1.9, 1.6],  # agent
        [1.1, 0.9, 0.5, 1.1, 1.3],  # new-llm
    ]
)
"""Log-odds that an answer solves a ticket, by who answers and topic, before the customer and the hour count."""

TRUTH = (
    "an answer solves a ticket with a logistic probability of who answers × topic, lower for guests, for templates sent to old "
    "customers, for new-llm in Poland, for agents at night, and for faults reported by chat unless an agent answers. An answer "
    f"costs {', '.join(f'{price:.2f} ({name})' for name, price in PRICES.items())} EUR."
)
"""The truth's form, in words."""

START = datetime(2026, 1, 5, tzinfo=UTC)
SPACING = timedelta(minutes=43)


@dataclass(frozen=True, eq=False)
class Tickets:
    """Tickets as raw columns (n each), and the truth: how likely each handler solves each, (n, K)."""

    columns: dict[str, list[Any]]
    chances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.chances)


@dataclass(frozen=True, eq=False)
class TicketStream(Stream):
    """Rounds in euros: `draws` (T,) are uniform, and a ticket is solved where its chance (T, K) exceeds them."""

    chances: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))

    def reward(self, t: int, action: int) -> float:
        """What this answer earns in round t."""
        return float(earned(self.draws[t] < self.chances[t, action], action))


def earned(solved: Any, action: Any) -> NDArray[np.float64]:
    """What answers earn, in whole cents: the worth of a solved ticket, less what the answer costs."""
    return np.round(SOLVED * np.asarray(solved) - np.array(list(PRICES.values()))[action], 2)


def tickets(count: int, rng: np.random.Generator, *, first: int = 0) -> Tickets:
    """Draw tickets, one after another from number `first` on."""
    topic = rng.choice(len(TOPICS), count, p=[0.2, 0.25, 0.2, 0.15, 0.2])
    country = rng.choice(len(COUNTRIES), count, p=[0.35, 0.2, 0.15, 0.15, 0.15])
    channel = rng.choice(len(CHANNELS), count, p=[0.5, 0.3, 0.2])
    months = rng.gamma(1.5, 14.0, count).astype(int)
    guest, premium = rng.random(count) < 0.12, rng.random(count) < 0.35
    received = [
        START + (first + place + luck) * SPACING for place, luck in enumerate(rng.random(count).tolist())
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


def logged(count: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    """Last quarter's table: tickets, who answered each, and what it earned."""
    drawn = tickets(count, rng)
    easy = np.isin(drawn.columns["topic"], ("login", "delivery"))
    weights = np.zeros((count, len(HANDLERS)))
    weights[:, :3] = np.where(easy[:, None], (3, 3, 1), (1, 3, 2))
    weights[:, HANDLERS.index("agent")] = 2.0 * (np.array(drawn.columns["premium"]) == "yes")
    shares = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
    actions = (rng.random((count, 1)) > shares).sum(axis=1)
    solved = rng.random(count) < drawn.chances[np.arange(count), actions]
    handlers = [HANDLERS[action] for action in actions]
    return {**drawn.columns, ACTION: handlers, REWARD: earned(solved, actions).tolist()}


def live(drawn: Tickets, contexts: np.ndarray, rng: np.random.Generator) -> TicketStream:
    """Tickets to come as rounds, their contexts (n, d) as an encoder made them."""
    means = SOLVED * drawn.chances - np.array(list(PRICES.values()))
    return TicketStream(contexts, means, rng.random(len(drawn)), chances=drawn.chances)
