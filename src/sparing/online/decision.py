"""What a learner answers, with which chance, and the open answers whose reward is still to come."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from sparing.log.labels import cut

REACH = 8.0
"""Deviations to each side that the integral in `chance_against` covers."""

AT_ONCE = 512
"""Rivals multiplied in one go, which bounds the memory."""


class Chances(NamedTuple):
    """How likely an action was: to be played, and to be played and asked for its reward."""

    play: float
    call: float


class Rival(NamedTuple):
    """One action in a draw: centre, deviation, and its place in ties."""

    mean: float
    spread: float
    priority: int


def chance_against(
    own: Rival,
    mean: np.ndarray,
    spread: np.ndarray,
    priority: np.ndarray,
    *,
    alike: tuple[int, Rival] | None = None,
) -> float:
    """P(own is the best of one draw from independent N(mean, spread²)), by quadrature.

    ∫ φ(z)·Π_{b≠a} Φ((m_a + s_a·z − m_b)/s_b) dz; a rival without deviation is a bound on z. Of two equal
    ones without deviation, the one with the smaller priority number is the best. `alike` are so many more
    rivals of one kind.
    """
    count = np.ones(len(mean), dtype=np.int64)
    if alike is not None and alike[0]:
        mean, spread = np.append(mean, alike[1].mean), np.append(spread, alike[1].spread)
        priority, count = np.append(priority, alike[1].priority), np.append(count, alike[0])
    certain = spread == 0
    floor = mean[certain].max() if certain.any() else -np.inf
    tied = priority[certain & (mean == own.mean)]
    threat = ~certain & (mean + REACH * spread > own.mean - REACH * own.spread)
    mean, spread, count = mean[threat], spread[threat], count[threat]
    if own.spread == 0:
        beaten = own.mean < floor or (tied < own.priority).any()
        return 0.0 if beaten else float((ndtr((own.mean - mean) / spread) ** count).prod())
    low = max(-REACH, (floor - own.mean) / own.spread)
    if low >= REACH:
        return 0.0
    steepest = own.spread / spread.min() if len(spread) else 1.0
    least = 65 if low == -REACH else 257  # few points do for a smooth bell, not for one that is cut off
    z = np.linspace(low, REACH, int(np.clip(32 * steepest, least, 4097)))
    inside = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    for start in range(0, len(mean), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        below = ndtr((own.mean + own.spread * z[:, None] - mean[part]) / spread[part])
        inside *= (below ** count[part]).prod(axis=1)
    return float(np.trapezoid(inside, z))


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


class Decision(NamedTuple):
    """One round's answer.

    id is its number, −1 for a proposal; action is the label to play, in a proposal its index; needs_reward says whether its reward must be paid for and reported;
    reason is `explore`, `spot-check`, or the rule that skipped (`supported`, `log-beats`, `certified`,
    `confident`, `not-worth-it`, `spent`), or `pending`: skipped only because calls that are still open will tell. value, low and
    high are the estimate of the action's reward and its set's ends. worth, where the learner knows what a call costs, is what
    this one is expected to gain above its price, in the reward's units; 0 where none repays itself.
    """

    id: int
    action: Any
    needs_reward: bool
    reason: str
    value: float
    low: float
    high: float
    chances: Chances | Drawn
    worth: float | None = None

    def __repr__(self) -> str:
        worth = "" if self.worth is None else f", worth {self.worth:.4g}"
        asks = "needs its reward" if self.needs_reward else "needs no reward"
        value = f"value {self.value:.4g} [{self.low:.4g}, {self.high:.4g}]{worth}"
        return f"Decision({self.id}, action {cut(repr(self.action))}, {asks} ({self.reason}), {value})"

    @property
    def play_probability(self) -> float:
        """The probability of playing this action in this round, over the learner's own randomness."""
        return self.chances.play

    @property
    def call_probability(self) -> float:
        """The probability of playing it and asking for its reward: weight a call by its inverse."""
        return self.chances.call


class PendingDecision(NamedTuple):
    """A decision whose reward has not arrived, and the number of its pending call."""

    decision: Decision
    call: int
