"""Skip rules: when a round can be answered without a reward call, and with which action.

Built-in rules are data for compiled code (engine/choice.py). A custom rule is an object with an `answer` method, and is
applied before them.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from sparing.errors import SettingError
from sparing.online.engine import choice

REASONS = (
    *("explore", "supported", "log-beats", "certified", "confident", "spot-check", "pending", "explore"),
    *("not-worth-it", "spent"),
)
"""Names of the reasons, by their number in choice.py; an unsure call is named like any other."""


@dataclass(slots=True)
class RoundView:
    """One round for a custom rule: the sets at x, the eligible actions, and the leader a*.

    mean, spread, top (K,) are the mean, half-width and upper bound of each action at x. `key` is the key of the round's random
    stream (engine/random_stream.py).
    """

    x: np.ndarray
    context_id: Hashable | None
    mean: np.ndarray
    spread: np.ndarray
    top: np.ndarray
    eligible: np.ndarray
    priority: np.ndarray
    key: int = 0

    @property
    def leader(self) -> int:
        """a*: the eligible action with the highest upper bound."""
        return self.best(self.top)

    def best(self, scores: np.ndarray, *, other_than: int = -1) -> int:
        """The eligible action with the largest score, ties by priority; −1 if there is none."""
        candidates = np.flatnonzero(self.eligible)
        candidates = candidates[candidates != other_than]
        if not len(candidates):
            return -1
        highest = candidates[scores[candidates] == scores[candidates].max()]
        return int(highest[self.priority[highest].argmin()])


class SkipRule(Protocol):
    name: ClassVar[str]

    def header(self) -> dict[str, Any]:
        """Numbers to save as JSON."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays to save."""


class CustomRule(SkipRule, Protocol):
    """A rule in Python: answers a round without a reward call, or passes (None)."""

    def answer(self, view: RoundView) -> int | None:
        """The action to play, or None to pass the round to the next rule."""


class BuiltInRule:
    """A rule as data; `code` is its number in choice.py."""

    name: ClassVar[str]
    code: ClassVar[int]

    def header(self) -> dict[str, Any]:
        return {name: value for name, value in self._fields() if not isinstance(value, np.ndarray)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: value for name, value in self._fields() if isinstance(value, np.ndarray)}

    def _fields(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]


@dataclass
class SupportedRule(BuiltInRule):
    """`supported`: the leader is one of the actions known from the log: a* ∈ 𝓛 → a*."""

    frozen: np.ndarray
    name: ClassVar[str] = "supported"
    code: ClassVar[int] = choice.SUPPORTED


@dataclass
class CertifiedRule(BuiltInRule):
    """`certified`: no rival can exceed the leader by more than τ: max_{b≠a*} U_b(x) − L_{a*}(x) ≤ τ → a*."""

    tolerance: float
    name: ClassVar[str] = "certified"
    code: ClassVar[int] = choice.CERTIFIED


@dataclass
class ConfidentRule(BuiltInRule):
    """`confident`: the probability that the best mean is beaten is at most 1 − c.

    Σ_{b≠a} Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)) ≤ 1 − c → a = argmax m. `strict` multiplies the deviation of a difference
    by √2: s_a + s_b ≤ √2·sqrt(s_a² + s_b²), for any correlation.
    """

    tolerance: float
    confidence: float
    strict: bool = False
    name: ClassVar[str] = "confident"
    code: ClassVar[int] = choice.CONFIDENT


@dataclass
class EconomicalRule(BuiltInRule):
    """`not-worth-it`: no call gains its cost c in the remaining rounds: max_a worth_a(x) ≤ 0 → argmax m.

    worth_a = max_n (H − n + 1)·mean_j ψ(g_j, s_j(n))/n − c − (max m − m_a). The remaining rounds are those of `horizon`, or
    γ/(1 − γ) at any time with a `discount` γ. After `calls` calls none is made (`spent`). With `stops_early`, n calls on an action
    that the log never tried, and that has fewer than 2d rewards, count as (n + 2)/3: one that disappoints gets no more.
    """

    call_cost: float
    horizon: int | None
    discount: float | None
    calls: int | None
    stops_early: bool = True
    tolerance: ClassVar[float] = 0.0  # of spot checks
    name: ClassVar[str] = "not-worth-it"
    code: ClassVar[int] = choice.NOT_WORTH

    def header(self) -> dict[str, Any]:
        found = super().header()
        if not self.stops_early:  # as files have been before any did
            del found["stops_early"]
        return found

    def rounds_left(self, rounds: int) -> float:
        """H: the rounds after this one, if `rounds` have been decided."""
        if self.discount is not None:
            return self.discount / (1 - self.discount)
        return float((self.horizon or 0) - rounds - 1)


EXPLORERS = {
    "leader": choice.LEADER,
    "optimistic": choice.OPTIMISTIC,
    "wider": choice.WIDER,
    "wider-rival": choice.WIDER_RIVAL,
    "sampled": choice.SAMPLED,
    "worthiest": choice.HIGHEST_VOI,
}
"""What a call plays: the highest upper bound (`optimistic`: with the coefficient for so many eligible actions); the less
certain of it and the next (`wider`), or of the best mean and its likeliest rival (`wider-rival`); the best of one posterior
sample; the highest value of information (`worthiest`).
"""

TOGETHER = {
    (): ("leader", "optimistic", "sampled"),
    ("supported",): ("leader",),
    ("log-beats",): ("leader",),
    ("log-beats", "supported"): ("leader",),
    ("certified",): ("leader", "wider"),
    ("confident",): ("leader", "optimistic", "wider-rival", "sampled"),
    ("not-worth-it",): ("worthiest",),
}
"""Built-in rules, in order, that compiled code can combine, and their explorers."""


def compile_rules(rules: Sequence[Any], explore: str, optimism: float, spot_check: float) -> choice.RulePlan:
    """The plan that compiled code follows."""
    built_in = [rule for rule in rules if not is_custom(rule)]
    names = tuple(rule.name for rule in built_in)
    if explore not in TOGETHER.get(names, ()):
        raise SettingError(
            f"the rules {', '.join(names) or 'none'} with explore={explore!r}; built-in rules go together as "
            f"{'; '.join(', '.join(known) or 'none' for known in TOGETHER)}, with {', '.join(EXPLORERS)} where "
            "that fits. Write a rule of your own (docs/adding-an-algorithm.md)"
        )
    first, second = (*(rule.code for rule in built_in), choice.EXPLORE, choice.EXPLORE)[:2]

    def setting(name: str, default: Any) -> Any:
        return next((getattr(rule, name) for rule in built_in if hasattr(rule, name)), default)

    return choice.RulePlan(
        first,
        second,
        EXPLORERS[explore],
        optimism,
        tolerance=setting("tolerance", -np.inf),
        limit=1 - setting("confidence", 1.0),
        spot_check=spot_check,
        covariance_factor=math.sqrt(2) if setting("strict", False) else 1.0,
        price=setting("call_cost", 0.0),
        discount_per_round=float(setting("discount", 1.0) is None),
        stops_early=setting("stops_early", False),
    )


def is_custom(rule: SkipRule) -> bool:
    return not hasattr(rule, "code")
