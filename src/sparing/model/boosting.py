"""Boosted reward models, one per action: fitted by scikit-learn, stored as arrays, tuned on held-out contexts."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from sparing.errors import MissingExtraError, SettingError, require
from sparing.log import Log
from sparing.log.passes import Blocks
from sparing.model.crossfitting import Folds, errors_up_to_scale, out_of_fold

LEAST_LEAF, MOST_LEAF, SPLITS = 5, 20, 20  # a leaf has at least N_a/SPLITS rows, within these limits
ROUNDS = (10, 20, 40, 80, 160)  # candidate numbers of trees per action
EARLY = 40  # more rounds are tried only if the largest of these was best
LEARNING_RATE, MOST_LEAVES = 0.1, 15
FEW_ROWS = 20_000  # mean rows per action up to which one thread is faster
SHRINKAGE = 5.0  # rows of average reward added to every action, so that a few high rewards do not decide
PAIRS = 2**17  # (row, tree) pairs per block
MANY_ROWS = 1024  # from here partitioning the rows tree by tree is faster than following all pairs at once


@dataclass(frozen=True, eq=False)
class Trees:
    """Sums of regression trees: score_a(x) = base_a + Σ_t value of x's leaf in tree t, over the trees t of action a.

    base and rows (K,): constant score and number of training rows. roots and owners (T,): first node and action of each tree.
    features, thresholds, right and values (M,): x goes left, to the next node, where x[feature] <= threshold, else to `right`; a
    leaf has right = 0 and a value. `binary`: scores are log-odds of a reward of 1. An action without rows has the mean score of
    the others, so that it is never the best.
    """

    base: np.ndarray
    rows: np.ndarray
    roots: np.ndarray
    owners: np.ndarray
    features: np.ndarray
    thresholds: np.ndarray
    right: np.ndarray
    values: np.ndarray
    n_features: int
    binary: bool = False

    def __post_init__(self) -> None:
        k, trees, nodes = len(self.base), len(self.roots), len(self.features)
        shapes = {"base": k, "rows": k, "roots": trees, "owners": trees}
        shapes |= dict.fromkeys(("features", "thresholds", "right", "values"), nodes)
        for name, size in shapes.items():
            array = getattr(self, name)
            wanted = np.float64 if name in ("base", "thresholds", "values") else np.int64
            if array.shape != (size,) or array.dtype != wanted or not np.isfinite(array).all():
                raise SettingError(
                    f"{name} of shape {array.shape} and type {array.dtype}; expected finite {wanted.__name__} of shape ({size},)"
                )
        if not self._paths_end():
            raise SettingError(
                "the nodes are not trees: every path must lead to later nodes and end at a leaf"
            )

    def _paths_end(self) -> bool:
        # A saved policy is untrusted: nodes that lead only to later nodes cannot form a loop.
        nodes, inner = np.arange(len(self.right)), self.right > 0
        later = (self.right[inner] > nodes[inner] + 1) & (self.right[inner] < len(nodes))
        known = (self.features[inner] >= 0) & (self.features[inner] < self.n_features)
        places = (self.roots >= 0) & (self.roots < len(nodes))
        owned = (self.owners >= 0) & (self.owners < len(self.base))
        return bool(later.all() and known.all() and places.all() and owned.all() and (self.right >= 0).all())

    def scores(self, contexts: np.ndarray) -> np.ndarray:
        """score_a(x), (n, K)."""
        x = np.ascontiguousarray(contexts, dtype=np.float64)
        scores = np.tile(self.base, (len(x), 1))
        # Both ways add an action's trees one after the other, so that the order of its sum is fixed.
        if len(x) >= MANY_ROWS:
            columns = np.ascontiguousarray(x.T)
            for root, owner in zip(self.roots.tolist(), self.owners.tolist(), strict=True):
                scores[:, owner] += self._tree_values(root, columns)
        else:
            number = tree_numbers(self.owners)
            rounds = [np.flatnonzero(number == each) for each in range(number.max(initial=-1) + 1)]
            for rows in Blocks(0, len(x), max(1, PAIRS // max(1, len(self.roots)))):
                values = self.values[self._leaves(x[rows])]
                for trees in rounds:
                    scores[rows, self.owners[trees]] += values[trees].T
        seen = self.rows > 0
        if seen.any() and not seen.all():
            scores[:, ~seen] = scores[:, seen].mean(axis=1, keepdims=True)
        return scores

    def _tree_values(self, root: int, columns: np.ndarray) -> np.ndarray:
        """The values of one tree for contexts (d, n), (n,): rows are partitioned from node to node."""
        values, parts = np.empty(columns.shape[1]), [(root, np.arange(columns.shape[1]))]
        while parts:
            node, rows = parts.pop()
            if self.right[node] == 0:
                values[rows] = self.values[node]
                continue
            left = columns[self.features[node]].take(rows) <= self.thresholds[node]
            parts += [(node + 1, rows.compress(left)), (self.right[node], rows.compress(~left))]
        return values

    def _leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf of each context (m, d) in each tree, (T, m), level by level."""
        node = np.repeat(self.roots, len(x))
        first = np.tile(np.arange(len(x)) * x.shape[1], len(self.roots))  # of each pair's context in flat x
        flat, inner = x.ravel(), self.right > 0
        pairs = np.flatnonzero(inner[node])
        while len(pairs):
            at = node[pairs]
            left = flat[first[pairs] + self.features[at]] <= self.thresholds[at]
            node[pairs] = at = np.where(left, at + 1, self.right[at])
            pairs = pairs[inner[at]]
        return node.reshape(len(self.roots), len(x))

    def rewards(self, contexts: np.ndarray) -> np.ndarray:
        """r̂(x, a), (n, K): the scores, or the probabilities of a reward of 1 if they are log-odds."""
        scores = self.scores(contexts)
        return expit(scores) if self.binary else scores


def tree_numbers(owners: np.ndarray) -> np.ndarray:
    """Index of each tree among the trees of its action, (T,)."""
    order = np.argsort(owners, kind="stable")
    number = np.empty(len(owners), dtype=np.int64)
    number[order] = np.arange(len(owners)) - np.searchsorted(owners[order], owners[order])
    return number


@dataclass(frozen=True, eq=False)
class Boosted:
    """Trees fitted to all rows, and for each fold of contexts the trees fitted without it.

    fold_of (n,) is each row's fold. `rounds` minimises `loss`, the mean held-out (r − α − β·r̂)² with the best α and β ≥ 0,
    which do not change an argmax. Log loss would stop far too early for 0/1 rewards: it punishes overconfidence, not a
    wrong order.
    """

    trees: Trees
    without: tuple[Trees, ...]
    fold_of: np.ndarray
    rounds: int
    loss: float = np.nan

    def held_out(self, contexts: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """r̂(x_i, a) of a log's rows, (rows, K), by the trees fitted without each row's context."""
        x, k = contexts[rows], len(self.trees.base)
        return out_of_fold(self.fold_of[rows], k, lambda fold, held: self.without[fold].rewards(x[held]))


def boost(
    log: Log,
    *,
    folds: int | Folds = 5,
    seed: int = 0,
    rounds: Sequence[int] = ROUNDS,
    purpose: str = "a boosted reward model",
) -> Boosted:
    """Fit a boosted reward model: choose the rounds on held-out contexts, then fit all rows.

    `folds` is a number, or the folds of a longer log of which the rows are a sample.
    """
    if not isinstance(folds, Folds) and log.n_contexts < 2:  # nothing to hold out, and nothing to split
        trees = grow(log, min(rounds), binary=log.binary, seed=seed, purpose=purpose)
        return Boosted(trees, (trees,), np.zeros(log.n_rows, dtype=np.int64), min(rounds))
    folds = folds if isinstance(folds, Folds) else Folds.of(log, folds, seed)
    fold_of, binary = folds.assign_folds(log), log.binary
    parts = [log.take(fold_of != fold) for fold in range(folds.count)]
    best, most_tried = None, 0
    for batch in ([few for few in rounds if few <= EARLY], [many for many in rounds if many > EARLY]):
        if not batch or (best is not None and best.rounds < most_tried):
            continue  # more trees were not better, and take long to fit
        most_tried = max(batch)
        full = [grow(part, most_tried, binary=binary, seed=seed, purpose=purpose) for part in parts]
        for most in sorted(batch):
            trial = Boosted(full[0], tuple(_first(each, most) for each in full), fold_of, most)
            own = trial.held_out(log.contexts)[np.arange(log.n_rows), log.actions]
            trial = replace(trial, loss=float(errors_up_to_scale(log.rewards, own).mean()))
            best = trial if best is None or trial.loss < best.loss else best
    assert best is not None
    return replace(best, trees=grow(log, best.rounds, binary=binary, seed=seed, purpose=purpose))


def grow(log: Log, rounds: int, *, binary: bool, seed: int = 0, purpose: str = "boosting") -> Trees:
    """Fit `rounds` trees to each action with enough rows for a split; the others have their mean only.

    Every mean is shrunk towards the mean of all rows: (Σr + SHRINKAGE·r̄)/(N_a + SHRINKAGE).
    """
    sums = np.bincount(log.actions, weights=log.rewards, minlength=log.n_actions)
    overall = (log.rewards.sum() + 0.5) / (log.n_rows + 1) if binary else log.rewards.mean()
    base = (sums + SHRINKAGE * overall) / (log.counts + SHRINKAGE)
    base = logit(base) if binary else base
    ensemble = require("sklearn.ensemble", extra="learn", purpose=purpose)
    threads = require("threadpoolctl", extra="learn", purpose=purpose)  # scikit-learn brings it
    kind = ensemble.HistGradientBoostingClassifier if binary else ensemble.HistGradientBoostingRegressor
    # With few rows threads would wait for each other at every node.
    few = log.n_rows // max(1, log.n_actions) <= FEW_ROWS
    trees: list[tuple[int, np.ndarray]] = []
    with threads.threadpool_limits(limits=1, user_api="openmp") if few else nullcontext():
        for action in range(log.n_actions):
            rows = log.actions == action
            rewards = log.rewards[rows]
            leaf = int(np.clip(len(rewards) // SPLITS, LEAST_LEAF, MOST_LEAF))
            if len(rewards) < 2 * leaf or rewards.min() == rewards.max():
                continue
            model = kind(
                learning_rate=LEARNING_RATE,
                max_iter=rounds,
                max_leaf_nodes=MOST_LEAVES,
                min_samples_leaf=leaf,
                early_stopping=False,
                random_state=seed,
            )
            model.fit(log.contexts[rows], rewards.astype(int) if binary else rewards)
            trees += [(action, _preorder(nodes)) for nodes in _nodes(model)]
    return _joined(trees, base, log, binary)


# Fields of scikit-learn's nodes; they are private, so another version may not have them.
NODE = ("value", "feature_idx", "num_threshold", "left", "right", "is_leaf", "is_categorical")


def _nodes(model: Any) -> list[np.ndarray]:
    """Return the nodes of each tree of a fitted model."""
    try:
        found = [predictors[0].nodes for predictors in model._predictors]
        whole = all(name in nodes.dtype.names for nodes in found for name in NODE)
    except (AttributeError, TypeError, IndexError):
        whole = False
    if not whole:
        import sklearn

        raise MissingExtraError(
            f"scikit-learn {sklearn.__version__} stores its boosted trees in an unknown form; "
            "boosted models work with 1.5 to 1.8. Install one of those, or use a linear method"
        )
    return found


def _joined(trees: list[tuple[int, np.ndarray]], base: np.ndarray, log: Log, binary: bool) -> Trees:
    """Join the trees, each with its action and its nodes in preorder, into one array of nodes."""
    sizes = [len(nodes) for _, nodes in trees]
    roots = np.cumsum([0, *sizes])[:-1]
    fields = ("feature_idx", "num_threshold", "right", "value")
    none = np.empty(0)
    parts = {name: np.concatenate([none, *(nodes[name] for _, nodes in trees)]) for name in fields}
    right = parts["right"] + np.repeat(roots, sizes) * (parts["right"] > 0)
    return Trees(
        base=np.asarray(base, dtype=np.float64),
        rows=log.counts.astype(np.int64),
        roots=roots.astype(np.int64),
        owners=np.array([action for action, _ in trees], dtype=np.int64),
        features=parts["feature_idx"].astype(np.int64),
        thresholds=parts["num_threshold"],
        right=right.astype(np.int64),
        values=parts["value"],
        n_features=log.n_features,
        binary=binary,
    )


def _preorder(nodes: np.ndarray) -> np.ndarray:
    """Order a tree's nodes so that each left child follows its parent; leaves have right = 0."""
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if not nodes["is_leaf"][node]:
            waiting += [int(nodes["right"][node]), int(nodes["left"][node])]
    place = np.empty(len(nodes), dtype=np.int64)
    place[order] = np.arange(len(order))
    sorted_nodes = nodes[order].copy()
    leaf = sorted_nodes["is_leaf"].astype(bool)
    sorted_nodes["right"] = np.where(leaf, 0, place[sorted_nodes["right"] * ~leaf])
    for name in ("feature_idx", "num_threshold"):
        sorted_nodes[name][leaf] = 0
    return sorted_nodes


def _first(trees: Trees, rounds: int) -> Trees:
    kept = tree_numbers(trees.owners) < rounds
    return replace(trees, roots=trees.roots[kept], owners=trees.owners[kept])
