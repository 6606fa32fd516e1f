"""What an offline learner learns from: a log, what its policy may do in each row, what the log could do."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sparing.errors import LogError
from sparing.log import Log, Support
from sparing.policies.policy import SupportModel
from sparing.policies.tables import KnownSupport, given_support, log_support
from sparing.validation import integer
from sparing.validation import reward_range as known_range

WITHOUT_PROPENSITIES = ("greedy", "pessimistic", "boosted", "stacked", "auto")
"""Methods that never divide by a propensity."""

FOLDS = 3
"""Folds of contexts by which hyper-parameters are chosen and reward models cross-fitted."""

ROUNDING = 1e-12
"""A deviation below this share of the largest reward is rounding."""

Within = Literal["supported", "logged"]


@dataclass
class Progress:
    """Tells a caller's function how many of all steps are done."""

    report: Callable[[int, int], None] | None = None
    done: int = 0
    total: int = 1

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self.report is not None:
            self.report(self.done, self.total)


@dataclass(frozen=True, eq=False)
class Request:
    """A log, or the header of one that is walked, and the options that every method shares."""

    log: Log
    seed: int = 0
    support: Any = None
    reward_range: tuple[float, float] | None = None
    folds: int = FOLDS
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        integer("seed", self.seed)
        integer("folds", self.folds, least=2)
        known_range(self.reward_range)

    @property
    def lowest(self) -> float:
        """r_min: the given lower bound on mean rewards, else the smallest reward in the log."""
        return float(self.log.rewards.min() if self.reward_range is None else self.reward_range[0])

    @property
    def unit(self) -> float:
        """The deviation of the rewards, by which default grids are scaled; 1 where all rewards are equal."""
        deviation = float(self.log.rewards.std())
        return deviation if deviation > ROUNDING * float(np.abs(self.log.rewards).max()) else 1.0

    @property
    def priority(self) -> np.ndarray:
        """A random order of the actions by which ties are broken, (K,)."""
        return np.random.default_rng([self.seed, 21]).permutation(self.log.n_actions)


@dataclass(frozen=True, eq=False)
class Material:
    """A log, and which actions the policy may take in a context (None: any).

    The log's support is what it could have taken, by its own account or by the caller's.
    """

    log: Log
    model: SupportModel | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def allowed(self) -> np.ndarray | None:
        """The actions that the policy may take in each row, (n, K); None where it may take any."""
        return None if self.model is None else self.model(self.log.contexts)

    @cached_property
    def supported(self) -> np.ndarray | None:
        """The actions that the log could have taken in each row, (n, K); None where that is unknown."""
        return self.log.support.mask() if self.log.support.known else None

    @property
    def anywhere(self) -> np.ndarray:
        """Actions that are supported somewhere, (K,); where the support is unknown, those that were logged."""
        logged: np.ndarray = self.log.counts > 0
        return logged if self.supported is None else logged | np.any(self.supported, axis=0)

    def take(self, rows: np.ndarray) -> "Material":
        """The same for some of the rows (a boolean mask)."""
        return replace(self, log=self.log.take(rows))


def gather(request: Request, method: str, within: Within) -> Material:
    """Check that the log has what the method needs, and read its masks.

    The policy is kept on the support that the caller gave; else within the actions that were logged somewhere,
    or `within` those of them that each context supports.
    """
    log = request.log
    if not log.n_rows:
        raise LogError(f"the log has no rows, and method {method!r} has nothing else to learn from")
    if log.propensities is None and method not in WITHOUT_PROPENSITIES:
        raise LogError(
            f"method {method!r} divides by propensities, and the log has none. Log them (column `propensity`), "
            f"estimate them with sparing.estimate_support(log) (--estimate-support), or use {' or '.join(WITHOUT_PROPENSITIES)}"
        )
    if request.support is not None:
        given = given_support(log, request.support)
        if log.support.kind != "exact":
            sets = np.packbits(given(log.contexts), axis=1)
            log = replace(log, support=Support("exact", log.n_rows, log.n_actions, sets))
        return Material(log, given)
    if within == "supported":
        model, note = log_support(log, method)
        return Material(log, model.among(log.counts > 0), (note, *never(log.counts)))
    return Material(log, KnownSupport.fixed(log.counts > 0, log.n_features), never(log.counts))


def never(counts: np.ndarray) -> tuple[str, ...]:
    """A note on actions without rows, by every action's rows (K,)."""
    untried = int((counts == 0).sum())
    which = (
        "1 action that was never logged is"
        if untried == 1
        else f"{untried} actions that were never logged are"
    )
    return (f"{which} never chosen",) if untried else ()
