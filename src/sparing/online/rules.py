"""Skip rules: when a round can be answered without paying for its reward, and with which action.

The built-in ones are data: compiled code does what they say (engine/choice.py). A rule of your own is an object
with an `answer`, and is asked before them.
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
"""Names of the reasons, by their number in choice.py; an unsure call is one like any other."""


@dataclass(slots=True)
class RoundView:
    """One round as a rule of your own sees it: the sets at x, who may be played, and the proposed leader a*.

    mean, spread, top (K,) are the centre, half-width and top of each action's set at x. `luck` is the key
    of the round's random numbers (engine/random_stream.py).
    """

    x: np.ndarray
    context_id: Hashable | None
    mean: np.ndarray
    spread: np.ndarray
    top: np.ndarray
    eligible: np.ndarray
    priority: np.ndarray
    luck: int = 0

    @property
    def leader(self) -> int:
        """a*: the eligible action with the highest top."""
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
    """What every rule can say of itself."""

    name: ClassVar[str]

    def header(self) -> dict[str, Any]:
        """What to save as JSON."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What to save as arrays."""


class CustomRule(SkipRule, Protocol):
    """A rule in Python: answers a round without a reward call, or passes (None)."""

    def answer(self, view: RoundView) -> int | None:
        """The action to answer with, or None to let the next rule see the round."""


class BuiltInRule:
    """A rule as data; `code` is its number in choice.py."""

    name: ClassVar[str]
    code: ClassVar[int]

    def header(self) -> dict[str, Any]:
        """Its numbers."""
        return {name: value for name, value in self._fields() if not isinstance(value, np.ndarray)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays."""
        return {name: value for name, value in self._fields() if isinstance(value, np.ndarray)}

    def _fields(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]


@dataclass
class SupportedRule(BuiltInRule):
    """`supported`: the leader is one of the actions the log has taught: a* ∈ 𝓛 → a*."""

    frozen: np.ndarray
    name: ClassVar[str] = "supported"
    code: ClassVar[int] = choice.SUPPORTED


@dataclass
class CertifiedRule(BuiltInRule):
    """`certified`: no rival can beat the leader by more than τ: max_{b≠a*} U_b(x) − L_{a*}(x) ≤ τ → a*."""

    tolerance: float
    name: ClassVar[str] = "certified"
    code: ClassVar[int] = choice.CERTIFIED


@dataclass
class ConfidentRule(BuiltInRule):
    """`confident`: the posterior doubts the best mean by 1 − c or less.

    Σ_{b≠a} Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)) ≤ 1 − c → a = argmax m. `strict` takes √2 times the deviation of a
    difference: s_a + s_b ≤ √2·sqrt(s_a² + s_b²), however the two are correlated.
    """

    tolerance: float
    confidence: float
    strict: bool = False
    name: ClassVar[str] = "confident"
    code: ClassVar[int] = choice.CONFIDENT


@dataclass
class EconomicalRule(BuiltInRule):
    """`not-worth-it`: no call repays its price c over the rounds to come: max_a worth_a(x) ≤ 0 → argmax m.

    worth_a = max_n (H − n + 1)·mean_j ψ(g_j, s_j(n))/n − c − (max m − m_a). Of the rounds to come there are `horizon` in all,
    or γ/(1 − γ) at any time with a `discount` γ. After so many `calls` none is made (`spent`).
    """

    call_cost: float
    horizon: int | None
    discount: float | None
    calls: int | None
    name: ClassVar[str] = "not-worth-it"
    code: ClassVar[int] = choice.NOT_WORTH

    def left(self, rounds: int) -> float:
        """H: the rounds after this one, where so many have been."""
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
"""What a call plays: the highest top (`optimistic`: with as much optimism as so many eligible actions need); of it and the next, or of the best mean and its likeliest rival, the one known
less; the best of one draw from the posterior; the one whose reward is worth most."""

TOGETHER = {
    (): ("leader", "optimistic", "sampled"),
    ("supported",): ("leader",),
    ("log-beats",): ("leader",),
    ("log-beats", "supported"): ("leader",),
    ("certified",): ("leader", "wider"),
    ("confident",): ("leader", "optimistic", "wider-rival", "sampled"),
    ("not-worth-it",): ("worthiest",),
}
"""Built-in rules, in order, that compiled code has together, and the explorers that go with them."""


def compile_rules(rules: Sequence[Any], explore: str, optimism: float, spot_check: float) -> choice.RulePlan:
    """What the compiled code is to do."""
    built_in = [rule for rule in rules if not is_custom(rule)]
    names = tuple(rule.name for rule in built_in)
    if explore not in TOGETHER.get(names, ()):
        raise SettingError(
            f"the rules {', '.join(names) or 'none'} with explore={explore!r}; built-in rules go together as "
            f"{'; '.join(', '.join(known) or 'none' for known in TOGETHER)}, with {', '.join(EXPLORERS)} where "
            "that fits. Write a rule of your own (docs/adding-an-algorithm.md)"
        )
    first, second = (*(rule.code for rule in built_in), choice.EXPLORE, choice.EXPLORE)[:2]
    tolerance = next((rule.tolerance for rule in built_in if hasattr(rule, "tolerance")), -np.inf)
    limit = next((1 - rule.confidence for rule in built_in if hasattr(rule, "confidence")), 0.0)
    caution = math.sqrt(2) if any(getattr(rule, "strict", False) for rule in built_in) else 1.0
    price = next((rule.call_cost for rule in built_in if isinstance(rule, EconomicalRule)), 0.0)
    passing = float(any(isinstance(rule, EconomicalRule) and rule.discount is None for rule in built_in))
    tolerance = 0.0 if first == choice.NOT_WORTH else tolerance  # of spot checks
    explorer = EXPLORERS[explore]
    return choice.RulePlan(
        first, second, explorer, optimism, tolerance, limit, spot_check, caution, price, passing
    )


def is_custom(rule: SkipRule) -> bool:
    """Whether a rule is written in Python."""
    return not hasattr(rule, "code")
