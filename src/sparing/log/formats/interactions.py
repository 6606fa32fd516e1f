"""Interactions of two bandit libraries, in memory or as one JSON value on each line.

coba's logged interactions: `{context, action, reward, probability?, actions?}`. river's bandit history:
`(arms, context, arm, reward)`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

from sparing.errors import LogError
from sparing.log.formats.events import Event, EventReader
from sparing.log.formats.records import Flattener, JsonRecords, finite, from_json, reward_of, set_from_json
from sparing.log.log import Log

POSITION = "position"
ADVICE = (
    "If they are the same few with changing features, action_id='position' identifies them by their place."
)


class CobaReader(EventReader):
    """Reads interactions from a list of dicts, or from a file with one JSON object on each line.

    `actions` of an interaction are the available ones. An action that is a list is the tuple of its parts; one that is
    an object is named by its features; `action_id="position"` identifies them by their place among the interaction's
    actions, from 1. A field `context_id` is kept.
    """

    expected: ClassVar[str] = "an object with context, action and reward"

    def __init__(self, source: Any, *, action_id: str | None = None, ignore: Iterable[str] = ()) -> None:
        if action_id not in (None, POSITION):
            raise LogError(
                f"action_id={action_id!r}; of coba's interactions it can only be {POSITION!r}, or None"
            )
        self.records = JsonRecords(source, self.expected)
        super().__init__(self.records.name)
        self.by_position, self.flatten = action_id == POSITION, Flattener(ignore=ignore)

    def events(self) -> Iterator[Event]:
        for where, record in self.records:
            fields = self.fields(record, where)
            self.seen["objects"] += isinstance(fields["action"], Mapping)
            share, available = fields.get("probability"), fields.get("actions")
            event = Event(
                where,
                self.flatten(fields.get("context"), where),
                from_json(fields["action"], where),
                reward_of(fields["reward"], where),
                propensity=None if share is None else finite(share, where, "the probability"),
                eligible=None if available is None else set_from_json(available, where),
                context_id=fields.get("context_id"),
            )
            self.seen["most"] = max(self.seen["most"], len(set(event.eligible or ())))
            yield _by_position(event) if self.by_position else event

    def fields(self, record: Any, where: str) -> Mapping[str, Any]:
        """Return the parts of an interaction by their names."""
        if isinstance(record, Mapping) and "action" in record and "reward" in record:
            return record
        simulated = isinstance(record, Mapping) and "rewards" in record
        got = "a simulated interaction (rewards of every action)" if simulated else "no action or reward"
        raise LogError(f"{where}: {got}; expected {self.expected}")

    def notes(self, log: Log, *, named: bool) -> list[str]:
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


class RiverReader(CobaReader):
    """Reads a history from a list of tuples, or from a file with one JSON list on each line.

    The arms of a step are its available actions. The log has no propensities.
    """

    expected = "a list of arms, context, arm and reward"

    def __init__(self, source: Any, *, ignore: Iterable[str] = ()) -> None:
        super().__init__(source, ignore=ignore)

    def fields(self, record: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(record, list | tuple) or len(record) != 4 or record[0] is None:
            raise LogError(f"{where}: {str(record)[:60]!r}; expected {self.expected}")
        return dict(zip(("actions", "context", "action", "reward"), record, strict=True))

    def notes(self, log: Log, *, named: bool) -> list[str]:
        return []


def _by_position(event: Event) -> Event:
    eligible = list(event.eligible or ())
    if eligible.count(event.action) != 1:
        raise LogError(
            f"{event.where}: the logged action stands {eligible.count(event.action)} times among the actions; "
            "action_id='position' needs it once"
        )
    return replace(event, action=eligible.index(event.action) + 1, eligible=list(range(1, len(eligible) + 1)))
