"""Scorers: policies with linear scores as one JSON file, which Python and JavaScript evaluate with the same operations in the same order."""

import base64
import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sparing.errors import FileError, SettingError
from sparing.log import labels
from sparing.log.features import texts
from sparing.log.features.columns import DAYS, HOURS, TimeColumn
from sparing.log.features.encoder import Encoder
from sparing.log.features.texts import TextColumn
from sparing.policies.policy import (
    LARGEST,
    GreedyPolicy,
    SoftmaxPolicy,
    TrainedPolicy,
    one_hot,
    sample,
    softmax,
)
from sparing.policies.support import KnownSupport

FORMAT = "sparing scorer"
VERSION = 1

LINEAR = "greedy, posterior or poem"
"""Methods whose policies have linear scores and need no supported sets, for messages."""


@dataclass(frozen=True, eq=False, repr=False)
class Scorer(TrainedPolicy):
    """A policy by its linear scores x·θ_a − cost_a, without anything else that was learnt.

    The scores are summed feature by feature, in the order of the features, so that other languages give the same bits.

    Attributes
    ----------
    action_names : tuple
        Labels of the actions that may be played, (K,).
    theta : ndarray (K, d)
        Parameters.
    order : ndarray (K,)
        Indices of the actions; of equal scores, the first in this order is played.
    costs : ndarray (K,) or None
        Known costs.
    temperature : float or None
        None: the best score is played. Else probabilities are proportional to exp(score/temperature).
    method : str
        How the policy was learnt.
    """

    theta: np.ndarray
    order: np.ndarray
    costs: np.ndarray | None = field(default=None, kw_only=True)
    temperature: float | None = field(default=None, kw_only=True)
    method: str = field(default="greedy", kw_only=True)

    def __post_init__(self) -> None:
        k, d = len(self.action_names), np.shape(self.theta)[-1:]
        parts = {"theta": (self.theta, (k, *d))} | (
            {} if self.costs is None else {"costs": (self.costs, (k,))}
        )
        for name, (array, shape) in parts.items():
            if np.shape(array) != shape or not (np.abs(array) <= LARGEST).all():
                raise SettingError(
                    f"{name} of shape {np.shape(array)} for {k} actions; expected numbers of shape {shape}, none beyond {LARGEST:g}"
                )
        if self.order.dtype.kind != "i" or not np.array_equal(np.sort(self.order), np.arange(k)):
            raise SettingError(f"order {self.order.tolist()[:8]}; must name each of {k} actions once, from 0")
        if self.temperature is not None and not 0 < self.temperature < np.inf:
            raise SettingError(f"temperature={self.temperature}; must be a finite number above 0")
        if self.encoder is not None and self.encoder.size != self.theta.shape[1]:
            raise SettingError(
                f"parameters of {self.theta.shape[1]} features with an encoder of {self.encoder.size}; they must match"
            )

    @classmethod
    def of(cls, policy: Any) -> "Scorer":
        """Return the scorer of a policy.

        Parameters
        ----------
        policy : Policy
            A policy with linear scores that may play the same actions in every context.

        Raises
        ------
        SettingError
            If the policy has no such scores.
        """
        if isinstance(policy, Scorer):
            return policy
        if not isinstance(policy, GreedyPolicy | SoftmaxPolicy):
            kind = getattr(policy, "method", type(policy).__name__)
            raise SettingError(
                f"a policy of {kind!r} ({type(policy).__name__}) has no linear scores to export. Learn one that has, such as "
                f"{LINEAR}, or serve this one with `sparing.load_policy` in Python"
            )
        allowed = _fixed_support(policy)
        priority, costs, temperature = allowed, None, None
        if isinstance(policy, GreedyPolicy):
            priority = np.asarray(policy.priority)[allowed]
            costs = None if policy.costs is None else np.array(policy.costs[allowed], dtype=np.float64)
        else:
            temperature = float(policy.temperature)
        return cls(
            tuple(policy.action_names[action] for action in allowed),
            np.array(policy.theta[allowed], dtype=np.float64),
            np.argsort(priority),
            costs=costs,
            temperature=temperature,
            method=policy.method,
            encoder=policy.encoder,
            trained_on=policy.trained_on,
        )

    def scores(self, contexts: Any) -> np.ndarray:
        """Score the actions, less their costs.

        Parameters
        ----------
        contexts : array (n, d), data frame, or mappings of raw columns
            Raw columns need an encoder.

        Returns
        -------
        ndarray (n, K)
        """
        x = self.rows(contexts, self.theta.shape[1])
        found = np.zeros((len(x), len(self.action_names)))
        for j, weights in enumerate(self.theta.T):
            found += x[:, j, None] * weights
        return found if self.costs is None else found - self.costs

    def probabilities(self, contexts: Any) -> np.ndarray:
        """Return the probability of each action.

        Parameters
        ----------
        contexts : array (n, d), data frame, or mappings of raw columns
            Raw columns need an encoder.

        Returns
        -------
        ndarray (n, K)
        """
        if self.temperature is None:
            return one_hot(self.indices(contexts), len(self.action_names))
        return softmax(self.scores(contexts) / self.temperature)

    def indices(self, contexts: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """Choose one action for each context, as an index into `action_names`.

        Parameters
        ----------
        contexts : array (n, d), data frame, or mappings of raw columns
            Raw columns need an encoder.
        rng : numpy.random.Generator, optional
            Required if there is a temperature.

        Returns
        -------
        ndarray (n,)
        """
        if self.temperature is None:
            return self.order[self.scores(contexts)[:, self.order].argmax(axis=1)]
        if rng is None:
            raise SettingError("this policy is random; pass rng=np.random.default_rng(seed)")
        return sample(self.probabilities(contexts), rng)

    def to_json(self) -> str:
        """Return the scorer as strict JSON, with every table that other languages need."""
        header: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "method": self.method,
            "actions": [labels.to_json(name) for name in self.action_names],
            "theta": self.theta.tolist(),
            "costs": None if self.costs is None else self.costs.tolist(),
            "order": self.order.tolist(),
            "temperature": self.temperature,
            "encoder": None if self.encoder is None else self.encoder.header(),
            "tables": {} if self.encoder is None else _tables(self.encoder),
        }
        return json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Scorer":
        """Return the scorer of a JSON text.

        Parameters
        ----------
        text : str or bytes
            Result of `to_json`.

        Raises
        ------
        FileError
            If it is damaged, of another kind, or of a newer version.
        """
        try:
            saved = labels.load_json(text)
        except (ValueError, UnicodeDecodeError) as error:
            raise FileError(
                f"a scorer is not whole JSON ({str(error)[:120]}); export the policy again"
            ) from None
        if not isinstance(saved, Mapping) or saved.get("format") != FORMAT:
            raise FileError('JSON without a scorer; expected what policy.export("json") gives')
        if saved.get("version") != VERSION:
            raise FileError(
                f"a scorer of version {saved.get('version')}; this version of sparing reads {VERSION}. Upgrade sparing, or export "
                "the policy again"
            )
        try:
            encoder, costs, temperature = (saved[name] for name in ("encoder", "costs", "temperature"))
            return cls(
                labels.action_names(map(labels.from_json, saved["actions"])),
                _numbers(saved["theta"]),
                np.array([_index(place) for place in saved["order"]], dtype=np.int64),
                costs=None if costs is None else _numbers(costs),
                temperature=None if temperature is None else float(_numbers(temperature)),
                method=str(saved["method"]),
                encoder=None if encoder is None else Encoder.from_header(encoder),
            )
        except (
            AttributeError,
            IndexError,
            KeyError,
            TypeError,
            ValueError,
        ) as error:  # errors of settings are ValueErrors
            raise FileError(
                f"a damaged scorer: {type(error).__name__} {str(error)[:120]}; export the policy again"
            ) from None


def load_scorer(path: str | os.PathLike[str]) -> Scorer:
    """Read a policy that `policy.export("json", path)` or `sparing export` wrote.

    Parameters
    ----------
    path : str or PathLike
        The JSON file.

    Returns
    -------
    Scorer

    Raises
    ------
    FileError
        If the file cannot be read, is damaged, or is of a newer version.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import sparing
    >>> table = {"age": [31, 52, 40, 28] * 30, "action": ["a", "b", "b", "a"] * 30, "reward": [0.0, 1.0, 1.0, 0.0] * 30}
    >>> policy = sparing.learn(sparing.read_log(table), "greedy")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "policy.json"
    ...     _ = policy.export("json", path)
    ...     sparing.load_scorer(path).actions([{"age": 45}]).tolist()
    ['b']
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}; expected a policy as JSON") from None
    try:
        return Scorer.from_json(content)
    except FileError as error:
        raise FileError(f"{path}: {error}") from None


def _fixed_support(policy: Any) -> np.ndarray:
    """The actions that a policy may play, if they are the same in every context."""
    support = policy.support
    if support is None:
        return np.arange(len(policy.action_names))
    if not isinstance(support, KnownSupport) or len(support.contexts) or support.lines.size:
        raise SettingError(
            f"a policy of {policy.method!r} whose supported actions differ from context to context cannot be exported: an export "
            f"would need the contexts of the log. Learn one without such sets ({LINEAR}), pass support=[LABELS] to learn, or use this one "
            "in Python"
        )
    return np.flatnonzero(support.elsewhere)


def _index(place: Any) -> int:
    if type(place) is not int:
        raise TypeError(f"{place!r} is not an index")
    return place


def _numbers(listed: Any) -> np.ndarray:
    found = np.array(listed)
    if found.dtype.kind not in "if":
        raise TypeError(f"numbers of type {found.dtype}")
    return found.astype(np.float64)


def _tables(encoder: Encoder) -> dict[str, Any]:
    """What Python computes with its own mathematics and Unicode data, for languages that have others."""
    found: dict[str, Any] = {}
    if any(isinstance(column, TimeColumn) for column in encoder.columns):
        found |= {"hours": _base64(HOURS), "days": _base64(DAYS)}
    if any(isinstance(column, TextColumn) for column in encoder.columns):
        found |= _character_tables()
    return found


@functools.cache
def _character_tables() -> dict[str, Any]:
    classes = texts.character_classes()
    starts = np.flatnonzero(np.diff(classes, prepend=255))
    return {
        "damped": _base64(texts.DAMPED),
        "class_starts": starts.tolist(),
        "classes": classes[starts].tolist(),
        "folds": {chr(point): chr(point).casefold() for point in range(0x110000) if _folds(point)},
    }


def _folds(point: int) -> bool:
    return not 0xD800 <= point < 0xE000 and chr(point).casefold() != chr(point)


def _base64(numbers: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).decode()
