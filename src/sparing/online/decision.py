"""Decisions, one by one and many at once, and the checks of a learner's inputs."""

import itertools
import math
import os
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from sparing.errors import DecisionError, LogError
from sparing.interval import interval
from sparing.log.features.encoder import Encoder
from sparing.log.labels import label_text, normalize_label, shorten, truncate
from sparing.log.limits import LARGEST
from sparing.online.engine import choice, runs
from sparing.online.rules import REASONS
from sparing.report.notebook import card, frame

if TYPE_CHECKING:
    import pandas

    from sparing.online.explanation import Explanation
    from sparing.online.learner import Learner

REACH = 8.0
"""Deviations to each side that the integral of `SampledChances` covers."""

AT_ONCE = 512
# Rivals multiplied at once, which bounds the memory.


class Chances(NamedTuple):
    """Probabilities of an action: to be played, and to be played with a reward call."""

    play: float
    call: float


class Challenger(NamedTuple):
    """One action in a posterior sample: mean, standard deviation and priority in ties."""

    mean: float
    spread: float
    priority: int


@dataclass(eq=False)
class SampledChances:
    """Probabilities of a sampled action, from its rivals (m,) at that time; computed when read.

    `alike` is a number of further equal rivals.
    """

    own: Challenger
    mean: np.ndarray
    spread: np.ndarray
    priority: np.ndarray
    alike: tuple[int, Challenger] | None = None

    @cached_property
    def play(self) -> float:
        """P(own is the best of one draw from independent N(mean, spread²)), by quadrature.

        ∫ φ(z)·Π_{b≠a} Φ((m_a + s_a·z − m_b)/s_b) dz; a rival without deviation is a bound on z. Of two equal actions
        without deviation, the smaller priority number wins.
        """
        own, mean, spread, priority = self.own, self.mean, self.spread, self.priority
        if not len(mean) and self.alike is None:
            return 1.0
        count = np.ones(len(mean), dtype=np.int64)
        if self.alike is not None and self.alike[0]:
            many, rival = self.alike
            mean, spread = np.append(mean, rival.mean), np.append(spread, rival.spread)
            priority, count = np.append(priority, rival.priority), np.append(count, many)
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

    @property
    def call(self) -> float:
        # Every sampled action is called.
        return self.play

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SampledChances | Chances) and self.play == other.play

    def __hash__(self) -> int:
        return hash(self.play)


class Decision(NamedTuple):
    """The answer of one round.

    Attributes
    ----------
    id : int
        Number of the round; −1 for a proposal.
    action : hashable
        Label of the action to play; in a proposal its index.
    needs_reward : bool
        Whether the reward must be paid for and reported.
    reason : str
        `explore` or `spot-check` for a call. For a skipped round the rule: `supported`, `log-beats`, `certified`,
        `confident`, `not-worth-it`, `spent`; or `pending` if pending calls are expected to decide.
    value, low, high : float
        Estimated mean reward of the action, less its known cost, and its interval. For `confident`, `economical`, `linucb` and `lints` it is the 95 %
        interval of the posterior. For learners with confidence sets it holds with probability 1 − δ, for all actions and
        rounds together, unless `radius_scale` is below 1. `Learner.level` gives the number. An action that `eps_moful`
        takes as known has the interval ± `inflate` · `context_bound`, which nothing checks.
    chances : Chances or SampledChances
        See `play_probability` and `call_probability`.
    worth : float or None
        Expected gain of the reward call above its cost, summed over all rounds to come, in units of the reward; 0 if no
        call pays. None if the learner has no call cost.
    unseen : tuple of str
        Raw columns of which the log shows nothing in this context: a category that it never had, or a number outside its range,
        which was clipped.
    cost : float or None
        Known cost of playing the action in this round, which `value`, `low` and `high` have subtracted. None if the learner has no
        costs.
    source : tuple or None
        What `explain` needs. It is not compared, saved or copied.
    """

    id: int
    action: Any
    needs_reward: bool
    reason: str
    value: float
    low: float
    high: float
    chances: Chances | SampledChances
    worth: float | None = None
    unseen: tuple[str, ...] = ()
    cost: float | None = None
    source: tuple[Any, ...] | None = None

    def explain(self, against: Hashable | None = None) -> "Explanation":
        """Explain the estimate: what each raw column contributed to it, and to its gap to another action's estimate.

        Explanations are of the learner's state at the decision. Ask before the learner learns the next reward, or decide with
        `explain=True`, which keeps the explanation against the runner-up.

        Parameters
        ----------
        against : hashable, optional
            Label of the action to compare with; by default the runner-up, which is the eligible action with the highest estimate of the others.

        Returns
        -------
        Explanation

        Raises
        ------
        DecisionError
            If the learner has learnt since, or does not know the action.

        Examples
        --------
        >>> import sparing
        >>> table = {"age": [31, 52, 40, 60], "action": ["a", "b", "a", "b"], "reward": [0.0, 1.0, 1.0, 1.0]}
        >>> learner = sparing.economical(sparing.read_log(table, features="auto"), call_cost=1.0, horizon=10)
        >>> learner.decide({"age": 41}).explain().contributions[0].column
        'age'
        """
        from sparing.online.explanation import explain_decision

        return explain_decision(self, against)

    def __eq__(self, other: object) -> bool:
        return self[:-1] == (other[:-1] if isinstance(other, Decision) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return Decision, self[:-1]  # a copy, or a pickle, has no learner

    def __repr__(self) -> str:
        worth = "" if self.worth is None else f", a reward call gains {self.worth:.4g} over its cost"
        asks = "needs its reward" if self.needs_reward else "needs no reward"
        unseen = f", unseen {', '.join(map(truncate, self.unseen))}" if self.unseen else ""
        cost = "" if self.cost is None else f" after a cost of {self.cost:.4g}"
        value = f"value {self.value:.4g} [{self.low:.4g}, {self.high:.4g}]{cost}{worth}{unseen}"
        return f"Decision({self.id}, action {truncate(repr(self.action))}, {asks} ({self.reason}), {value})"

    def _repr_html_(self) -> str:
        asks = "yes: pass it to update" if self.needs_reward else "no"
        facts = [
            ("needs a reward", f"{asks} ({self.reason})"),
            ("value", f"{self.value:.4g}, interval [{self.low:.4g}, {self.high:.4g}]"),
            ("probability of playing it", f"{self.play_probability:.4g}"),
        ]
        facts += [] if self.cost is None else [("known cost, subtracted", f"{self.cost:.4g}")]
        if self.worth is not None:
            facts.append(("expected gain of the call above its cost", f"{self.worth:.4g}"))
        facts += [("columns with unseen values", ", ".join(self.unseen))] if self.unseen else []
        return card(f"Decision {self.id}: play {label_text(self.action)}", facts=facts)

    @property
    def decision(self) -> "Decision":
        """The decision itself, which entries of `Learner.open` held in 0.1."""
        return self

    @property
    def play_probability(self) -> float:
        """Probability of playing this action in this round, over the learner's own randomness."""
        return self.chances.play

    @property
    def call_probability(self) -> float:
        """Probability of playing it with a reward call: weight a call by its inverse."""
        return self.chances.call


NUMBERS = "biufO"
# NumPy's kinds of arrays that a context may have; text is not read as numbers.

EVERYONE = np.empty(0, dtype=np.bool_)
"""The mask that allows all actions."""


def as_context(x: Sequence[float] | np.ndarray, d: int, encoder: Encoder | None = None) -> np.ndarray:
    """A copy of a context (d,), as compiled code needs it; an encoder adds missing kernel features and those of unseen values."""
    try:
        given = np.asarray(x)
        context = given.astype(np.float64) if given.dtype.kind in NUMBERS else None
    except (TypeError, ValueError, OverflowError):
        context = None
    if context is None:
        raise DecisionError(
            f"context {shorten(x)} is not a list of numbers; expected {d} of them{_or_named(encoder)}"
        )
    if encoder is not None:
        context = encoder.completed(context)
    if context.shape != (d,):
        raise DecisionError(
            f"context of shape {context.shape}; expected {d} numbers, ({d},){_or_named(encoder)}"
        )
    return np.ascontiguousarray(context)


def _or_named(encoder: Encoder | None) -> str:
    # The columns by which a context can be given instead.
    columns = () if encoder is None or encoder.is_raw else encoder.by_column
    return f", or a mapping of the columns {', '.join(columns)}" if columns else ""


def check_sizes(x: np.ndarray) -> None:
    """Reject a context with a feature that is not finite or too large."""
    if np.abs(x).max(initial=0.0) <= LARGEST:  # which takes half the time of the search below
        return
    large = np.flatnonzero(~(np.abs(x) <= LARGEST))
    if len(large):
        raise unfit(x, int(large[0]))


def unfit(x: np.ndarray, feature: int) -> DecisionError:
    """The error for a context with this feature."""
    return DecisionError(
        f"context feature {feature} is {x[feature]}; every feature must be finite, and at most "
        f"{LARGEST:g} in size. Fill it in, or scale the features"
    )


def label_index(name: Hashable, index: Mapping[Hashable, int]) -> int:
    """The index of an action by its label."""
    try:
        position = index.get(normalize_label(name))
    except LogError:
        position = None
    if position is None:
        known = ", ".join(map(repr, itertools.islice(index, 5)))
        raise DecisionError(f"action {name!r} is unknown; the {len(index)} known ones begin with {known}")
    return position


def as_index(action: Any, n_actions: int) -> int:
    number = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if not number or not 0 <= action < n_actions:
        raise DecisionError(f"action {action!r}; must be an index from 0 to {n_actions - 1}")
    return int(action)


def as_mask(mask: np.ndarray, n_actions: int) -> np.ndarray:
    """A mask of the actions that may be played, (K,)."""
    given = np.asarray(mask)
    if given.dtype != np.bool_ or given.shape != (n_actions,) or not given.any():
        raise DecisionError(
            f"allowed of shape {given.shape} and type {given.dtype}; must be {n_actions} booleans, one of them "
            "true at least"
        )
    return np.array(given)


def as_reward(reward: Any, reward_range: tuple[float, float] | None) -> float:
    try:
        value = math.nan if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise DecisionError(
            f"reward {reward!r}; must be a finite number, at most {LARGEST:g} in size. Nothing was learnt"
        )
    if reward_range is not None and not reward_range[0] <= value <= reward_range[1]:
        low, high = reward_range
        raise DecisionError(
            f"reward {value:g} is outside reward_range=({low:g}, {high:g}); nothing was learnt. Send a reward in this range (by default, "
            "that of a log of rewards 0 and 1), or make the learner with allow_outside=True"
        )
    return value


PART = 4096
# Contexts that one thread takes at a time.


@dataclass(frozen=True, eq=False)
class Decisions:
    """Answers to n contexts as columns, each as if its context were the next one.

    Attributes
    ----------
    action_names : tuple
        Labels of the actions.
    actions : array of int of shape (n,)
        Indices of the actions.
    needs_reward, reasons, values, lows, highs : array of shape (n,)
        As in `Decision`. `needs_reward` is whether a reward would be requested in the next round. Its sum is not the number
        of calls of n rounds: a learner that has had some of these rewards needs fewer of the others. `plan` estimates it.
    worths : array of shape (n,) or None
        As in `Decision`; None if the learner has no call cost.
    costs : array of shape (n,) or None
        As in `Decision`; None if the learner has no costs.
    """

    action_names: tuple[Hashable, ...]
    actions: np.ndarray
    needs_reward: np.ndarray
    reasons: np.ndarray
    values: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    worths: np.ndarray | None = None
    costs: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.actions)

    def labels(self) -> list[Hashable]:
        """The labels of the actions."""
        return [self.action_names[action] for action in self.actions]

    def to_frame(self) -> "pandas.DataFrame":
        """The answers as a pandas frame, one row per context.

        Its columns are `action` (label), `needs_reward`, `reason`, `value`, `low`, `high`, `cost` if the learner has costs, and
        `worth` if it has a call cost.
        """
        columns: dict[str, Any] = {
            "action": self.labels(),
            "needs_reward": self.needs_reward,
            "reason": self.reasons,
        }
        columns |= {"value": self.values, "low": self.lows, "high": self.highs}
        columns |= {} if self.costs is None else {"cost": self.costs}
        return frame(columns if self.worths is None else columns | {"worth": self.worths})

    def __repr__(self) -> str:
        share = float(self.needs_reward.mean()) if len(self) else 0.0
        return (
            f"Decisions({len(self)} contexts, each as the next round: a reward would be requested in {share:.0%} of them; not the calls "
            "of a run, which learns from each reward)"
        )


def decide_many(
    learner: "Learner", contexts: np.ndarray, ids: Sequence[Hashable] | np.ndarray | None, threads: int | None
) -> Decisions:
    """The answers of a learner to contexts (n, d), each as if it were the next."""
    rows = _checked(learner, contexts)
    named = None if ids is None else np.asarray(ids)
    if named is not None and named.shape != (len(rows),):
        raise DecisionError(
            f"context_ids of shape {named.shape}; expected one for each of {len(rows)} contexts"
        )
    if threads is not None and threads < 1:
        raise DecisionError(f"threads={threads}; must be 1 or more, or None for one a core")
    if learner.explore == "sampled" or not learner.compiled:
        return _one_by_one(learner, rows, named)
    thresholds, answers = learner.log_answers(rows, named)
    n = len(rows)
    actions, codes = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    means, spreads, worths = np.empty(n), np.empty(n), np.empty(n)
    columns = rows, thresholds, answers, actions, codes, means, spreads, worths

    def work(start: int) -> None:
        scratch, part = learner.sets.scratch, (column[start : start + PART] for column in columns)
        arguments: Any = scratch.observed, scratch.pending, *part, learner.sets.bounds
        runs.decide_rows(*arguments)

    workers = min(threads or os.cpu_count() or 1, -(-n // PART))
    if workers > 1:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(0, n, PART)))
    else:
        for start in range(0, n, PART):
            work(start)
    called, reasons = codes == choice.EXPLORE, np.array(REASONS)[codes]
    limits = interval(means, spreads, learner.half_widths)
    worth = worths if learner.uses_voi else None
    costs = None if learner.action_costs is None else learner.action_costs[actions]
    return Decisions(learner.action_names, actions, called, reasons, means, *limits, worth, costs)


def _checked(learner: "Learner", contexts: Any) -> np.ndarray:
    named = None if isinstance(contexts, np.ndarray) else learner.encoder.named_rows(contexts)
    given = np.asarray(contexts) if named is None else named
    if given.dtype.kind in "biuf" and given.ndim == 2:
        given = learner.encoder.completed(given)
    if given.dtype.kind not in "biuf" or given.ndim != 2 or given.shape[1] != learner.n_features:
        raise DecisionError(
            f"contexts of shape {given.shape} and type {given.dtype}; expected numbers (n, {learner.n_features})"
        )
    # Writable and read-only arrays have different compiled types.
    rows = np.require(given, dtype=np.float64, requirements=["C", "W", "A"])
    unfit = ~(np.abs(rows) <= LARGEST)
    if unfit.any():
        row, feature = (int(i) for i in np.argwhere(unfit)[0])
        raise DecisionError(
            f"feature {feature} of context {row} is {rows[row, feature]}; every feature must be finite, and at "
            f"most {LARGEST:g} in size. Fill it in, or scale the features"
        )
    return rows


def _one_by_one(learner: "Learner", rows: np.ndarray, ids: np.ndarray | None) -> Decisions:
    # For rules in Python and learners that sample: with the random streams of the next rounds.
    names = [None] * len(rows) if ids is None else ids.tolist()
    made = [
        learner.peek(x, context_id=name, number=learner.rounds + i)
        for i, (x, name) in enumerate(zip(rows, names, strict=True))
    ]
    kinds: tuple[Any, ...] = (np.int64, np.bool_, "U12", np.float64, np.float64, np.float64)
    columns: Any = (np.array([one[i] for one in made], dtype=kind) for i, kind in enumerate(kinds, start=1))
    decided = Decisions(learner.action_names, *columns)
    known = learner.action_costs
    return decided if known is None else replace(decided, costs=known[decided.actions])
