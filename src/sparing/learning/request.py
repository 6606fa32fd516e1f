"""What an offline learner gets: the rows, the options that all methods share, and the actions a policy may take."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sparing.engines import ProgressCounter
from sparing.errors import LogError
from sparing.log import Log, Support
from sparing.log.passes import Combined
from sparing.log.rows import Rows, as_rows
from sparing.model.statistics import Statistics, Sums
from sparing.policies.fingerprint import FingerprintStatistic, TrainingFingerprint
from sparing.policies.policy import SupportModel
from sparing.policies.support import KnownSupport, log_support, user_support
from sparing.validation import integer
from sparing.validation import reward_range as known_range

WITHOUT_PROPENSITIES = ("greedy", "posterior", "pessimistic", "boosted", "stacked", "auto")
FOLDS = 3  # of contexts, by which hyper-parameters are chosen and reward models cross-fitted
REL_TOLERANCE = 1e-12  # a deviation below this share of the largest reward is rounding


@dataclass(frozen=True, eq=False)
class LearningRequest:
    """The rows to learn from, and the options that every method shares.

    `fingerprint`: whether a method that only makes passes takes the fingerprint of the rows in the first one.
    """

    rows: Rows
    seed: int = 0
    support: Any = None
    reward_range: tuple[float, float] | None = None
    folds: int = FOLDS
    progress: ProgressCounter = field(default_factory=ProgressCounter)
    fingerprint: bool = False

    def __post_init__(self) -> None:
        integer("seed", self.seed)
        integer("folds", self.folds, least=2)
        known_range(self.reward_range)

    @cached_property
    def log(self) -> Log:
        return self.rows.read()

    def of_rows(self, log: Log) -> "LearningRequest":
        """The same options for other rows; their progress is not reported."""
        return replace(self, rows=as_rows(log), progress=ProgressCounter())

    @property
    def lowest(self) -> float:
        """r_min: the given lower bound on mean rewards, else the smallest reward in the log."""
        return float(self.log.rewards.min() if self.reward_range is None else self.reward_range[0])

    @property
    def unit(self) -> float:
        """The standard deviation of the rewards, by which default grids are scaled; 1 if all rewards are equal."""
        deviation = float(self.log.rewards.std())
        return deviation if deviation > REL_TOLERANCE * float(np.abs(self.log.rewards).max()) else 1.0

    @property
    def priority(self) -> np.ndarray:
        """A random order of the actions that breaks ties, (K,)."""
        return np.random.default_rng([self.seed, 21]).permutation(self.rows.n_actions)

    @property
    def gathered(self) -> tuple[FingerprintStatistic, ...]:
        """What the first pass computes besides its own."""
        return (FingerprintStatistic(self.rows.action_names),) if self.fingerprint else ()

    def summed(self, method: str) -> tuple[Statistics, TrainingFingerprint | None]:
        """The first of two steps: the sums of all rows, and their fingerprint if it is wanted, in one pass."""
        self.check_rows(method)
        self.progress.total = 2
        rows = self.rows.select(ids=False, support=False)
        sums, *fingerprint = rows.fold(Combined(Sums(rows), *self.gathered))
        self.progress.step()
        return sums, fingerprint[0] if fingerprint else None

    def check_rows(self, method: str) -> None:
        if not self.rows.n_rows:
            raise LogError(f"the log has no rows, and method {method!r} has nothing else to learn from")

    def allowed_actions(self, counts: np.ndarray) -> tuple[SupportModel, tuple[str, ...]]:
        """The given support, else the logged actions by their number of rows (K,); and notes."""
        if self.support is not None:
            return user_support(self.rows, self.support), ()
        return KnownSupport.fixed(counts > 0, self.rows.n_features), unlogged_note(counts)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A log in memory, and the actions that the policy may take in a context (None: any).

    The log's support holds the actions that could have been logged, by its own account or by the caller's.
    """

    log: Log
    model: SupportModel | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def allowed(self) -> np.ndarray | None:
        """The actions that the policy may take in each row, (n, K); None if it may take any."""
        return None if self.model is None else self.model(self.log.contexts)

    @cached_property
    def supported(self) -> np.ndarray | None:
        """The actions that could have been logged in each row, (n, K); None if unknown."""
        return self.log.support.mask() if self.log.support.known else None

    def take(self, rows: np.ndarray) -> "TrainingData":
        return replace(self, log=self.log.take(rows))


def prepare_training_data(
    request: LearningRequest, method: str, within: Literal["supported", "logged"]
) -> TrainingData:
    """Check that the log has the columns that the method needs, and find the actions its policy may take.

    These are the support that the caller gave; else the actions that were logged somewhere, or `within` those of
    them that each context supports.
    """
    request.check_rows(method)
    log = request.log
    if log.propensities is None and method not in WITHOUT_PROPENSITIES:
        raise LogError(
            f"method {method!r} divides by propensities, and the log has none. Log them (column `propensity`), "
            f"estimate them with sparing.estimate_support(log) (--estimate-support), or use {' or '.join(WITHOUT_PROPENSITIES)}"
        )
    if request.support is None and within == "supported":
        known, note = log_support(log, method)
        return TrainingData(log, known.restricted_to(log.counts > 0), (note, *unlogged_note(log.counts)))
    model, notes = request.allowed_actions(log.counts)
    if request.support is not None and log.support.kind != "exact":
        sets = np.packbits(model(log.contexts), axis=1)
        log = replace(log, support=Support("exact", log.n_rows, log.n_actions, sets))
    return TrainingData(log, model, notes)


def unlogged_note(counts: np.ndarray) -> tuple[str, ...]:
    """A note on actions without rows, from the number of rows of each action (K,)."""
    unlogged = int((counts == 0).sum())
    if not unlogged:
        return ()
    one = unlogged == 1
    which = "1 action that was never logged is" if one else f"{unlogged} actions that were never logged are"
    return (f"{which} never chosen",)
