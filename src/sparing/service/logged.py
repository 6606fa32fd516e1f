"""What the page must know of the log that an experiment began from, long after the log itself is gone."""

from typing import Any

from sparing.log.log import Log


def described(log: Log) -> dict[str, Any]:
    """A log in a few numbers, as JSON can hold them: its rows, and its mean context."""
    return {"rows": log.n_rows, "center": log.contexts.mean(axis=0).tolist() if log.n_rows else None}
