"""scikit-learn: policies as an estimator for pipelines and searches. Needs the extra `learn`."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from sparing.errors import SettingError, require
from sparing.evaluation.evaluate import evaluate
from sparing.learning.learn import learn
from sparing.log.formats import read_log
from sparing.log.log import Log
from sparing.policies.policy import Policy

_PURPOSE = "sparing.sklearn"
_base: Any = require("sklearn.base", extra="learn", purpose=_PURPOSE)
_checks: Any = require("sklearn.utils.validation", extra="learn", purpose=_PURPOSE)
_targets: Any = require("sklearn.utils.multiclass", extra="learn", purpose=_PURPOSE)

__all__ = ["PolicyClassifier"]

ROLES = ("sparing action", "sparing reward", "sparing propensity")
"""Names of the columns that are added to a frame's."""


class PolicyClassifier(_base.ClassifierMixin, _base.BaseEstimator):  # type: ignore[misc]
    """A policy learnt from logged actions, rewards and propensities.

    The target `y` has the logged actions. Rewards and propensities are metadata: pass them to `fit` and `score`, or let a pipeline
    or a search route them (``sklearn.set_config(enable_metadata_routing=True)``, then `set_fit_request` and `set_score_request`).

    Numeric arrays are standardised, and a constant is added. A frame may have texts, dates and missing values; its columns are
    encoded as by `sparing.read_log`.

    Parameters
    ----------
    method : str
        A method of `sparing.learn`.
    settings : mapping, optional
        Its options, such as ``{"ridge": 1.0}``.
    actions : sequence, optional
        All actions, to include those that were never logged.
    features : "auto", Features or Encoder
        How the columns of a frame become features.
    demonstrations : bool
        Whether `fit` without rewards takes `y` as the right actions: their reward is 1 and that of all others 0. By default missing
        rewards are an error.
    random_state : int
        Seed.

    Attributes
    ----------
    policy_ : Policy
        The learnt policy; its labels are positions in `classes_`.
    classes_ : ndarray (K,)
        Labels of the actions.
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> from sparing.sklearn import PolicyClassifier
    >>> X, actions = [[0.0], [1.0], [0.0], [1.0]] * 50, ["a", "a", "b", "b"] * 50
    >>> rewards = [1.0, 0.0, 0.0, 1.0] * 50
    >>> PolicyClassifier().fit(X, actions, reward=rewards, propensity=[0.5] * 200).predict([[0.0], [1.0]])
    array(['a', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        method: str = "greedy",
        *,
        settings: Mapping[str, Any] | None = None,
        actions: Sequence[Hashable] | None = None,
        features: Any = "auto",
        demonstrations: bool = False,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.settings = settings
        self.actions = actions
        self.features = features
        self.demonstrations = demonstrations
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, reward: Any = None, propensity: Any = None) -> Self:
        """Learn a policy.

        Parameters
        ----------
        X : array (n, d) or frame
            Contexts.
        y : array (n,)
            Logged actions.
        reward : array (n,), optional
            Their rewards.
        propensity : array (n,), optional
            Probabilities with which they were chosen; some methods need them.

        Returns
        -------
        PolicyClassifier
        """
        if y is None:
            raise ValueError(
                "PolicyClassifier requires y to be passed, but the target y is None. Pass the logged actions"
            )
        if reward is None and not self.demonstrations:
            raise SettingError(
                "fit without rewards; pass fit(X, y, reward=...), in pipelines after set_fit_request(reward=True, propensity=True) with metadata "
                "routing, or PolicyClassifier(demonstrations=True) if y has the right actions"
            )
        columns = self._columns(X, reset=True)
        labels = _checks.column_or_1d(y, warn=True)
        _targets.check_classification_targets(labels)
        _checks.check_consistent_length(X, labels)
        others = [] if self.actions is None else list(self.actions)
        self.classes_ = np.unique(labels if not others else np.concatenate([labels, np.asarray(others)]))
        codes = np.searchsorted(self.classes_, labels)
        names = range(len(self.classes_))
        rewards, propensities = self._checked(codes, reward, propensity)
        if isinstance(columns, np.ndarray):
            self.mean_ = columns.mean(axis=0)
            spread = columns.std(axis=0)
            self.scale_ = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(self.mean_)), spread, 1.0)
            log = Log.from_arrays(
                self._standardised(columns), codes, rewards, propensities=propensities, action_names=names
            )
        else:
            table = {**columns, ROLES[0]: codes, ROLES[1]: rewards}
            table |= {} if propensities is None else {ROLES[2]: propensities}
            log = read_log(
                table,
                action=ROLES[0],
                reward=ROLES[1],
                propensity=None if propensities is None else ROLES[2],
                actions=names,
                features=self.features,
            )
        self.encoder_ = None if isinstance(columns, np.ndarray) else log.encoder
        if reward is None:
            log = _all_actions(log)
        self.policy_: Policy = learn(log, self.method, **{"seed": self.random_state, **(self.settings or {})})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the action of each context; of a stochastic policy, the most probable one.

        Parameters
        ----------
        X : array (n, d) or frame
            Contexts.

        Returns
        -------
        ndarray (n,)
        """
        chances = self.predict_proba(X)
        found: np.ndarray = self.classes_[chances.argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities with which the policy plays the actions.

        Parameters
        ----------
        X : array (n, d) or frame
            Contexts.

        Returns
        -------
        ndarray (n, K)
            In the order of `classes_`.
        """
        _checks.check_is_fitted(self)
        return self.policy_.probabilities(self._contexts(X))

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, reward: Any = None, propensity: Any = None
    ) -> float:
        """Return the doubly robust estimate of the policy's mean reward; without rewards, the share of right actions.

        Parameters
        ----------
        X : array (n, d) or frame
            Contexts that the policy was not learnt from.
        y : array (n,)
            Logged actions.
        sample_weight : array (n,), optional
            Weights of the rows; only without rewards.
        reward, propensity : array (n,), optional
            Their rewards, and the probabilities with which they were chosen.

        Returns
        -------
        float
            NaN if the log has no data on the policy.
        """
        if reward is None and self.demonstrations:
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise SettingError("score with rewards takes no sample_weight; leave it out")
        if reward is None or propensity is None:
            raise SettingError(
                "score needs reward= and propensity=; in pipelines and searches, after set_score_request(reward=True, propensity=True) with "
                "metadata routing"
            )
        chances, contexts = self.predict_proba(X), self._contexts(X)
        labels = _checks.column_or_1d(y)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise SettingError(
                f"action {str(labels[unknown][0])!r} is unknown to the policy; name all actions: PolicyClassifier(actions=[...])"
            )
        codes = np.searchsorted(self.classes_, labels)
        rewards, propensities = self._checked(codes, reward, propensity)
        log = Log.from_arrays(
            contexts, codes, rewards, propensities=propensities, action_names=range(len(self.classes_))
        )
        value = evaluate(log, chances, methods=["dr"], seed=self.random_state)["dr"].value
        return float("nan") if value is None else float(value)

    def _checked(
        self, codes: np.ndarray, reward: Any, propensity: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        found: dict[str, Any] = {}
        for name, values in (("reward", reward), ("propensity", propensity)):
            found[name] = None if values is None else np.asarray(values, dtype=np.float64)
            if values is not None and found[name].shape != codes.shape:
                raise SettingError(
                    f"{name} of shape {found[name].shape}; expected one for each of {len(codes)} rows"
                )
        return np.ones(len(codes)) if reward is None else found["reward"], found["propensity"]

    def _columns(self, X: Any, *, reset: bool) -> Any:
        """Return numbers (n, d), or the columns of a frame that does not consist of numbers alone."""
        if hasattr(X, "columns") and not self._numeric(X, reset=reset):
            _checks.validate_data(self, X, reset=reset, skip_check_array=True)
            return {str(name): X[name] for name in X.columns}
        return _checks.validate_data(self, X, reset=reset, dtype=np.float64)

    def _numeric(self, X: Any, *, reset: bool) -> bool:
        if not reset:
            return self.encoder_ is None
        kinds = [getattr(np.asarray(X[name]), "dtype", np.dtype(object)).kind for name in X.columns]
        plain = isinstance(self.features, str) and self.features == "auto"
        return plain and all(kind in "biuf" for kind in kinds) and not np.isnan(np.asarray(X, float)).any()

    def _standardised(self, columns: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(columns)), (columns - self.mean_) / self.scale_])

    def _contexts(self, X: Any) -> np.ndarray:
        columns = self._columns(X, reset=False)
        if self.encoder_ is None:
            return self._standardised(columns)
        return self.encoder_.encode_table(columns)


def _all_actions(log: Log) -> Log:
    """Return a log in which every action was tried in every row: reward 1 for the logged one, and 0 for the others."""
    n, k = log.n_rows, log.n_actions
    return Log.from_indices(
        np.repeat(log.contexts, k, axis=0),
        np.tile(np.arange(k), n),
        (np.arange(k) == log.actions[:, None]).astype(np.float64).ravel(),
        log.action_names,
        propensities=np.full(n * k, 1 / k),
        encoder=log.encoder,
    )
