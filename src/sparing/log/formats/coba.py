"""coba's logged interactions: `{context, action, reward, probability?, actions?}`, in memory or a line each."""

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log.formats.events import MAX_FEATURES, build
from sparing.log.formats.features import Flattener, finite, reward_of
from sparing.log.formats.filling import Event
from sparing.log.formats.lines import Records
from sparing.log.formats.naming import from_json, set_from_json, to_json
from sparing.log.formats.rows import (
    distribution_notes,
    feature_names,
    missing_action_notes,
    order_notes,
    rows,
    support_notes,
)
from sparing.log.log import Log


def read(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Sequence[str] | None = None,
    ignore: Iterable[str] = (),
    max_features: int = MAX_FEATURES,
) -> tuple[Log, list[str]]:
    """Read interactions from a list of dicts, or from a file with one JSON object a line.

    `actions` of an interaction are those it could have taken. An action that is a list is the tuple of its
    parts; one that is an object is named by its features. A field `context_id` is kept.
    """
    records = Records(source, "an object with context, action and reward")
    flatten = Flattener(ignore=ignore)
    described = False

    def events() -> Iterator[Event]:
        nonlocal described
        for where, record in records:
            event = _event(record, where, flatten)
            described = described or isinstance(record["action"], Mapping)
            yield event

    log, notes = build(
        events, name=records.name, actions=actions, features=features, max_features=max_features
    )
    if described:
        notes.append("Features of actions are used as their names only.")
    return log, notes


def _event(record: Any, where: str, flatten: Flattener) -> Event:
    if not isinstance(record, Mapping) or "action" not in record or "reward" not in record:
        simulated = isinstance(record, Mapping) and "rewards" in record
        raise LogError(
            f"{where}: {'a simulated interaction (rewards of every action)' if simulated else 'no action or reward'}; "
            "expected an object with context, action and reward"
        )
    share, available = record.get("probability"), record.get("actions")
    return Event(
        where,
        flatten(record.get("context"), where),
        from_json(record["action"], where),
        reward_of(record["reward"], where),
        propensity=None if share is None else finite(share, where, "the probability"),
        eligible=None if available is None else set_from_json(available, where),
        context_id=record.get("context_id"),
    )


def to_interactions(log: Log) -> tuple[list[dict[str, Any]], list[str]]:
    """A log as dicts that coba takes for logged interactions, and what they cannot carry."""
    return list(_interactions(log)), _notes(log)


def write(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write one JSON object a line. Says what the format could not carry."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for record in _interactions(log):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return _notes(log)


def _interactions(log: Log) -> Iterator[dict[str, Any]]:
    names, _ = feature_names(log)
    dense = names == [f"x_{i}" for i in range(log.n_features)]
    shown = [to_json(name) for name in log.action_names]
    for row in rows(log):
        context: Any = {names[position]: value for position, value in row.features}
        if dense:
            context = log.contexts[row.number].tolist()
        record: dict[str, Any] = {"context": context, "action": shown[row.action], "reward": row.reward}
        if row.propensity is not None:
            record["probability"] = row.propensity
        if row.available is not None:
            record["actions"] = [shown[action] for action in row.available]
        if row.context_id is not None:
            record["context_id"] = row.context_id
        yield record


def _notes(log: Log) -> list[str]:
    notes = [*feature_names(log)[1], *order_notes(log), *missing_action_notes(log, every=False)]
    return [*notes, *distribution_notes(log), *support_notes(log, lists_everything=False)]
