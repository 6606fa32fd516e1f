"""Vowpal Wabbit's `--json` lines: an object that is itself the context, with `_multi` for `--cb_adf`, or without."""

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.formats.dsjson_event import AUTOMATIC, POSITION, Identity, label_of
from sparing.log.formats.events import MAX_FEATURES, build
from sparing.log.formats.features import Flattener, finite
from sparing.log.formats.filling import Event
from sparing.log.formats.lines import Records
from sparing.log.formats.naming import Naming, by_label, by_number, by_text, numbered_note, text_notes
from sparing.log.formats.rows import (
    distribution_notes,
    feature_names,
    missing_action_notes,
    need_propensities,
    order_notes,
    rows,
    support_notes,
)
from sparing.log.formats.vw_line import label as label_in_text
from sparing.log.log import Log
from sparing.log.parsing import brief

EXPECTED = "an object with features and a label, and _multi for the actions' own"


def read(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    action_id: str = AUTOMATIC,
    features: Sequence[str] | None = None,
    ignore: Iterable[str] = (),
    max_features: int = MAX_FEATURES,
) -> tuple[Log, list[str]]:
    """Read `--json` lines, or a list of such objects: reward = −cost.

    With `_multi` the chosen action is the one with a `_label` of its own, or that `_labelIndex` (from 0) or
    else `_label_Action` (from 1) names; `action_id` is that of dsjson. Without `_multi` the actions are the
    numbers 1..K, as in `--cb` text.
    """
    events = _Events(source, action_id, Flattener(ignore=ignore, hidden=True))
    first = next((record for _, record in events.records if isinstance(record, Mapping)), {})
    events.listed = "_multi" in first
    naming: Naming = by_text if events.listed else by_number
    log, notes = build(
        events.walk,
        name=events.records.name,
        naming=by_label if events.listed and action_id == POSITION else naming,
        actions=actions,
        features=features,
        max_features=max_features,
    )
    return log, [*notes, *events.notes(log, named=actions is not None)]


class _Events:
    """The events of a file, all with a list of actions or all without."""

    def __init__(self, source: Any, action_id: str, flatten: Flattener) -> None:
        self.records = Records(source, EXPECTED, objects_only=True)
        self.identity, self.flatten = Identity(action_id), flatten
        self.listed = False
        self.unlabelled = 0

    def walk(self) -> Iterator[Event]:
        """One event for each labelled line."""
        self.unlabelled = 0
        for where, record in self.records:
            label = label_of(record, where, EXPECTED)
            if ("_multi" in record) != self.listed:
                raise LogError(
                    f"{where}: some lines have a list of actions, _multi, and some have not; split them"
                )
            event = (
                self._from_list(where, record, label) if self.listed else self._alone(where, record, label)
            )
            if event is None:
                self.unlabelled += 1
            else:
                yield event

    def _alone(self, where: str, record: Mapping[str, Any], label: dict[str, Any] | None) -> Event | None:
        label = label or _text_label(record.get("_label"), where)
        if label is None:
            return None
        number = label.get("action")
        if type(number) is not int or number < 1:
            raise LogError(f"{where}: the label's action is {brief(number)}; expected a whole number from 1")
        return self._event(where, record, label, number, None)

    def _from_list(self, where: str, record: Mapping[str, Any], label: dict[str, Any] | None) -> Event | None:
        multi = record["_multi"]
        if not isinstance(multi, list | tuple) or not multi:
            raise LogError(
                f"{where}: _multi is {str(multi)[:40]!r}; expected a list of objects, one an action"
            )
        eligible = [self.identity(action, position, where) for position, action in enumerate(multi)]
        own = [(i, found) for i, action in enumerate(multi) if (found := _own_label(action, where))]
        if len(own) + (label is not None) > 1:
            raise LogError(
                f"{where}: {len(own) + (label is not None)} labels in one event; only one action was taken"
            )
        if label is None and not own:
            return None
        chosen, label = own[0] if own else (_chosen(label or {}, len(multi), where), label or {})
        return self._event(where, record, label, eligible[chosen], eligible)

    def _event(
        self, where: str, record: Mapping[str, Any], label: dict[str, Any], action: Hashable, eligible: Any
    ) -> Event:
        share = label.get("probability")
        return Event(
            where,
            self.flatten(record, where),
            action,
            -finite(label["cost"], where, "the label's cost"),
            propensity=None if share is None else finite(share, where, "the label's probability"),
            eligible=eligible,
        )

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was skipped and assumed."""
        notes = ["Rewards are minus the costs."]
        if self.listed:
            notes.append(
                f"Actions are told by {self.identity.said}; any other features of theirs are left out."
            )
        elif not named:
            notes.append(numbered_note(log.action_names, first=1))
        if self.unlabelled:
            notes.append(f"{self.unlabelled} lines without a label were skipped.")
        if self.records.skipped:
            notes.append(f"{self.records.skipped} lines that are not JSON objects were skipped.")
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
    label = {"action": taken.action, "cost": taken.cost, "probability": taken.probability}
    return label if taken.cost is not None else None


def _chosen(label: Mapping[str, Any], count: int, where: str) -> int:
    """The position of the action that was taken."""
    index, number = label.get("index"), label.get("action")
    for value in (index, number):
        if value is not None and type(value) is not int:
            raise LogError(f"{where}: the label names action {brief(value)}; expected a whole number")
    if index is None and number is None:
        raise LogError(f"{where}: the label names no action; expected _labelIndex or _label_Action")
    chosen = int(index) if index is not None else int(number or 0) - 1
    if not 0 <= chosen < count or (number is not None and number != chosen + 1):
        raise LogError(
            f"{where}: the label's _labelIndex {index} (from 0) and _label_Action {number} (from 1) do not name one of "
            f"the {count} actions of _multi"
        )
    return chosen


def write(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write lines for `--cb_adf --json`: actions as `{"a": {"id": name}}`. Says what could not be carried."""
    need_propensities(log, "Vowpal Wabbit's --json format")
    names, notes = feature_names(log, usable=lambda name: name and not name.startswith("_"))
    texts = [labels.as_text(name) for name in log.action_names]
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows(log):
            available = list(range(len(texts))) if row.available is None else row.available
            place = available.index(row.action)
            record: dict[str, Any] = {
                "_label_cost": -row.reward,
                "_label_probability": row.propensity,
                "_label_Action": place + 1,
                "_labelIndex": place,
                **{names[position]: value for position, value in row.features},
                "_multi": [{"a": {"id": texts[action]}} for action in available],
            }
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
    if log.context_ids is not None:
        notes.append("Context ids are lost.")
    notes += [*text_notes(log.action_names), *order_notes(log), *distribution_notes(log)]
    return [*notes, *support_notes(log, lists_everything=True), *missing_action_notes(log)]
