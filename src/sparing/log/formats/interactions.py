"""Steps of a bandit, in memory or a JSON value a line, as two tools have them.

coba's logged interactions: `{context, action, reward, probability?, actions?}`. river's bandit history:
`(arms, context, arm, reward)`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from numbers import Real
from types import SimpleNamespace
from typing import Any

from sparing.errors import LogError
from sparing.log import writer
from sparing.log.formats.events import Reader, readers
from sparing.log.formats.records import Flattener, Records, finite, from_json, reward_of, set_from_json
from sparing.log.formats.vocabulary import Event
from sparing.log.log import Log
from sparing.log.rows import AnyLog

POSITION = "position"
ADVICE = "If they are the same few with changing features, action_id='position' tells them by their place."
INTERACTION = "an object with context, action and reward"
STEP = "a list of arms, context, arm and reward"


def opened_coba(source: Any, *, action_id: str | None = None, ignore: Iterable[str] = ()) -> Reader:
    """Read interactions from a list of dicts, or from a file with one JSON object a line.

    `actions` of an interaction are those it could have taken. An action that is a list is the tuple of its
    parts; one that is an object is named by its features; `action_id="position"` tells them by their place
    among the interaction's actions, from 1. A field `context_id` is kept.
    """
    if action_id not in (None, POSITION):
        raise LogError(
            f"action_id={action_id!r}; of coba's interactions it can only be {POSITION!r}, or None"
        )
    return _Interactions(source, INTERACTION, ignore, by_position=action_id == POSITION)


def opened_river(source: Any, *, ignore: Iterable[str] = ()) -> Reader:
    """Read a history from a list of tuples, or from a file with one JSON list a line.

    The arms of a step are the actions it could have taken. The log has no propensities.
    """
    return _Steps(source, STEP, ignore)


read_coba, scan_coba = readers(opened_coba)
read_river, scan_river = readers(opened_river)


class _Interactions(Reader):
    """coba's interactions."""

    def __init__(
        self, source: Any, expected: str, ignore: Iterable[str], *, by_position: bool = False
    ) -> None:
        self.records = Records(source, expected)
        super().__init__(self.records.name)
        self.by_position, self.flatten = by_position, Flattener(ignore=ignore)

    def events(self) -> Iterator[Event]:
        """One event for each interaction."""
        for where, record in self.records:
            fields = self.fields(record, where)
            self.seen["objects"] += isinstance(fields["action"], Mapping)
            event = _event(fields, where, self.flatten)
            self.seen["most"] = max(self.seen["most"], len(set(event.eligible or ())))
            yield _by_position(event) if self.by_position else event

    def fields(self, record: Any, where: str) -> Mapping[str, Any]:
        """A record as an interaction."""
        if isinstance(record, Mapping) and "action" in record and "reward" in record:
            return record
        simulated = isinstance(record, Mapping) and "rewards" in record
        got = "a simulated interaction (rewards of every action)" if simulated else "no action or reward"
        raise LogError(f"{where}: {got}; expected {INTERACTION}")

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What features of actions mean here."""
        if self.seen["objects"]:
            return ["Features of actions are used as their names only."]
        lists = [name for name in log.action_names if isinstance(name, tuple) and name]
        numbers = any(all(isinstance(part, Real) for part in name) for name in lists)
        most = self.seen["most"] if log.support.known else 1
        if not numbers or log.n_actions <= most:
            return []
        return [
            f"Actions are lists of features, used as their names: {log.n_actions} actions in all, though no row has "
            f"more than {most}. {ADVICE}"
        ]


class _Steps(_Interactions):
    """river's steps: interactions without names for their parts."""

    def fields(self, record: Any, where: str) -> Mapping[str, Any]:
        """A step as an interaction."""
        if not isinstance(record, list | tuple) or len(record) != 4 or record[0] is None:
            raise LogError(f"{where}: {str(record)[:60]!r}; expected {STEP}")
        return dict(zip(("actions", "context", "action", "reward"), record, strict=True))

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """Nothing is assumed: arms are labels."""
        return []


def _event(fields: Mapping[str, Any], where: str, flatten: Flattener) -> Event:
    share, available = fields.get("probability"), fields.get("actions")
    return Event(
        where,
        flatten(fields.get("context"), where),
        from_json(fields["action"], where),
        reward_of(fields["reward"], where),
        propensity=None if share is None else finite(share, where, "the probability"),
        eligible=None if available is None else set_from_json(available, where),
        context_id=fields.get("context_id"),
    )


def _by_position(event: Event) -> Event:
    """The event with its actions named by their place, from 1."""
    eligible = list(event.eligible or ())
    if eligible.count(event.action) != 1:
        raise LogError(
            f"{event.where}: the logged action stands {eligible.count(event.action)} times among the actions; "
            "action_id='position' needs it once"
        )
    return replace(event, action=eligible.index(event.action) + 1, eligible=list(range(1, len(eligible) + 1)))


def write_coba(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write one JSON object a line. Says what the format could not carry."""
    passing = writer.Passing(log)
    names, notes = writer.feature_names(passing.header)
    dense = names == [f"x_{i}" for i in range(len(names))]
    shown = [writer.to_json(name) for name in passing.header.action_names]
    sets = writer.has_sets(passing.header)

    def record(row: writer.Row) -> dict[str, Any]:
        told = {
            "context": row.context.tolist() if dense else dict(row.features),
            "action": shown[row.action],
            "reward": row.reward,
            "probability": row.propensity,
            "actions": [shown[action] for action in row.available] if sets else None,
            "context_id": row.context_id,
        }
        return {name: value for name, value in told.items() if value is not None}

    writer.write_json(path, map(record, writer.rows(passing, names)))
    return [*notes, *writer.lost(passing, listing=False)]


def write_river(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write one JSON list a line. Says what the format could not carry."""
    passing = writer.Passing(log)
    header = passing.header
    names, notes = writer.feature_names(header)
    shown = [writer.to_json(name) for name in header.action_names]

    def step(row: writer.Row) -> tuple[list[Any], dict[str, float], Any, float]:
        return [shown[arm] for arm in row.available], dict(row.features), shown[row.action], row.reward

    writer.write_json(path, map(step, writer.rows(passing, names)))
    parts = {"Propensities": header.propensities, "Context ids": header.context_ids}
    lost = [what for what, there in parts.items() if there is not None]
    notes += [f"{what} are lost: the format has no place for them." for what in lost]
    return [*notes, *writer.lost(passing, kept="only the set is kept")]


COBA = SimpleNamespace(read=read_coba, scan=scan_coba, write=write_coba)
RIVER = SimpleNamespace(read=read_river, scan=scan_river, write=write_river)
