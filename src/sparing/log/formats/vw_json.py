"""Vowpal Wabbit's `--json` lines: an object that is itself the context, with `_multi` for `--cb_adf`, or without."""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from sparing.errors import LogError
from sparing.log import labels, writer
from sparing.log.formats.events import Reader, readers
from sparing.log.formats.records import (
    Flattener,
    Records,
    by_label,
    by_number,
    by_text,
    finite,
    numbered_note,
)
from sparing.log.formats.vocabulary import Event
from sparing.log.formats.vw_text import label as label_in_text
from sparing.log.labels import brief
from sparing.log.log import Log
from sparing.log.rows import AnyLog

EXPECTED = "an object with features and a label, and _multi for the actions' own"
AUTOMATIC, FEATURES, POSITION = "auto", "features", "position"
UNLABELLED = "lines without a label"
LABEL = {
    "_label_cost": "cost",
    "_label_probability": "probability",
    "_label_action": "action",
    "_labelindex": "index",
}


def opened(source: Any, *, action_id: str = AUTOMATIC, ignore: Iterable[str] = ()) -> Reader:
    """Read `--json` lines, or a list of such objects: reward = −cost.

    With `_multi` the chosen action is the one with a `_label` of its own, or that `_labelIndex` (from 0) or
    else `_label_Action` (from 1) names; `action_id` is that of dsjson. Without `_multi` the actions are the
    numbers 1..K, as in `--cb` text.
    """
    return _Events(source, action_id, ignore)


read, scan = readers(opened)


class Events(Reader):
    """The events of a file of JSON lines with Vowpal Wabbit's labels; of use to whichever format they are in."""

    def __init__(self, source: Any, expected: str, action_id: str, ignore: Iterable[str]) -> None:
        super().__init__("", by_label if action_id == POSITION else by_text)
        self.records = Records(source, expected, skipped=self.skipped)
        self.name = self.records.name
        self.identity, self.flatten = Identity(action_id), Flattener(ignore=ignore, hidden=True)

    def labelled(self) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
        """Each record with its place and its label."""
        for where, record in self.records:
            yield where, record, label_of(record, where, self.records.expected)

    def eligible(self, multi: Any, where: str) -> list[Hashable]:
        """The labels of the actions that an event lists."""
        if not isinstance(multi, list | tuple) or not multi:
            raise LogError(
                f"{where}: no list of actions, _multi is {str(multi)[:40]!r}; expected an object for each action"
            )
        return [self.identity(action, position, where) for position, action in enumerate(multi)]

    def event(
        self, where: str, context: Any, label: Mapping[str, Any], action: Hashable, **more: Any
    ) -> Event:
        """An event of this label: reward = −cost."""
        share = label.get("probability")
        return Event(
            where,
            self.flatten(context, where),
            action,
            -finite(label["cost"], where, "the label's cost"),
            propensity=None if share is None else finite(share, where, "the label's probability"),
            **more,
        )


class _Events(Events):
    """All events have a list of actions, or all have none."""

    def __init__(self, source: Any, action_id: str, ignore: Iterable[str]) -> None:
        super().__init__(source, EXPECTED, action_id, ignore)
        self.listed: bool | None = None

    def events(self) -> Iterator[Event]:
        """One event for each labelled line."""
        for where, record, label in self.labelled():
            if self.listed is None:
                self.listed = "_multi" in record
                self.naming = self.naming if self.listed else by_number
            if ("_multi" in record) != self.listed:
                raise LogError(
                    f"{where}: some lines have a list of actions, _multi, and some have not; split them"
                )
            event = (self._from_list if self.listed else self._alone)(where, record, label)
            if event is None:
                self.skipped[UNLABELLED] += 1
            else:
                yield event

    def _alone(self, where: str, record: Mapping[str, Any], label: dict[str, Any] | None) -> Event | None:
        label = label or _text_label(record.get("_label"), where)
        if label is None:
            return None
        number = label.get("action")
        if type(number) is not int or number < 1:
            raise LogError(f"{where}: the label's action is {brief(number)}; expected a whole number from 1")
        return self.event(where, record, label, number)

    def _from_list(self, where: str, record: Mapping[str, Any], label: dict[str, Any] | None) -> Event | None:
        multi = record["_multi"]
        eligible = self.eligible(multi, where)
        own = [(i, found) for i, action in enumerate(multi) if (found := _own_label(action, where))]
        if len(own) + (label is not None) > 1:
            raise LogError(
                f"{where}: {len(own) + (label is not None)} labels in one event; only one action was taken"
            )
        if label is None and not own:
            return None
        chosen, label = own[0] if own else (chosen_place(label or {}, len(multi), where), label or {})
        return self.event(where, record, label, eligible[chosen], eligible=eligible)

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed."""
        notes = ["Rewards are minus the costs."]
        if self.listed:
            notes.append(self.identity.note)
        elif not named:
            notes.append(numbered_note(log.action_names, first=1))
        return notes


def _own_label(action: Any, where: str) -> dict[str, Any] | None:
    """The label of an action in `_multi`, as an object or as text."""
    if not isinstance(action, Mapping):
        return None
    return _text_label(action.get("_label"), where) or label_of(action, where, EXPECTED)


def _text_label(text: Any, where: str) -> dict[str, Any] | None:
    """A label `action:cost:probability`."""
    if not isinstance(text, str):
        return None
    taken = label_in_text(text, where)
    return None if taken.cost is None else taken._asdict()


def chosen_place(
    label: Mapping[str, Any], count: int, where: str, *, base: int = 1, otherwise: int | None = None
) -> int:
    """The place in `_multi` of the action taken: `_labelIndex`, else `_label_Action` from `base`, else `otherwise`."""
    index, number = label.get("index"), label.get("action")
    for name, value in (("_labelIndex", index), ("_label_Action", number)):
        if value is not None and type(value) is not int:
            raise LogError(f"{where}: {name} is {brief(value)}; expected a whole number")
    place = number - base if index is None and number is not None else index
    place = otherwise if place is None else place
    if place is None:
        raise LogError(f"{where}: the label names no action; expected _labelIndex or _label_Action")
    if not 0 <= place < count or number not in (None, place + base):
        raise LogError(
            f"{where}: the label's _labelIndex {index} (from 0) and _label_Action {number} (from {base}) do not name "
            f"one of the {count} actions of _multi"
        )
    return int(place)


def label_of(record: Any, where: str, expected: str) -> dict[str, Any] | None:
    """A label's cost, probability, action and index, in either style, or None where there is no cost.

    The fields stand in the event (`_label_cost`, …, in any case of letters) or in an object `_label`. An event
    that is no single choice among listed actions is refused.
    """
    if not isinstance(record, dict | Mapping):
        raise LogError(f"{where}: {type(record).__name__} {str(record)[:40]!r}; expected {expected}")
    if "_outcomes" in record:
        raise LogError(f"{where}: several decisions in one event (ccb or slates); a bandit log has one")
    if "_label_ca" in record:
        raise LogError(
            f"{where}: an action out of a continuous range (_label_ca); a bandit log has a list of actions. Cut the "
            "range into a few, and write each event with the one it fell in"
        )
    label = {LABEL[str(key).lower()]: value for key, value in record.items() if str(key).lower() in LABEL}
    nested = record.get("_label")
    if isinstance(nested, Mapping):
        label |= {str(key).lower(): value for key, value in nested.items()}
    return label if label.get("cost") is not None else None


def at(record: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for key in path.split("."):
        if not isinstance(record, dict | Mapping):
            return None
        record = record.get(key)
    return record


class Identity:
    """What tells one action of `_multi` from another; `auto` is settled by the first event."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._flatten = Flattener(hidden=True)

    @property
    def note(self) -> str:
        """The rule, in words."""
        said = {FEATURES: "their features", POSITION: "their position in _multi"}
        by = said.get(self.rule, f"the field {self.rule}")
        return f"Actions are told by {by}; any other features of theirs are left out."

    def __call__(self, action: Any, position: int, where: str) -> Hashable:
        """An action's label."""
        if not isinstance(action, dict | Mapping):
            raise LogError(f"{where}: action {position + 1} of _multi is {brief(action)}; expected an object")
        if self.rule == AUTOMATIC:
            tag = "_tag" if isinstance(action.get("_tag"), str) else FEATURES
            self.rule = _find_id(action, "") or tag
        if self.rule == POSITION:
            return position + 1
        if self.rule == FEATURES:
            features = self._flatten(action, where)
            if not features:
                raise LogError(
                    f"{where}: action {position + 1} has no features to tell it by. Pass action_id={POSITION!r}"
                )
            return ", ".join(
                name if value == 1 else f"{name}:{value!r}" for name, value in sorted(features.items())
            )
        value = at(action, self.rule)
        if type(value) is str:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise LogError(
                f"{where}: action {position + 1} has {brief(value)} in the field {self.rule!r} that tells actions "
                f"apart. Choose another with action_id=..., {FEATURES!r} or {POSITION!r}"
            )
        return str(value)


def _find_id(value: Mapping[str, Any], prefix: str) -> str | None:
    """The dotted path of a field called id, at any depth."""
    for key, part in value.items():
        if key.lower() == "id" and isinstance(part, str | int):
            return f"{prefix}{key}"
        if isinstance(part, Mapping) and (found := _find_id(part, f"{prefix}{key}.")):
            return found
    return None


def write(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write lines for `--cb_adf --json`: actions as `{"a": {"id": name}}`. Says what could not be carried."""
    title = "Vowpal Wabbit's --json format"
    return write_labelled(log, path, lambda _, label, context: label | context, title=title, whole=False)


def write_labelled(
    log: AnyLog,
    path: str | os.PathLike[str],
    record: Callable[[writer.Row, dict[str, Any], dict[str, Any]], dict[str, Any]],
    *,
    title: str,
    whole: bool,
) -> list[str]:
    """Write `record(row, label, context)` of each row, the context with its list of actions. Says what is lost.

    `whole`: whether records also hold ids and distributions.
    """
    passing = writer.Passing(log)
    header = passing.header
    writer.need_propensities(header, title)
    names, notes = writer.feature_names(header, usable=lambda name: name and not name.startswith("_"))
    actions = [{"a": {"id": labels.as_text(name)}} for name in header.action_names]

    def written(row: writer.Row) -> dict[str, Any]:
        place = row.available.index(row.action)
        label = {"_label_cost": -row.reward, "_label_probability": row.propensity}
        context = {**dict(row.features), "_multi": [actions[action] for action in row.available]}
        return record(row, {**label, "_label_Action": place + 1, "_labelIndex": place}, context)

    writer.write_json(path, map(written, writer.rows(passing, names)), compact=True)
    if header.context_ids is not None and not whole:
        notes.append("Context ids are lost.")
    return [
        *notes,
        *writer.text_notes(header.action_names),
        *writer.lost(passing, kept="" if whole else writer.KEPT),
    ]
