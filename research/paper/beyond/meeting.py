"""One world, one log, one stream of rounds: all who take part meet the same contexts and the same luck."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from research.learners import OFFLINE
from research.paper.beyond import outsiders, vowpal
from research.paper.experiment import Record
from sparing.log import Log
from sparing.online.learner import Learner
from sparing.simulation import Stream
from sparing.simulation.simulate import play

OUTSIDE = 6
"""The random stream of an outsider's own luck."""


@dataclass(frozen=True, eq=False)
class Played:
    """What one did: its calls, the action of each round (T,), and its final policy's on the fresh contexts, (n,)."""

    calls: int
    actions: np.ndarray
    final: np.ndarray


@dataclass(frozen=True, eq=False)
class Meeting:
    """A log, the live rounds, and contexts that no round shows, (n, d); rewards come `delay` rounds late.

    unit is the deviation that prices of a call are multiples of.
    """

    log: Log
    stream: Stream
    fresh: np.ndarray
    unit: float
    delay: int = 0

    def runs(
        self, unit: Record, start: Callable[[Record], Learner], measure: Callable[[Played], Record]
    ) -> Record:
        """Calls, regret and what `measure` adds, for each in the order of the piece; null where not installed."""
        found: list[Record | None] = []
        for record in unit["learners"]:
            if "version" not in record:
                played = self.ours(record, start(record))
            elif record["version"] is not None:
                played = self.outsider(record, unit["seed"])
            else:
                found.append(None)
                continue
            regret = float(lost(self.stream.means, played.actions).sum())
            found.append({"calls": played.calls, "regret": regret, **measure(played)})
        return {"unit": self.unit, "runs": found}

    def ours(self, record: Record, learner: Learner) -> Played:
        """One of ours. The log alone plays its policy; so does one that is cut, when its budget is spent."""
        calls, actions = 0, np.empty(0, dtype=np.int64)
        if record["name"] not in ("log_alone", *OFFLINE):
            cut = None if record["name"] == "economical" else record.get("budget")
            trace = play(learner, self.stream, call_budget=cut, delay=self.delay)
            calls, actions = int(trace.needs_reward.sum()), trace.actions
        policy = learner.policy()
        rest = policy.indices(self.stream.contexts[len(actions) :])
        return Played(calls, np.concatenate([actions, rest]), policy.indices(self.fresh))

    def outsider(self, record: Record, seed: int) -> Played:
        """Somebody else's learner, which calls every round."""
        rng = np.random.default_rng([seed, OUTSIDE])
        meets = outsiders.meet if record["name"] in outsiders.NAMES else vowpal.meet
        actions, final = meets(record, self.log, self.stream, self.fresh, rng)
        return Played(len(self.stream), actions, final)


def lost(means: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """What the best action of each round earns above the one played, (T,)."""
    return means.max(axis=1) - means[np.arange(len(means)), actions]
