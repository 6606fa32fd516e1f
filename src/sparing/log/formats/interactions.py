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
from sparing.log.columns import keywords_of
from sparing.log.formats import writing
from sparing.log.formats.events import Event, Reader
from sparing.log.formats.records import Flattener, Records, finite, from_json, reward_of, set_from_json
from sparing.log.log import Log

POSITION = "position"
ADVICE = "If they are the same few with changing features, action_id='position' tells them by their place."
STEP = "a list of arms, context, arm and reward"


@keywords_of(Reader.read)
def read_coba(
    source: Any, *, action_id: str | None = None, ignore: Iterable[str] = (), **vocabulary: Any
) -> tuple[Log, list[str]]:
    """Read interactions from a list of dicts, or from a file with one JSON object a line.

    `actions` of an interaction are those it could have taken. An action that is a list is the tuple of its
    parts; one that is an object is named by its features; `action_id="position"` tells them by their place
    among the interaction's actions, from 1. A field `context_id` is kept.
    """
    if action_id not in (None, POSITION):
        raise LogError(
            f"action_id={action_id!r}; of coba's interactions it can only be {POSITION!r}, or None"
        )
    return _Interactions(source, by_position=action_id == POSITION, ignore=ignore).read(**vocabulary)


class _Interactions(Reader):
    """coba's interactions, what their actions are written as, and the most that one of them has."""

    def __init__(self, source: Any, *, by_position: bool, ignore: Iterable[str]) -> None:
        self.records = Records(source, "an object with context, action and reward")
        super().__init__(self.records.name)
        self.by_position, self.flatten = by_position, Flattener(ignore=ignore)
        self.kinds: set[str] = set()
        self.most = 1

    def events(self) -> Iterator[Event]:
        """One event for each interaction."""
        for where, record in self.records:
            event = _interaction(record, where, self.flatten)
            self.kinds.add(_kind(record["action"]))
            self.most = max(self.most, len(event.eligible or ()))
            yield _by_position(event) if self.by_position else event

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What features of actions mean here."""
        if "object" in self.kinds:
            return ["Features of actions are used as their names only."]
        if "numbers" not in self.kinds or log.n_actions <= self.most:
            return []
        return [
            f"Actions are lists of features, used as their names: {log.n_actions} actions in all, though no row has "
            f"more than {self.most}. {ADVICE}"
        ]


def _kind(action: Any) -> str:
    """What an action is written as: an object or numbers, which are its features, or a label."""
    if isinstance(action, Mapping):
        return "object"
    listed = isinstance(action, list | tuple) and len(action) > 0
    return "numbers" if listed and all(isinstance(part, Real) for part in action) else "label"


def _by_position(event: Event) -> Event:
    """The event with its actions named by their place, from 1."""
    eligible = list(event.eligible or ())
    if eligible.count(event.action) != 1:
        raise LogError(
            f"{event.where}: the logged action stands {eligible.count(event.action)} times among the actions; "
            "action_id='position' needs it once"
        )
    return replace(event, action=eligible.index(event.action) + 1, eligible=list(range(1, len(eligible) + 1)))


def _interaction(record: Any, where: str, flatten: Flattener) -> Event:
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
    return list(_interactions(log)), _coba_notes(log)


def write_coba(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write one JSON object a line. Says what the format could not carry."""
    writing.write_json(path, _interactions(log))
    return _coba_notes(log)


def _interactions(log: Log) -> Iterator[dict[str, Any]]:
    names, _ = writing.feature_names(log)
    dense = names == [f"x_{i}" for i in range(log.n_features)]
    shown = [writing.to_json(name) for name in log.action_names]
    for row in writing.rows(log):
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


def _coba_notes(log: Log) -> list[str]:
    notes = [
        *writing.feature_names(log)[1],
        *writing.order_notes(log),
        *writing.missing_action_notes(log, every=False),
    ]
    return [*notes, *writing.distribution_notes(log), *writing.support_notes(log, lists_everything=False)]


@keywords_of(Reader.read)
def read_river(source: Any, *, ignore: Iterable[str] = (), **vocabulary: Any) -> tuple[Log, list[str]]:
    """Read a history from a list of tuples, or from a file with one JSON list a line.

    The arms of a step are the actions it could have taken. The log has no propensities.
    """
    return _Steps(source, ignore).read(**vocabulary)


class _Steps(Reader):
    """river's steps."""

    def __init__(self, source: Any, ignore: Iterable[str]) -> None:
        self.records, self.flatten = Records(source, STEP), Flattener(ignore=ignore)
        super().__init__(self.records.name)

    def events(self) -> Iterator[Event]:
        """One event for each step."""
        return (_step(record, where, self.flatten) for where, record in self.records)


def _step(record: Any, where: str, flatten: Flattener) -> Event:
    if not isinstance(record, list | tuple) or len(record) != 4:
        raise LogError(f"{where}: {str(record)[:60]!r}; expected {STEP}")
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
    return list(_history(log)), _river_notes(log)


def write_river(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write one JSON list a line. Says what the format could not carry."""
    steps = _history(log)
    writing.write_json(
        path,
        (
            [list(map(writing.to_json, arms)), *rest, writing.to_json(arm), reward]
            for arms, *rest, arm, reward in steps
        ),
    )
    return _river_notes(log)


def _history(log: Log) -> Iterator[tuple[list[Any], dict[str, float], Any, float]]:
    names, _ = writing.feature_names(log)
    for row in writing.rows(log):
        arms = range(log.n_actions) if row.available is None else row.available
        context = {names[position]: value for position, value in row.features}
        yield [log.action_names[arm] for arm in arms], context, log.action_names[row.action], row.reward


def _river_notes(log: Log) -> list[str]:
    notes = [*writing.feature_names(log)[1], *writing.order_notes(log), *writing.missing_action_notes(log)]
    if log.propensities is not None:
        notes.append("Propensities are lost: the format has no place for them.")
    if log.context_ids is not None:
        notes.append("Context ids are lost: the format has no place for them.")
    return [
        *notes,
        *writing.distribution_notes(log, kept="only the set is kept"),
        *writing.support_notes(log, lists_everything=True),
    ]


COBA = SimpleNamespace(read=read_coba, write=write_coba)
RIVER = SimpleNamespace(read=read_river, write=write_river)
