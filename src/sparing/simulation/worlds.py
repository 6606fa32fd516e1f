"""Simulated worlds: contexts, and the expected reward of each action."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.features import Encoder, Features, text
from sparing.log.tables import open_table
from sparing.policies.policy import Policy
from sparing.simulation.datasets import Dataset, Routing, prompt_features
from sparing.validation import integer, number, one_of

NOT_LOGGED = -1  # id of a context that is in no log
# Shares of rows to log and to play live; the rest is held out.
SPLITS = {"default": (0.60, 0.25), "paper": (0.70, 0.30)}


@dataclass(frozen=True, eq=False)
class Stream:
    """Future rounds with their noise already drawn, so that all learners meet the same.

    Attributes
    ----------
    contexts : array of shape (T, d)
    means : array of shape (T, K)
        Expected rewards.
    draws : array of shape (T,)
        Noise added to the mean; if `binary`, a uniform number: the reward is 1 where the mean exceeds it.
    context_ids : array of shape (T,), optional
    binary : bool
        Whether rewards are 0 or 1.
    """

    contexts: np.ndarray
    means: np.ndarray
    draws: np.ndarray
    context_ids: np.ndarray | None = None
    binary: bool = False

    def __len__(self) -> int:
        return len(self.contexts)

    def reward(self, t: int, action: int) -> float:
        """Return the reward of an action in round t.

        Parameters
        ----------
        t : int
            Number of the round, from 0.
        action : int
        """
        mean, draw = self.means[t, action], self.draws[t]
        return float(draw < mean) if self.binary else float(mean + draw)

    def rewards(self, actions: np.ndarray) -> np.ndarray:
        """Return the rewards of actions (T,), one per round.

        Parameters
        ----------
        actions : array of shape (T,)
            Index of the action in each round.
        """
        means = self.means[np.arange(len(self)), actions]
        return (self.draws < means).astype(float) if self.binary else means + self.draws


class World(Protocol):
    """What `simulate` needs of a world."""

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The labels of the actions."""

    @property
    def n_features(self) -> int:
        """Length of a context."""

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """Rounds for the logging policy.

        Parameters
        ----------
        rows : int or None
            Number of rounds; None means all rows of a world that has a fixed number.
        rng : numpy.random.Generator
            Source of contexts and noise.
        """

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        """Rounds for a learner: fresh ones, or the contexts of a log again (with new noise).

        Parameters
        ----------
        rounds : int or None
            Number of rounds; None means all rows of a world that has a fixed number.
        rng : numpy.random.Generator
            Source of contexts, order and noise.
        log : Log, optional
            Log whose contexts are played again.
        """


class LinearWorld:
    """Linear rewards, r = x·θ_a + noise: the paper's synthetic world.

    Parameters
    ----------
    n_actions, n_features : int
        K and d.
    noise : float
        Standard deviation of a reward around its mean.
    seed : int
        Seed of θ_a ~ N(0, I).
    theta : array of shape (K, d), optional
        Parameters, instead of random ones.
    offset : float
        If not 0, the last feature is 1 and its parameter is raised by this for every action.
    pool : array of shape (m, d), optional
        Contexts to draw from with replacement, instead of uniform ones on [0, 1]^d; they count as not logged.
    action_names : sequence, optional
        Labels; by default 0 to K − 1.
    """

    def __init__(
        self,
        *,
        n_actions: int = 20,
        n_features: int = 5,
        noise: float = 2.0,
        seed: int = 0,
        theta: np.ndarray | None = None,
        offset: float = 0.0,
        pool: np.ndarray | None = None,
        action_names: Sequence[Hashable] | None = None,
    ) -> None:
        shape = integer("n_actions", n_actions, least=1), integer("n_features", n_features, least=1)
        self.noise, self.offset = number("noise", noise, least=0), number("offset", offset)
        if theta is None:
            theta = np.random.default_rng(seed).standard_normal(shape)
            theta[:, -1] += offset
        self.theta = np.array(theta, dtype=np.float64)
        if self.theta.ndim != 2 or not self.theta.size or not np.isfinite(self.theta).all():
            raise SettingError(f"theta of shape {self.theta.shape}; expected finite (actions, features)")
        self.n_features = self.theta.shape[1]
        if pool is not None and (pool.shape[1:] != (self.n_features,) or not len(pool)):
            raise SettingError(
                f"pool of shape {pool.shape}; expected some contexts of {self.n_features} features"
            )
        self.pool = pool
        self.action_names = tuple(range(len(self.theta)) if action_names is None else action_names)
        if len(self.action_names) != len(self.theta):
            raise SettingError(f"{len(self.action_names)} action names; theta has {len(self.theta)} actions")

    def contexts(self, rounds: int, rng: np.random.Generator) -> np.ndarray:
        """Draw contexts, (rounds, d).

        Parameters
        ----------
        rounds : int
        rng : numpy.random.Generator
        """
        if self.pool is not None:
            return self.pool[rng.integers(0, len(self.pool), rounds)]
        contexts = rng.random((rounds, self.n_features))
        if self.offset:
            contexts[:, -1] = 1
        return contexts

    def means(self, contexts: np.ndarray) -> np.ndarray:
        """Expected rewards x·θ_a, (n, K).

        Parameters
        ----------
        contexts : array of shape (n, d)
        """
        return contexts @ self.theta.T

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """Return rounds for the logging policy, with fresh contexts.

        Parameters
        ----------
        rows : int
        rng : numpy.random.Generator
        """
        rows = integer("rows", rows, hint="; say how many a linear world should log")
        return self._stream(self.contexts(rows, rng), np.arange(rows), rng)

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        """Return rounds with fresh contexts; or with a log's in random order, then fresh ones.

        Parameters
        ----------
        rounds : int
        rng : numpy.random.Generator
        log : Log, optional
            Log whose contexts come first.
        """
        rounds = integer("rounds", rounds, hint="; say how many to play in a linear world")
        contexts = self.contexts(rounds, rng)
        ids = np.full(rounds, NOT_LOGGED)
        if log is not None:
            again = rng.permutation(log.n_rows)[:rounds]
            contexts[: len(again)] = log.contexts[again]
            known = again if log.context_ids is None else log.context_ids[again]
            known = known if known.dtype.kind == "U" else known.astype(np.int64)
            ids = np.concatenate([known, ids[len(again) :]])
        return self._stream(contexts, ids, rng)

    def _stream(self, contexts: np.ndarray, ids: np.ndarray, rng: np.random.Generator) -> Stream:
        draws = self.noise * rng.standard_normal(len(contexts))
        return Stream(contexts, self.means(contexts), draws, ids)


class ChangingWorld:
    """A linear world whose rewards change while a learner is live; the log is of the first.

    Parameters
    ----------
    worlds : sequence of LinearWorld
        What rewards are like, in order; contexts and noise are those of the first.
    changes : sequence of int
        Live rounds, ascending, from which each world but the first holds; 0 is a change between log and live.

    Examples
    --------
    >>> first = sparing.simulation.LinearWorld(n_actions=5, n_features=3, seed=0)
    >>> later = sparing.simulation.LinearWorld(theta=first.theta[::-1])
    >>> world = sparing.simulation.ChangingWorld([first, later], [5000])
    """

    def __init__(self, worlds: Sequence[LinearWorld], changes: Sequence[int]) -> None:
        self.worlds, self.changes = tuple(worlds), [integer("changes", each) for each in changes]
        if len(self.worlds) != len(self.changes) + 1 or self.changes != sorted(self.changes):
            raise SettingError(
                f"{len(self.worlds)} worlds and changes={self.changes}; expected an ascending round for each world but the first"
            )
        shapes = {world.theta.shape for world in self.worlds}
        if len(shapes) > 1:
            raise SettingError(f"worlds of (actions, features) {sorted(shapes)}; they must agree")
        self.action_names, self.n_features = self.worlds[0].action_names, self.worlds[0].n_features

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """Return rounds for the logging policy, before any change.

        Parameters
        ----------
        rows : int
        rng : numpy.random.Generator
        """
        return self.worlds[0].log_stream(rows, rng)

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        """Return live rounds, with all changes.

        Parameters
        ----------
        rounds : int
        rng : numpy.random.Generator
        log : Log, optional
            Log whose contexts come first, as in `LinearWorld`.
        """
        stream = self.worlds[0].live_stream(rounds, rng, log)
        means = stream.means.copy()
        for world, start in zip(self.worlds[1:], self.changes, strict=True):
            means[start:] = world.means(stream.contexts[start:])
        return replace(stream, means=means)


class _RowsWorld(ABC):
    """A world of given rows: features (n, d), some rows to log and some to play live."""

    name: str
    features: np.ndarray
    log_rows: np.ndarray
    live_rows: np.ndarray
    encoder: Encoder | None = None
    """Encodes raw contexts; None if they are numbers."""

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @abstractmethod
    def _stream(self, rows: np.ndarray, rng: np.random.Generator) -> Stream:
        """These rows as rounds."""

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        if rows is not None and not 0 <= rows <= len(self.log_rows):
            raise SettingError(f"rows={rows}; {self.name} has 0 to {len(self.log_rows)} rows to log")
        return self._stream(self.log_rows[:rows], rng)

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        rows = self.live_rows if log is None else self._rows_of(log)
        wanted = len(rows) if rounds is None else rounds
        if wanted and not len(rows):
            raise SettingError(f"rounds={wanted}, but there are no rows to play; use a log that has some")
        passes = [rng.permutation(rows) for _ in range(-(-wanted // max(1, len(rows))))]
        return self._stream(np.concatenate([rows[:0], *passes])[:wanted], rng)

    def _rows_of(self, log: Log) -> np.ndarray:
        ids = log.context_ids
        if ids is None or ids.dtype.kind not in "iu" or ((ids < 0) | (ids >= len(self.features))).any():
            raise SettingError(
                f"the log's context ids do not number rows of {self.name}; draw it from this world with draw_log"
            )
        return ids


class ClassificationWorld(_RowsWorld):
    """A classification set as a world: classes are actions, the right one has reward 1, others 0.

    Features are scaled to [0, 1], a constant is added, and each context has unit norm. Rows are split at random into a part to
    log, a part to play live and a held-out part to score policies on.

    Parameters
    ----------
    dataset : Dataset
    noisy : bool
        Replace the reward by a fair coin half of the time.
    split : {"default", "paper"}
        Shares to log and to play live: 60 % and 25 %, or 70 % and 30 % with nothing held out.
    seed : int
        Seed of the split.
    """

    def __init__(
        self, dataset: Dataset, *, noisy: bool = False, split: str = "default", seed: int = 0
    ) -> None:
        to_log, to_play = SPLITS[one_of("split", split, SPLITS)]
        self.name, self.noisy = dataset.name, noisy
        self.features, self.labels = prepared(dataset.features), dataset.labels
        self.classes = self.action_names = dataset.classes
        n = len(self.labels)
        order = np.random.default_rng(seed).permutation(n)
        first, second = round(n * to_log), round(n * (to_log + to_play))
        self.log_rows, self.live_rows, self.held_out_rows = order[:first], order[first:second], order[second:]

    def _stream(self, rows: np.ndarray, rng: np.random.Generator) -> Stream:
        right = self.labels[rows][:, None] == np.arange(len(self.classes))
        if not self.noisy:
            return Stream(self.features[rows], right.astype(float), np.zeros(len(rows)), rows)
        means = np.where(right, 0.75, 0.25)
        return Stream(self.features[rows], means, rng.random(len(rows)), rows, binary=True)

    def error(self, policy: Policy, rng: np.random.Generator | None = None) -> float:
        """Return the share of held-out rows that a policy gets wrong.

        Parameters
        ----------
        policy : Policy
            A policy whose actions are the classes.
        rng : numpy.random.Generator, optional
            Source of a random policy's actions.
        """
        rows = self.held_out_rows
        if not len(rows):
            raise SettingError("split='paper' leaves no rows to score a policy on; use split='default'")
        return float((policy.indices(self.features[rows], rng) != self.labels[rows]).mean())


class RoutingWorld(_RowsWorld):
    """Routing of prompts to language models: r = quality − cost_weight·cost, as recorded, without noise.

    Prompts of `val` are logged, those of `test_holdout` played live. A context is `{"prompt": TEXT}`, encoded as a text that is
    fitted on `val`.

    Parameters
    ----------
    routing : Routing
    cost_weight : float
        Value of a dollar in units of quality.
    features : {"text", "prompt_features"}
        With "prompt_features", contexts are the 27 numbers of `datasets.prompt_features` instead.
    """

    def __init__(self, routing: Routing, *, cost_weight: float = 0.0, features: str = "text") -> None:
        one_of("features", features, ("text", "prompt_features"))
        self.name, self.action_names = "llm-routing", routing.models
        self.cost_weight = number("cost_weight", cost_weight, least=0)
        self.means = routing.quality - self.cost_weight * routing.cost
        self.log_rows, self.live_rows = routing.rows("val"), routing.rows("test_holdout")
        logged = [routing.prompts[row] for row in self.log_rows]
        if features == "prompt_features":
            self.features = prompt_features(routing.prompts, fitted_on=logged)
        else:
            self.encoder = Features((("prompt", text()),)).fit(open_table({"prompt": logged}), ["prompt"])
            self.features = self.encoder.encode_table({"prompt": list(routing.prompts)})

    def _stream(self, rows: np.ndarray, rng: np.random.Generator) -> Stream:
        return Stream(self.features[rows], self.means[rows], np.zeros(len(rows)), rows)

    def value(self, policy: Policy) -> float:
        """Return the mean reward of a policy on the prompts to play live.

        Parameters
        ----------
        policy : Policy
            A policy whose actions are the models.
        """
        rows = self.live_rows
        return float((policy.probabilities(self.features[rows]) * self.means[rows]).sum(axis=1).mean())


def prepared(features: np.ndarray) -> np.ndarray:
    """Scale each feature to [0, 1] (a constant one to 0), add a constant feature, scale rows to unit norm."""
    low, high = features.min(axis=0), features.max(axis=0)
    scaled = (features - low) / np.where(high > low, high - low, 1)
    joined = np.column_stack([scaled, np.ones(len(scaled))])
    return joined / np.linalg.norm(joined, axis=1, keepdims=True)
