"""What every algorithm begins with: a log or its sums, checked settings, and what was not given filled in."""

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypedDict

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.labels import action_names
from sparing.log.rows import AnyLog, Rows
from sparing.model.assumptions import Assumptions
from sparing.model.statistics import Statistics, Summary
from sparing.online.engine.luck import seeded
from sparing.online.learner import Learner
from sparing.online.rules import SkipRule
from sparing.online.sets import ConfidenceSets
from sparing.validation import check_known, check_reward_range, integer, reward_range

P = ParamSpec("P")


class Believed(TypedDict, total=False):
    """What a learner takes for granted.

    noise σ, theta_bound S_θ, context_bound S_x: estimated from the log where not given. ridge λ (1.0),
    delta δ (0.05), radius `determinant`, `trace` or `paper`, radius_scale (1.0: the guarantees hold;
    smaller ones explore less and void them). reward_range: rewards lie in it, so σ is half of it
    unless noise is given.
    """

    noise: float | None
    theta_bound: float | None
    context_bound: float | None
    ridge: float
    delta: float
    radius: str
    radius_scale: float
    reward_range: tuple[float, float] | None


class Settings(Believed, total=False):
    """Keywords that every algorithm takes; seed breaks ties and draws samples (0).

    growing: actions may be added later (`Learner.add_action`), so that those of the start share δ/2.
    """

    seed: int
    growing: bool


@dataclass(frozen=True, eq=False)
class Walked(Summary):
    """What a log's sums tell, and some of its rows, to test a model's fit by."""

    fit: Log | None = None

    @classmethod
    def of(cls, log: AnyLog) -> "Walked":
        """Walk a log for its sums, and for a sample of its rows."""
        found = Summary.of(log)
        parts = {name: getattr(found, name) for name in Summary.__dataclass_fields__}
        return cls(**parts, fit=_sampled(log))


@dataclass(frozen=True)
class Start:
    """What every algorithm begins with; `about` is what a learner keeps of its log: encoders, and rows to test its fit by."""

    names: tuple[Hashable, ...]
    sums: Statistics
    assumptions: Assumptions
    priority: np.ndarray
    key: int
    reward_range: tuple[float, float] | None
    growing: bool
    about: dict[str, Any]

    @property
    def nothing(self) -> Statistics:
        """The sums of no rows: sets that learn from online rows only."""
        return no_rows(self.sums.n_actions, self.sums.n_features)

    def learner(
        self, algorithm: str, sets: ConfidenceSets, rules: Sequence[SkipRule], **more: Any
    ) -> Learner:
        """A learner with these sets and rules, and what else it is made of."""
        sets.prioritise(self.priority)
        known = {**self.about, "reward_range": self.reward_range, **more}
        return Learner(algorithm, self.names, sets, rules, key=self.key, **known)


def known_log(log: Any) -> Any:
    """A log that is walked as what its sums tell; any other as it is."""
    return Walked.of(log) if isinstance(log, Rows) else log


def of_settings(make: Callable[P, Learner]) -> Callable[P, Learner]:
    """A learner of one's own settings and of everyone's, which refuses others before it looks at any."""
    own = [name for name, each in inspect.signature(make).parameters.items() if each.kind != each.VAR_KEYWORD]
    known = [*own[1:], *Settings.__annotations__]

    @functools.wraps(make)
    def checked(*log: P.args, **settings: P.kwargs) -> Learner:
        for name in settings:
            if name != own[0]:
                check_known(name, known)
        return make(*log, **settings)

    return checked


def known_range(log: Any, given: Any) -> tuple[float, float] | None:
    """A range of rewards that was given, which those of a log in memory must come near to."""
    limits = reward_range(given, apart=True)
    if limits is not None and isinstance(log, Log) and log.n_rows:
        check_reward_range(limits, float(log.rewards.min()), float(log.rewards.max()))
    return limits


def begin(
    log: AnyLog | Summary | None,
    settings: Settings,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
) -> Start:
    """Check the log and the settings, and fill in what was not given."""
    log, values = known_log(log), dict[str, Any](settings)
    seed = values.pop("seed", 0)
    integer("seed", seed)
    growing = values.pop("growing", False)
    if type(growing) is not bool or (growing and values.get("radius") == "paper"):
        raise SettingError(
            f"growing={growing!r}; must be True or False, and the paper's radius knows no growing"
        )
    limits = known_range(log, values.pop("reward_range", None))
    if limits is not None and values.get("noise") is None:
        values["noise"] = (limits[1] - limits[0]) / 2
    assumed: tuple[str, ...] = ()
    about: dict[str, Any] = {}
    if log is None:
        names = _names(n_actions, actions)
        if n_features is None or n_features < 1:
            raise SettingError(f"n_features={n_features}; give the length of a context, 1 or more")
        sums = no_rows(len(names), n_features)
        bounds = ("noise", "theta_bound", "context_bound")
        assumed = tuple(name for name in bounds if values.get(name) is None)
        values |= dict.fromkeys(assumed, 1.0)
    elif isinstance(log, Log | Summary):
        if n_actions is not None or n_features is not None or actions is not None:
            raise SettingError(
                "the log names actions and features; leave out n_actions, n_features and actions"
            )
        names = log.action_names
        sums = log.statistics if isinstance(log, Summary) else Statistics.of(log)
        about = {"encoder": log.encoder, "item_encoder": log.items.encoder if log.items else None}
        about["fit"] = _rows_of(log) or ""
    else:
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    assumptions = replace(Assumptions.resolve(sums, **values), assumed=assumed)
    return Start(names, sums, assumptions, *seeded(int(seed), len(names)), limits, growing, about)


def no_rows(k: int, d: int) -> Statistics:
    """The sums of no rows, in no memory: each array is one zero seen many times."""
    none = np.zeros(k, dtype=np.int64)
    return Statistics(none, np.broadcast_to(0.0, (k, d, d)), np.broadcast_to(0.0, (k, d)), np.zeros(k), 0.0)


def _names(n_actions: int | None, actions: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    if actions is not None:
        return action_names(actions)
    if n_actions is None or n_actions < 1:
        raise SettingError(f"n_actions={n_actions}; give a log, actions=[...] or the number of actions")
    return tuple(range(n_actions))


def _rows_of(log: Log | Summary) -> Log | None:
    """Rows to test a model's fit by, where there are any."""
    if isinstance(log, Log):
        return _sampled(log) if log.n_rows else None
    return log.fit if isinstance(log, Walked) else None


def _sampled(log: AnyLog) -> Log:
    from sparing.model.linearity import sample

    return sample(log)
