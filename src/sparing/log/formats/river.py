"""river's bandit history: `(arms, context, arm, reward)`, in memory or a JSON list a line."""

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from sparing.errors import LogError
from sparing.log.formats.events import MAX_FEATURES, Event, build
from sparing.log.formats.records import Flattener, Records, from_json, reward_of, set_from_json
from sparing.log.formats.rows import (
    distribution_notes,
    feature_names,
    missing_action_notes,
    order_notes,
    rows,
    support_notes,
    to_json,
    write_json,
)
from sparing.log.log import Log

EXPECTED = "a list of arms, context, arm and reward"


def read(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Sequence[str] | None = None,
    ignore: Iterable[str] = (),
    max_features: int = MAX_FEATURES,
) -> tuple[Log, list[str]]:
    """Read a history from a list of tuples, or from a file with one JSON list a line.

    The arms of a step are the actions it could have taken. The log has no propensities.
    """
    records = Records(source, EXPECTED)
    flatten = Flattener(ignore=ignore)

    def events() -> Iterator[Event]:
        for where, record in records:
            yield _event(record, where, flatten)

    return build(events, name=records.name, actions=actions, features=features, max_features=max_features)


def _event(record: Any, where: str, flatten: Flattener) -> Event:
    if not isinstance(record, list | tuple) or len(record) != 4:
        raise LogError(f"{where}: {str(record)[:60]!r}; expected {EXPECTED}")
    arms, context, arm, reward = record
    return Event(
        where,
        flatten(context, where),
        from_json(arm, where),
        reward_of(reward, where),
        eligible=set_from_json(arms, where),
    )


def to_history(log: Log) -> tuple[list[tuple[list[Any], dict[str, float], Any, float]], list[str]]:
    """A log as the history that `river.bandit.evaluate_offline` takes, and what it cannot carry."""
    return list(_history(log)), _notes(log)


def write(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write one JSON list a line. Says what the format could not carry."""
    steps = _history(log)
    write_json(
        path, ([list(map(to_json, arms)), *rest, to_json(arm), reward] for arms, *rest, arm, reward in steps)
    )
    return _notes(log)


def _history(log: Log) -> Iterator[tuple[list[Any], dict[str, float], Any, float]]:
    names, _ = feature_names(log)
    for row in rows(log):
        arms = range(log.n_actions) if row.available is None else row.available
        context = {names[position]: value for position, value in row.features}
        yield [log.action_names[arm] for arm in arms], context, log.action_names[row.action], row.reward


def _notes(log: Log) -> list[str]:
    notes = [*feature_names(log)[1], *order_notes(log), *missing_action_notes(log)]
    if log.propensities is not None:
        notes.append("Propensities are lost: the format has no place for them.")
    if log.context_ids is not None:
        notes.append("Context ids are lost: the format has no place for them.")
    return [
        *notes,
        *distribution_notes(log, kept="only the set is kept"),
        *support_notes(log, lists_everything=True),
    ]
