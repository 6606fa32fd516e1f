"""What a learner answers, with which chance, and the open answers whose reward is still to come."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparing.online.explore import Rival, chance_against


class Chances(NamedTuple):
    """How likely an action was: to be played, and to be played and asked for its reward."""

    play: float
    call: float


@dataclass(eq=False)
class Drawn:
    """The chances of an action that a posterior draw chose, with its rivals as they were; computed when read."""

    own: Rival
    mean: np.ndarray
    spread: np.ndarray
    priority: np.ndarray
    alike: tuple[int, Rival] | None = None

    @cached_property
    def play(self) -> float:
        """P(the draw favours this action), by quadrature."""
        if not len(self.mean) and self.alike is None:
            return 1.0
        return chance_against(self.own, self.mean, self.spread, self.priority, alike=self.alike)

    @property
    def call(self) -> float:
        """The same: a draw is made only to be asked about."""
        return self.play

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drawn | Chances) and self.play == other.play

    def __hash__(self) -> int:
        return hash(self.play)


ALWAYS = Chances(1.0, 1.0)
"""Of a call that no luck could have changed."""


class Proposal(NamedTuple):
    """What a learner would do in a round: the action by its index, whether to ask, why, and with which chance."""

    action: int
    needs_reward: bool
    reason: str
    value: float
    low: float
    high: float
    chances: Chances | Drawn

    @property
    def play_probability(self) -> float:
        """The probability of playing this action in this round, over the learner's own randomness."""
        return self.chances.play

    @property
    def call_probability(self) -> float:
        """The probability of playing it and asking for its reward."""
        return self.chances.call


class Decision(NamedTuple):
    """One round's answer.

    action is the label to play; needs_reward says whether its reward must be paid for and reported;
    reason is `explore`, `spot-check`, or the rule that skipped (`supported`, `log-beats`, `certified`,
    `confident`), or `pending`: skipped only because calls that are still open will tell. value, low and
    high are the estimate of the action's reward and its set's ends.
    """

    id: int
    action: Hashable
    needs_reward: bool
    reason: str
    value: float
    low: float
    high: float
    chances: Chances | Drawn

    @property
    def play_probability(self) -> float:
        """The probability of playing this action in this round, over the learner's own randomness."""
        return self.chances.play

    @property
    def call_probability(self) -> float:
        """The probability of playing it and asking for its reward: weight a call by its inverse."""
        return self.chances.call


class OpenDecision(NamedTuple):
    """A decision that waits for its reward: the action's index, the context, and what was predicted.

    predicted is None while nothing has happened since the decision: it then counts nowhere yet.
    """

    decision: Decision
    action: int
    x: np.ndarray
    predicted: float | None
