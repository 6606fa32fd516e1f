"""Compiling ahead: every entry that a round can reach, once, so that no round has to wait."""

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from sparing.errors import SparingError

if TYPE_CHECKING:
    from sparing.online.learner import Learner


def warm_up(learner: "Learner") -> None:
    """Play a few rounds on a copy of a learner: decide, open, learn, take back, many at once; the copy is dropped."""
    twin = learner.copy()
    rng, everyone = np.random.default_rng(0), np.ones(learner.n_actions, dtype=np.bool_)
    contexts = rng.random((3, learner.n_features))
    for x in contexts:
        with contextlib.suppress(SparingError):
            proposal = twin.propose(x, allowed=everyone, luck=b"warm")
            twin.begin(proposal.action, x)
            predicted = twin.begin(proposal.action, x)
            twin.propose(x)
            twin.cancel(proposal.action, x, predicted)
            twin.finish(proposal.action, x, predicted, predicted)
            twin.decide(x)
    twin.decide_many(contexts)
    from sparing.online.engine import choosing, luck, sampling

    if twin.plan is not None and twin.spot_check:
        desk = twin.sets.desk
        luck.key_of(twin.key, 0)
        choosing.other_than(desk.settled, contexts[0], everyone, 0, 0)
        sampling.value(desk.settled, contexts[0], 0)
