"""Skip rules: when a round can be answered without paying for its reward, and with which action."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from sparing.online import kernels


@dataclass(slots=True)
class View:
    """One round as a rule sees it: the sets at x, who may be played, and the proposed leader a*.

    mean, spread, top (K,) are the centre, half-width and top of each action's set at x. `luck` is the key
    of the round's random numbers (engine/luck.py).
    """

    x: np.ndarray
    context_id: Hashable | None
    mean: np.ndarray
    spread: np.ndarray
    top: np.ndarray
    eligible: np.ndarray
    priority: np.ndarray
    leader: int
    luck: int = 0

    def best(self, scores: np.ndarray, *, other_than: int = -1) -> int:
        """The eligible action with the largest score, ties by priority; −1 if there is none."""
        return kernels.best(scores, self.eligible, self.priority, other_than)


class SkipRule(Protocol):
    """Answers a round without a reward call, or passes (None)."""

    name: ClassVar[str]

    def answer(self, view: View) -> int | None:
        """The action to answer with, or None to let the next rule see the round."""

    def header(self) -> dict[str, Any]:
        """What to save as JSON."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What to save as arrays."""


@dataclass
class Supported:
    """`supported`: the leader is one of the actions the log has taught; answer it."""

    frozen: np.ndarray
    name: ClassVar[str] = "supported"

    def answer(self, view: View) -> int | None:
        """a* ∈ 𝓛 → a*."""
        return view.leader if self.frozen[view.leader] else None

    def header(self) -> dict[str, Any]:
        """Nothing beyond the sets' frozen actions."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """The actions in 𝓛."""
        return {"frozen": self.frozen}


@dataclass
class Certified:
    """`certified`: no rival can beat the leader by more than the tolerance; answer the leader."""

    tolerance: float
    name: ClassVar[str] = "certified"

    def answer(self, view: View) -> int | None:
        """max_{b≠a*} U_b(x) − L_{a*}(x) ≤ τ → a*."""
        if self.tolerance == -np.inf:
            return None
        rival = view.best(view.top, other_than=view.leader)
        low = view.mean[view.leader] - view.spread[view.leader]
        return view.leader if rival < 0 or view.top[rival] - low <= self.tolerance else None

    def header(self) -> dict[str, Any]:
        """The tolerance τ."""
        return {"tolerance": self.tolerance}

    def arrays(self) -> dict[str, np.ndarray]:
        """None."""
        return {}


@dataclass
class Confident:
    """`confident`: the posterior doubts the best mean by 1 − confidence or less; answer it."""

    tolerance: float
    confidence: float
    name: ClassVar[str] = "confident"

    def answer(self, view: View) -> int | None:
        """Σ_{b≠a} Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)) ≤ 1 − c → a = argmax m."""
        leader = view.best(view.mean)
        doubt = kernels.doubts(
            view.mean, view.spread, view.eligible, leader, self.tolerance, np.empty(len(view.mean))
        )
        return leader if doubt <= 1 - self.confidence else None

    def header(self) -> dict[str, Any]:
        """The tolerance τ and the confidence c."""
        return {"tolerance": self.tolerance, "confidence": self.confidence}

    def arrays(self) -> dict[str, np.ndarray]:
        """None."""
        return {}
