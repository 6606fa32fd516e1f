"""What a learner answers, and the open ones whose reward is still to come."""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np


class Decision(NamedTuple):
    """One round's answer.

    action is the label to play; needs_reward says whether its reward must be paid for and reported;
    reason is `explore`, `spot-check`, or the rule that skipped (`supported`, `log-beats`, `certified`,
    `confident`). value, low and high are the estimate of the action's reward and its set's ends.
    propensity is the probability of a call on this action in this round, over the learner's own
    randomness (None on skipped rounds).
    """

    id: int
    action: Hashable
    needs_reward: bool
    reason: str
    value: float
    low: float
    high: float
    propensity: float | None


OpenDecision = tuple[Decision, int, np.ndarray]
"""A decision that waits for its reward, the action's index, and the context it was made in."""
