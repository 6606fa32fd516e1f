"""What a call may cost: as it was said, or so much that a budget of calls lasts."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparing.errors import SettingError
from sparing.online.engine import choosing, running
from sparing.online.rules import Economical, plan
from sparing.validation import fraction, integer, number

if TYPE_CHECKING:
    from sparing.online.learner import Learner

WORLDS = 8
"""Worlds that a price is tried in."""

CLOSE = 1.1
"""Prices are found up to this factor."""

CHEAPEST = 1e-6
"""The smallest price that is tried, as a share of the largest at which a call could repay itself."""

CHUNK = 1000
"""Rounds that are played at once."""

LASTING = 3.0
"""Of a discounted future, rounds up to so many times 1/(1 − γ) are played: 95 % of all that counts."""


def terms(
    call_cost: float | None, horizon: int | None, discount: float | None, calls: int | None, *, rows: int
) -> Economical:
    """The rule that these settings make; a price that must be found is 0 yet."""
    if call_cost is None and calls is None:
        raise SettingError(
            "economical needs to know what a reward costs, in the reward's units (call_cost=0.05), or how many may be asked "
            "for (calls=500)"
        )
    if horizon is not None and discount is not None:
        raise SettingError(
            f"horizon={horizon!r} and discount={discount!r}; give one of them: how many rounds there will be, or what a round "
            "counts beside the one before it"
        )
    if calls is not None:
        calls = integer("calls", calls)
    cost = 0.0 if call_cost is None else number("call_cost", call_cost, least=0)
    if discount is not None:
        return Economical(cost, None, fraction("discount", discount), calls)
    length = rows if horizon is None else integer("horizon", horizon, least=1)
    return Economical(cost, length, None, calls)


def reprice(learner: "Learner", cost: float) -> None:
    """Let a call cost so much from now on."""
    (rule,) = learner.rules
    assert isinstance(rule, Economical)
    learner.rules = (replace(rule, call_cost=cost),)
    learner.plan = plan(learner.rules, learner.explore, learner.optimism, learner.spot_check)
    learner.rename(learner.action_names)


def price_for(learner: "Learner", calls: int) -> float:
    """The smallest price at which worlds drawn from a learner's posterior want at most so many calls on average."""
    dear = dearest(learner)
    if not calls or not dear > 0:
        return dear
    low, high = CHEAPEST * dear, dear
    if lasts(learner, low, calls):
        return low
    while high > CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if lasts(learner, middle, calls) else (middle, high)
    return high


def dearest(learner: "Learner") -> float:
    """A price at which no call could repay itself, whatever it told: H·max_a mean_j ψ(g_j, s_j) is no more."""
    sets, (rule,) = learner.sets, learner.rules
    assert isinstance(rule, Economical)
    contexts, theta = sets.arrays.reservoir, sets.theta
    squares = np.einsum("jd,kde,je->jk", contexts, sets.inverse, contexts, optimize=True)
    widest = float(sets.arrays.common) * np.sqrt(np.maximum(squares, 0.0))
    gains = widest.mean(axis=0) / math.sqrt(2 * math.pi)  # ψ(g, s) ≤ ψ(0, s) = s/√(2π)
    return max(rule.left(learner.rounds), 0.0) * float(gains.max()) if len(theta) > 1 else 0.0


def lasts(learner: "Learner", cost: float, calls: int) -> bool:
    """Whether a learner makes at most so many calls at this price, on average over worlds drawn from its posterior."""
    left = WORLDS * calls
    for world in range(WORLDS):
        left -= _calls(learner, cost, left + 1, world)
        if left < 0:
            return False
    return True


def _calls(learner: "Learner", cost: float, most: int, world: int) -> int:
    """Calls in one world, up to `most`: θ_a ~ N(θ̂_a, σ²V_a⁻¹), contexts from the reservoir."""
    twin = learner.copy()
    twin.rules = (replace(twin.rules[0], calls=None),)  # type: ignore[type-var]
    reprice(twin, cost)
    rng, sets, (rule,) = np.random.default_rng([world, 12]), twin.sets, twin.rules
    assert isinstance(rule, Economical)
    noise, pool = float(sets.arrays.common), sets.arrays.reservoir
    root = noise * np.linalg.cholesky(sets.inverse)
    theta = sets.theta + np.einsum("kij,kj->ki", root, rng.standard_normal(sets.theta.shape))
    rounds = rule.horizon if rule.discount is None else math.ceil(LASTING / (1 - rule.discount))
    done, made = 0, 0
    while done < (rounds or 0) and made < most:
        length = min(CHUNK, (rounds or 0) - done)
        x = pool[rng.integers(len(pool), size=length)]
        called = _play(twin, x, x @ theta.T, noise * rng.standard_normal(length))
        done, made = done + length, made + called
        # The future only shortens: a state in which no context is worth a call stays as it is.
        if not called and not twin.decide_many(pool, threads=1).needs_reward.any():
            break
    return min(made, most)


def _play(learner: "Learner", x: np.ndarray, means: np.ndarray, draws: np.ndarray) -> int:
    """Calls of some rounds with contexts x (n, d), mean rewards (n, K) and noise (n,)."""
    n, start, called = len(x), 0, 0
    actions, codes = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    nothing = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    while start < n:
        sets = learner.sets
        sets.make_room()
        same = (*nothing, learner.key, learner.rounds - start)
        stop, _ = running.run(
            sets.desk.settled, x, means, draws, False, *same, start, n, -1, actions, codes, sets.bounds
        )
        made = int(
            (codes[start:stop] == choosing.EXPLORE).sum() + (codes[start:stop] == choosing.SPOT_CHECK).sum()
        )
        learner.count(rounds=stop - start, calls=made)
        called += made
        if stop == start:
            learner.decide(x[start])  # says why it is refused
        start = stop
    return called
