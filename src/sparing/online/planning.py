"""What of a learner the compiled code can run: the built-in rules and explorers, as numbers."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.online.engine import choosing
from sparing.online.log_beats import LogBeats
from sparing.online.rules import Certified, Confident, Supported

if TYPE_CHECKING:
    from sparing.online.core import Core

REASONS = ("explore", "supported", "log-beats", "certified", "confident", "spot-check", "pending")
"""Names of the reasons, by their number."""

EXPLORERS = {
    "leader": choosing.LEADER,
    "optimistic": choosing.LEADER,
    "wider": choosing.WIDER,
    "wider-rival": choosing.WIDER_RIVAL,
    "sampled": choosing.SAMPLED,
}


def kernel(plan: choosing.Plan) -> Any:
    """What decides one round: one function a rule, so that a learner compiles only its own."""
    if plan.first == choosing.CERTIFIED:
        return choosing.by_certificate
    if plan.first == choosing.CONFIDENT:
        return choosing.by_doubt_wider if plan.explore == choosing.WIDER_RIVAL else choosing.by_doubt
    return choosing.by_log


def compiled_plan(learner: "Core") -> choosing.Plan | None:
    """What the compiled code is to do; None for a learner that only Python can run."""
    rules, codes = learner.rules, [choosing.EXPLORE, choosing.EXPLORE]
    tolerance, limit = -np.inf, 0.0
    if len(rules) > 2:
        return None
    for place, rule in enumerate(rules):
        if type(rule) is Supported and np.array_equal(rule.frozen, learner.sets.frozen):
            codes[place] = choosing.SUPPORTED
        elif type(rule) is LogBeats and rule.policy is None:
            codes[place] = choosing.LOG_BEATS
        elif type(rule) is Certified and len(rules) == 1:
            codes[place], tolerance = choosing.CERTIFIED, rule.tolerance
        elif type(rule) is Confident and len(rules) == 1:
            codes[place], tolerance, limit = choosing.CONFIDENT, rule.tolerance, 1 - rule.confidence
        else:
            return None
    likeliest = learner.explore == "wider-rival"
    if (likeliest and codes[0] != choosing.CONFIDENT) or learner.explore not in EXPLORERS:
        return None
    explore = EXPLORERS[learner.explore]
    first, second = codes
    return choosing.Plan(first, second, explore, learner.optimism, tolerance, limit, learner.spot_check)


def log_memory(learner: "Core") -> LogBeats | None:
    """The rule that needs to know which logged context a round is, if the learner has it."""
    return next((rule for rule in learner.rules if isinstance(rule, LogBeats)), None)
