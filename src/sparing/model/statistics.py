"""Per-action sums of a log, and the linear regression computed from them."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from scipy import special

from sparing import validation
from sparing.engines import Progress, local
from sparing.errors import LogError, SettingError
from sparing.log import Log
from sparing.log.columns import ColumnKeywords, ColumnRoles, keywords_of
from sparing.log.features.encoder import Encoder
from sparing.log.items import Items
from sparing.log.labels import feature_names
from sparing.log.passes import ColumnarBlock, Combined, Statistic, SumOf
from sparing.log.rows import AnyLog, RewardSummary, Rows, as_rows, concatenate_logs, mean_costs
from sparing.log.sketches import ContextSample

# A log with at least this many context cells is summed by the compiled kernel. NumPy takes 1/6 s for them, the kernel a
# third of that, but loading the kernel takes about 0.5 s.
COMPILED_CELLS = 2**24
CONDITION_LIMIT = 1e12  # a Gram matrix with a larger condition number counts as singular
SMALLEST_NOISE = 1e-6  # least estimated noise, as a share of the rewards' root mean square


@dataclass(frozen=True, eq=False)
class Statistics:
    """Per-action sums of a log; ``a + b`` are the statistics of both logs together.

    Attributes
    ----------
    counts : ndarray of shape (K,)
        Rows of each action, N_a.
    gram : ndarray of shape (K, d, d)
        G_a = Σ x xᵀ.
    response : ndarray of shape (K, d)
        Σ x r.
    squares : ndarray of shape (K,)
        Σ r².
    largest : float
        Largest ‖x‖.
    encoder : str
        Digest of the feature encoder, or "". Statistics of different encoders cannot be added.

    Examples
    --------
    >>> sums = sparing.Statistics.of(log)
    """

    counts: np.ndarray
    gram: np.ndarray
    response: np.ndarray
    squares: np.ndarray
    largest: float
    encoder: str = ""

    @classmethod
    def zero(cls, n_actions: int, n_features: int) -> "Statistics":
        """Return the statistics of no rows.

        Parameters
        ----------
        n_actions, n_features : int
            K and d.
        """
        k, d = n_actions, n_features
        return cls(np.zeros(k, dtype=np.int64), np.zeros((k, d, d)), np.zeros((k, d)), np.zeros(k), 0.0)

    @classmethod
    def of(cls, log: AnyLog) -> "Statistics":
        """Compute the statistics of a log or scan, in one pass.

        Parameters
        ----------
        log : Log, Rows or Scan
            The rows to sum.
        """
        rows = as_rows(log).select(ids=False, support=False)
        return replace(rows.fold(Sums(rows)), encoder=rows.encoder.digest)

    @property
    def n_actions(self) -> int:
        """Number of actions, K."""
        return len(self.counts)

    @property
    def n_features(self) -> int:
        """Length of a context, d."""
        return int(self.response.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return int(self.counts.sum())

    def __repr__(self) -> str:
        return f"Statistics({self.n_rows} rows, {self.n_actions} actions, {self.n_features} features)"

    def __add__(self, other: "Statistics") -> "Statistics":
        if self.response.shape != other.response.shape:
            raise LogError(
                f"cannot add statistics of shapes {self.response.shape} and {other.response.shape}; "
                "both need the same actions and features"
            )
        if self.encoder and other.encoder and self.encoder != other.encoder:
            raise LogError(
                f"cannot add statistics of different features ({self.encoder} and {other.encoder}). Read both logs "
                "with the same features=..., such as the encoder of one of them"
            )
        return Statistics(
            self.counts + other.counts,
            self.gram + other.gram,
            self.response + other.response,
            self.squares + other.squares,
            max(self.largest, other.largest),
            self.encoder or other.encoder,
        )


def action_sums(log: Log) -> Statistics:
    """Return the statistics of a log in memory, by one matrix product per action."""
    sums = Statistics.zero(log.n_actions, log.n_features)
    order = np.argsort(log.actions, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(log.counts)])
    for action in np.flatnonzero(log.counts):
        rows = order[bounds[action] : bounds[action + 1]]
        x, r = log.contexts[rows], log.rewards[rows]
        sums.gram[action] = x.T @ x
        sums.response[action] = x.T @ r
        sums.squares[action] = r @ r
    sums.counts[:] = log.counts
    norms = np.einsum("ij,ij->i", log.contexts, log.contexts)
    return replace(sums, largest=float(np.sqrt(norms.max(initial=0.0))))


RAW = Encoder.raw(())  # default of `LogSummary`: features without names


@dataclass(frozen=True, eq=False)
class LogSummary:
    """Summary of a log without its rows; learners can start from it.

    Attributes
    ----------
    statistics : Statistics
        Per-action sums.
    action_names : tuple
        Label of each action.
    encoder : Encoder
        How raw columns become features.
    items : Items or None
        Features of the actions.
    context_sample : ndarray of shape (m, d)
        A sample of the log's contexts.
    rewards : RewardSummary or None
        Sum and range of the rewards; None if unknown, or without rows.
    costs : ndarray of shape (K,) or None
        Known cost of each action; of costs by row the means.

    Examples
    --------
    >>> summary = sparing.LogSummary.of(log)
    >>> learner = sparing.economical(summary, call_cost=0.05, horizon=1000)
    """

    statistics: Statistics
    action_names: tuple[Hashable, ...]
    encoder: Encoder = RAW
    items: Items | None = None
    context_sample: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    rewards: RewardSummary | None = None
    costs: np.ndarray | None = None

    @property
    def reservoir(self) -> np.ndarray:
        """The name of `context_sample` in 0.1."""
        warnings.warn("LogSummary.reservoir is now context_sample", DeprecationWarning, stacklevel=2)
        return self.context_sample

    def __post_init__(self) -> None:
        if self.encoder is RAW:
            object.__setattr__(self, "encoder", Encoder.raw(feature_names(None, self.statistics.n_features)))
        if len(self.action_names) != self.statistics.n_actions:
            raise LogError(
                f"{len(self.action_names)} action names for statistics of {self.statistics.n_actions} actions"
            )

    @classmethod
    def of(cls, log: AnyLog) -> "LogSummary":
        """Compute the summary of a log or scan, in one pass.

        Parameters
        ----------
        log : Log, Rows or Scan
            The rows to summarise.
        """
        rows = as_rows(log).select(ids=False, support=False)
        sums, sample, rewards = rows.fold(
            Combined(Sums(rows), ContextSample(rows.n_features), SumOf(_rewards, by_columns=True))
        )
        sums = replace(sums, encoder=rows.encoder.digest)
        costs = mean_costs(as_rows(log))
        return cls(sums, rows.action_names, rows.encoder, rows.items, sample.contexts, rewards, costs)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return self.statistics.n_rows

    def __repr__(self) -> str:
        sums = self.statistics
        return f"Summary({sums.n_rows} rows, {sums.n_actions} actions, {sums.n_features} features)"


def _rewards(block: Log | ColumnarBlock, first_row: int) -> RewardSummary | None:
    return RewardSummary.of(block) if len(block.rewards) else None


def ridge_regression(sums: Statistics, ridge: float) -> np.ndarray:
    """θ̂_a = (λI + G_a)⁻¹ Σ x r, shape (K, d)."""
    return times_inverse(sums, ridge, sums.response)


def times_inverse(sums: Statistics, ridge: float, vectors: np.ndarray) -> np.ndarray:
    """(λI + G_a)⁻¹ v_a for a vector of each action, (K, d)."""
    regular = sums.gram + ridge * np.eye(sums.n_features)
    return np.linalg.solve(regular, vectors[:, :, None])[:, :, 0]


def least_squares(sums: Statistics, ridge: float) -> np.ndarray:
    """θ̂_a = G_a⁻¹ Σ x r (Prop. 2), ridge regression where G_a is singular, shape (K, d)."""
    theta = ridge_regression(sums, ridge)
    eigenvalues = np.linalg.eigvalsh(sums.gram)
    regular = eigenvalues[:, 0] * CONDITION_LIMIT > np.maximum(eigenvalues[:, -1], np.finfo(float).tiny)
    if regular.any():
        theta[regular] = np.linalg.solve(sums.gram[regular], sums.response[regular][:, :, None])[:, :, 0]
    return theta


def residual_noise(sums: Statistics, ridge: float) -> float:
    """Upper 95 % limit of σ from the residuals: σ̂² = Σ RSS_a / ν, times ν/χ²_{.05,ν}.

    RSS_a = Σr² − θ̂ᵀb − λ‖θ̂‖² with the ridge estimate, ν = n − Σ tr(G_a V_a⁻¹). The upper limit is used because confidence
    sets with too small a σ do not hold.
    """
    theta = ridge_regression(sums, ridge)
    fitted = np.einsum("kd,kd->k", theta, sums.response) + ridge * np.einsum("kd,kd->k", theta, theta)
    eigenvalues = np.maximum(np.linalg.eigvalsh(sums.gram), 0)
    freedom = sums.n_rows - float((eigenvalues / (eigenvalues + ridge)).sum())
    if freedom < 1:
        raise SettingError(
            f"the noise cannot be estimated from {sums.n_rows} rows ({freedom:.2f} degrees of freedom left); "
            "pass noise=..., the deviation of a reward around its mean"
        )
    squares = float(sums.squares.sum())
    residual = max(squares - float(fitted.sum()), 0.0)
    upper = np.sqrt(residual / (2 * special.gammaincinv(freedom / 2, 0.05)))
    return max(float(upper), SMALLEST_NOISE * float(np.sqrt(squares / sums.n_rows)))


if TYPE_CHECKING:
    from sparing.log.scan import FeatureSpec


class Sums(Statistic[Log, Any]):
    """The statistics of a log; the compiled kernel computes those of a large one."""

    def __init__(self, log: AnyLog) -> None:
        rows = as_rows(log)
        self.n_actions, self.n_features = rows.n_actions, rows.n_features
        self.compiled = rows.n_rows * rows.n_features >= COMPILED_CELLS
        self.by_columns = self.compiled

    def zero(self) -> Any:
        return self.tiles() if self.compiled else []

    def tiles(self, folds: int = 1) -> Any:
        """The kernel's sums of no rows, of each fold on its own."""
        from sparing.model.tiles import Tiles

        return Tiles(self.n_actions, self.n_features, folds=folds)

    def update(self, state: Any, block: Log | ColumnarBlock, first_row: int) -> Any:
        if self.compiled:
            state.add(block.contexts, block.actions, block.rewards)
        else:
            state.append(block)
        return state

    def finish(self, state: Any) -> Statistics:
        if self.compiled:
            (sums,) = state.sums()
            return sums
        if not state:
            return Statistics.zero(self.n_actions, self.n_features)
        return action_sums(state[0] if len(state) == 1 else concatenate_logs(state[0], state))

    def merge(self, one: Statistics, other: Statistics) -> Statistics:
        return one + other


@keywords_of(ColumnRoles)
def summarise(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: "FeatureSpec" = None,
    threads: int | None = None,
    engine: Any = None,
    progress: Progress | None = None,
    **columns: Unpack[ColumnKeywords],
) -> LogSummary:
    """Summarise a table. Deprecated: use `scan(source, ...).summary()`.

    Parameters
    ----------
    source, actions, features, engine, progress, **columns
        As in `scan`.
    threads : int, optional
        Number of threads of the local engine; by default one per core.
    """
    from sparing.log.formats import scan  # imports PyArrow

    warnings.warn(
        "summarise(source, ...) is deprecated; use scan(source, ...).summary()",
        DeprecationWarning,
        stacklevel=2,
    )
    if isinstance(source, Rows):
        return LogSummary.of(source)
    if threads is not None:
        validation.integer("threads", threads, least=1, hint=", or None for all cores")
    where = local(threads) if engine is None else engine
    return scan(
        source, actions=actions, features=features, engine=where, progress=progress, **columns
    ).summary()
