"""Logging policies with deficient support, and logs drawn from them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.hashing import splitmix64
from sparing.log import Log, Support
from sparing.policies.policy import Policy, StochasticPolicy, sample, softmax
from sparing.simulation.worlds import RoutingWorld, World
from sparing.validation import fraction, integer, one_of

SAMPLE = 4096  # contexts that set the thresholds of a policy
TRAINING = 50  # training rows per action of the `sharpened` logger


@dataclass(frozen=True, eq=False, repr=False)
class LoggingPolicy(StochasticPolicy):
    """A policy given by a function that returns its probabilities; actions of probability 0 are unsupported."""

    table: Callable[[np.ndarray], np.ndarray]

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """μ(a|x), (n, K)."""
        return self.table(np.asarray(contexts, dtype=np.float64))


def per_context(world: World, unsupported: float, rng: np.random.Generator) -> LoggingPolicy:
    """Give each context its own random set of unsupported actions, uniform on the rest (as in the paper).

    The set is a function of a hash of the context, so a repeated context keeps it. Every action is still logged about n/K times
    for any `unsupported`, and regression learns them all.
    """
    k = len(world.action_names)
    removed = min(round(unsupported * k), k - 1)
    salt = rng.integers(0, 2**64, size=k, dtype=np.uint64)

    def table(contexts: np.ndarray) -> np.ndarray:
        ranks = splitmix64(_hashed(contexts)[:, None] ^ salt).argsort(axis=1).argsort(axis=1)
        return uniform_on(ranks >= removed)

    return LoggingPolicy(world.action_names, table)


def never_logged(world: World, unsupported: float, rng: np.random.Generator) -> LoggingPolicy:
    """Never log a fixed random set of actions (new items); uniform on the rest."""
    k = len(world.action_names)
    never = rng.permutation(k)[: min(round(unsupported * k), k - 1)]
    return without(world, [world.action_names[a] for a in never])


def without(world: World, never: Sequence[Hashable]) -> LoggingPolicy:
    """Never log these actions; uniform on the others."""
    unknown = [name for name in never if name not in world.action_names]
    if unknown or set(never) >= set(world.action_names):
        raise SettingError(f"never={list(never)!r}; must be some, not all, of {world.action_names!r}")
    supported = np.array([[name not in never for name in world.action_names]])
    return _fixed(world, uniform_on(supported))


def _fixed(world: World, shares: np.ndarray) -> LoggingPolicy:
    return LoggingPolicy(world.action_names, lambda contexts: np.tile(shares, (len(contexts), 1)))


def region(world: World, unsupported: float, rng: np.random.Generator) -> LoggingPolicy:
    """Support each action only in a half-space of contexts of its own; uniform on the supported ones."""
    k = len(world.action_names)
    contexts = world.live_stream(SAMPLE, rng).contexts
    directions = rng.standard_normal((k, world.n_features))
    bars = np.quantile(contexts @ directions.T, unsupported, axis=0)
    if unsupported == 0:
        bars[:] = -np.inf  # the sample's lowest margin is not a lower bound

    def table(contexts: np.ndarray) -> np.ndarray:
        margin = contexts @ directions.T - bars
        return uniform_on((margin >= 0) | (margin == margin.max(axis=1, keepdims=True)))

    return LoggingPolicy(world.action_names, table)


def sharpened(world: World, unsupported: float, rng: np.random.Generator) -> LoggingPolicy:
    """Softmax of a trained logger's scores, with small probabilities set to 0 and the rest renormalised."""
    k, d = len(world.action_names), world.n_features
    stream = world.live_stream(TRAINING * k, rng)
    tried = rng.integers(0, k, len(stream))
    rewards = stream.rewards(tried)
    theta = np.zeros((k, d))
    for a in range(k):
        x, r = stream.contexts[tried == a], rewards[tried == a]
        theta[a] = np.linalg.solve(x.T @ x + np.eye(d), x.T @ r)
    scores = world.live_stream(SAMPLE, rng).contexts @ theta.T
    temperature = max(float(scores.std(axis=1).mean()) / 2, 1e-9)

    def sharp(scores: np.ndarray) -> np.ndarray:
        return softmax((scores - scores.max(axis=1, keepdims=True)) / temperature)

    cut = np.quantile(sharp(scores), unsupported) if unsupported else 0.0

    def table(contexts: np.ndarray) -> np.ndarray:
        chances = sharp(contexts @ theta.T)
        chances[(chances < cut) & (chances < chances.max(axis=1, keepdims=True))] = 0
        return chances / chances.sum(axis=1, keepdims=True)

    return LoggingPolicy(world.action_names, table)


LOGGING = {
    "per-context": per_context,
    "never-logged": never_logged,
    "region": region,
    "sharpened": sharpened,
}


def logging_policy(support: str, world: World, *, unsupported: float, seed: int = 0) -> LoggingPolicy:
    """Return the named logging policy of a world.

    Parameters
    ----------
    support : str
        A name of `LOGGING`.
    world : World
    unsupported : float
        Mean share n^UA of unsupported actions, in [0, 1).
    seed : int
        Seed of the policy.
    """
    fraction("unsupported", unsupported, zero=True)
    return LOGGING[one_of("support", support, LOGGING)](world, unsupported, np.random.default_rng([seed, 1]))


def draw_log(
    world: World,
    *,
    rows: int | None = None,
    support: str = "per-context",
    unsupported: float = 0.2,
    never: Sequence[Hashable] | None = None,
    policy: Policy | None = None,
    seed: int = 0,
) -> Log:
    """Draw a log from a world under a logging policy; propensities and exact support are recorded.

    Parameters
    ----------
    world : World
    rows : int, optional
        Number of rows; a world of given rows logs all of its own by default.
    support : str
        A logging policy of `LOGGING`.
    unsupported : float
        Mean share of unsupported actions under it.
    never : sequence, optional
        Actions that are never logged, instead of `support`.
    policy : Policy, optional
        A logging policy of your own, instead of `support`.
    seed : int
        Seed of the policy and of the rows.

    Returns
    -------
    Log

    Examples
    --------
    >>> world = sparing.simulation.LinearWorld(n_actions=6, n_features=3, seed=0)
    >>> log = sparing.simulation.draw_log(world, rows=800, support="never-logged", seed=1)
    """
    if never is not None and policy is not None:
        raise SettingError("got never and policy; give one of them")
    rng = np.random.default_rng([integer("seed", seed), 2])
    if never is not None:
        policy = without(world, never)
    elif policy is None:
        policy = logging_policy(support, world, unsupported=unsupported, seed=seed)
    stream = world.log_stream(rows, rng)
    distribution = policy.probabilities(stream.contexts)
    actions = sample(distribution, rng)
    return Log.from_indices(
        stream.contexts.copy(),
        actions.astype(np.int32),
        stream.rewards(actions),
        world.action_names,
        propensities=distribution[np.arange(len(actions)), actions],
        support=Support.from_distribution(distribution),
        context_ids=stream.context_ids,
        encoder=getattr(world, "encoder", None),
    )


def hidden_model_log(
    world: RoutingWorld, *, hidden: str | None = None, favoured: float = 0.85, seed: int = 0
) -> Log:
    """Draw a log of prompts in which one model is never played: the most expensive one, or `hidden`.

    Of the others the cheapest gets the share `favoured` of all prompts, and the rest share what is left.

    Parameters
    ----------
    world : RoutingWorld
        The prompts and models; the models are ordered by cost.
    hidden : str, optional
        Model that is never played; by default the last one.
    favoured : float
        Share of the prompts that the first of the other models gets, in (0, 1).
    seed : int
        Seed of the log.
    """
    names = world.action_names
    never = names[-1] if hidden is None else one_of("hidden", hidden, names)
    logged = np.array([name != never for name in names])
    shares = np.where(logged, (1 - fraction("favoured", favoured)) / (logged.sum() - 1), 0.0)
    shares[logged.argmax()] = favoured
    return draw_log(world, policy=_fixed(world, shares), seed=seed)


def uniform_on(supported: np.ndarray) -> np.ndarray:
    """Return the uniform distribution on each row's supported actions, (n, K)."""
    return supported / supported.sum(axis=1, keepdims=True)


def _hashed(contexts: np.ndarray) -> np.ndarray:
    words = np.ascontiguousarray(contexts + 0.0).view(np.uint64)
    state = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        state = splitmix64(state ^ column)
    return state
