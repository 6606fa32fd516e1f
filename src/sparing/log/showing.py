"""A log in a notebook: what it is, in a few lines; nothing is walked for it."""

from collections.abc import Iterator

from sparing.log.labels import cut
from sparing.log.log import Log
from sparing.report.notebook import card

NAMED = 12
"""Actions whose names are shown."""


def card_of(header: Log, kind: str, rows: int) -> str:
    """A log of so many rows; where it is walked, `header` has none of them."""
    title = f"{kind}: {rows:,} rows, {header.n_actions:,} actions, {header.n_features:,} features"
    return card(title, facts=_facts(header))


def _facts(log: Log) -> Iterator[tuple[str, str]]:
    more = f", … {log.n_actions - NAMED:,} more" if log.n_actions > NAMED else ""
    yield "actions", ", ".join(cut(str(name)) for name in log.action_names[:NAMED]) + more
    named = ", ".join(log.feature_names[:NAMED]) + (", …" if log.n_features > NAMED else "")
    yield "features", named if log.encoder.is_raw else log.encoder.described()
    if log.n_rows:
        low, high = log.rewards.min(), log.rewards.max()
        yield "rewards", f"mean {log.rewards.mean():.4g}, from {low:.4g} to {high:.4g}"
    yield "propensities", "none logged" if log.propensities is None else "logged"
    yield "support", log.support.kind
