"""What speaks against a linear model of a log: no constant, features of unlike sizes, rewards that are not linear."""

from collections.abc import Iterator

import numpy as np

from sparing.errors import InputError
from sparing.log import Log
from sparing.log.labels import cut
from sparing.model.lack_of_fit import lack_of_fit, sample
from sparing.model.statistics import Statistics, ridge_regression

CONSTANT = 1e-3
"""A constant is in the features' span if this share of it, or less, is left over."""

SURE = 6.0
"""Standard errors from 0 beyond which a mean residual is not chance."""

LEAST_ROWS = 20


UNLIKE = 1e3
"""Features whose sizes differ by more than this factor cannot share a ridge."""


def linear_notes(log: Log, sums: Statistics, ridge: float) -> Iterator[str]:
    """All that speaks against it, in sentences."""
    yield from missing_level(log, sums, ridge)
    yield from unlike_sizes(log)
    try:
        found = lack_of_fit(sample(log), boosted=False)
    except InputError:  # too few rows to tell
        return
    if found.found:
        yield f"The log shows {found}"


def unlike_sizes(log: Log) -> Iterator[str]:
    """Say so if raw features are of sizes that one ridge cannot suit."""
    sizes = np.sqrt(np.einsum("ij,ij->j", log.contexts, log.contexts) / max(1, log.n_rows))
    there = np.flatnonzero(sizes)
    if not log.encoder.is_raw or not len(there) or sizes[there].max() <= UNLIKE * sizes[there].min():
        return
    small, large = there[sizes[there].argmin()], there[sizes[there].argmax()]
    yield (
        f"The features are of unlike sizes ({cut(log.feature_names[small])} about {sizes[small]:.2g}, "
        f"{cut(log.feature_names[large])} about {sizes[large]:.2g}), and are taken as they are: linear models then learn the "
        "small ones slowly. Read the log with features='auto', which standardises them"
    )


def missing_level(log: Log, sums: Statistics, ridge: float) -> Iterator[str]:
    """Say so if no combination of features is constant and an action's residuals do not average 0."""
    total = log.contexts.sum(axis=0)
    explained = float(total @ np.linalg.pinv(sums.gram.sum(axis=0), hermitian=True) @ total)
    if log.n_rows < LEAST_ROWS or 1 - explained / log.n_rows <= CONSTANT:
        return
    theta = ridge_regression(sums, ridge)
    residuals = log.rewards - np.einsum("ij,ij->i", log.contexts, theta[log.actions])
    counts = np.maximum(log.counts, 1)
    means = np.bincount(log.actions, residuals, log.n_actions) / counts
    squares = np.bincount(log.actions, residuals**2, log.n_actions) / counts
    errors = np.sqrt(np.maximum(squares - means**2, 0) / counts)
    sure = (log.counts >= LEAST_ROWS) & (errors > 0)
    distance = np.divide(np.abs(means), errors, out=np.zeros_like(means), where=sure)
    worst = int(distance.argmax())
    if distance[worst] > SURE:
        yield (
            "No combination of the features is constant, and the rewards have a level that linear models then "
            f"cannot follow (residuals of action {log.action_names[worst]!r} average {means[worst]:.3g}, "
            f"{distance[worst]:.0f} standard errors from 0). Add a constant feature"
        )
