"""Classification as a bandit: the classes are the actions, and only the chosen one's reward is seen."""

from collections.abc import Hashable

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.policies.policy import Policy
from sparing.simulation.datasets import Dataset
from sparing.simulation.worlds import Stream

SPLITS = {"default": (0.60, 0.25), "paper": (0.70, 0.30)}
"""Shares of the rows for the log and for live rounds; what is left is held out."""


class ClassificationWorld:
    """Reward 1 for the right class and 0 for any other; noisy: half of the time a fair coin instead.

    Features are scaled to [0, 1], joined by a constant, and each context to unit norm. The rows are
    split at random into a part to log, a part to play live and a held-out part to score policies on.
    """

    def __init__(
        self, dataset: Dataset, *, noisy: bool = False, split: str = "default", seed: int = 0
    ) -> None:
        if split not in SPLITS:
            raise SettingError(f"split={split!r}; must be one of {', '.join(SPLITS)}")
        self.name, self.noisy = dataset.name, noisy
        self.features = prepared(dataset.features)
        self.labels = dataset.labels
        self.classes = dataset.classes
        n = len(self.labels)
        order = np.random.default_rng(seed).permutation(n)
        to_log, to_play = SPLITS[split]
        first, second = round(n * to_log), round(n * (to_log + to_play))
        self.log_rows, self.live_rows, self.held_out_rows = order[:first], order[first:second], order[second:]

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The classes."""
        return self.classes

    @property
    def n_features(self) -> int:
        """Length of a context, the constant included."""
        return int(self.features.shape[1])

    def log_stream(self, rows: int | None, rng: np.random.Generator) -> Stream:
        """The rows to log, all of them or the first `rows`."""
        if rows is not None and not 0 <= rows <= len(self.log_rows):
            raise SettingError(f"rows={rows}; {self.name} has 0 to {len(self.log_rows)} rows to log")
        return self._stream(self.log_rows if rows is None else self.log_rows[:rows], rng)

    def live_stream(self, rounds: int | None, rng: np.random.Generator, log: Log | None = None) -> Stream:
        """The live rows in random order (again and again if `rounds` asks for more), or a log's rows."""
        rows = self.live_rows if log is None else self._rows_of(log)
        wanted = len(rows) if rounds is None else rounds
        if wanted and not len(rows):
            raise SettingError(f"rounds={wanted}, but there are no rows to play; use a log that has some")
        passes = [rng.permutation(rows) for _ in range(-(-wanted // max(1, len(rows))))]
        return self._stream(np.concatenate([rows[:0], *passes])[:wanted], rng)

    def _rows_of(self, log: Log) -> np.ndarray:
        """The rows of this world that a log drawn from it names by its context ids."""
        ids = log.context_ids
        if ids is None or ids.dtype.kind not in "iu" or ((ids < 0) | (ids >= len(self.labels))).any():
            raise SettingError(
                f"the log's context ids do not number rows of {self.name}; draw it from this world with draw_log"
            )
        return ids

    def _stream(self, rows: np.ndarray, rng: np.random.Generator) -> Stream:
        right = self.labels[rows][:, None] == np.arange(len(self.classes))
        if not self.noisy:
            return Stream(self.features[rows], right.astype(float), np.zeros(len(rows)), rows)
        means = np.where(right, 0.75, 0.25)
        return Stream(self.features[rows], means, rng.random(len(rows)), rows, binary=True)

    def error(self, policy: Policy, rng: np.random.Generator | None = None) -> float:
        """Share of the held-out rows that a policy gets wrong."""
        rows = self.held_out_rows
        if not len(rows):
            raise SettingError("split='paper' leaves no rows to score a policy on; use split='default'")
        return float((policy.actions(self.features[rows], rng) != self.labels[rows]).mean())


def prepared(features: np.ndarray) -> np.ndarray:
    """Scale each feature to [0, 1] (a constant one to 0), add a constant feature, make rows unit length."""
    low, high = features.min(axis=0), features.max(axis=0)
    scaled = (features - low) / np.where(high > low, high - low, 1)
    joined = np.column_stack([scaled, np.ones(len(scaled))])
    return joined / np.linalg.norm(joined, axis=1, keepdims=True)
