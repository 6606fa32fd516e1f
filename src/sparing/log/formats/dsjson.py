"""Vowpal Wabbit's decision-service JSON (`--dsjson`), an event a line: `a`, `p`, `c._multi` and a label."""

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.formats.dsjson_event import AUTOMATIC, REFUSE, Dropping, Identity, Numbering, at, label_of
from sparing.log.formats.events import MAX_FEATURES, build
from sparing.log.formats.features import Flattener, finite
from sparing.log.formats.filling import Event
from sparing.log.formats.lines import Records
from sparing.log.formats.naming import by_label, by_text, text_notes
from sparing.log.formats.rows import (
    Row,
    feature_names,
    missing_action_notes,
    need_propensities,
    order_notes,
    rows,
    support_notes,
)
from sparing.log.log import Log
from sparing.log.parsing import brief

CONTEXT_ID = "ContextId"


def read(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    action_id: str = AUTOMATIC,
    features: Sequence[str] | None = None,
    ignore: Iterable[str] = (),
    context_id: str | None = CONTEXT_ID,
    pdrop: str = REFUSE,
    max_features: int = MAX_FEATURES,
) -> tuple[Log, list[str]]:
    """Read dsjson lines, or a list of such events: reward = −cost, distribution from `a` and `p`.

    Contexts are the fields of `c` in one level (`Flattener`), those that begin with an underscore left
    out, as Vowpal Wabbit does. `action_id` says what tells an action: a field such as "i.id", "features"
    (all of them), "position", or "auto": the first field called id or else `_tag` that the first event's
    actions have, else their features. `context_id` names a field of the event ("c.user.id", "EventId").
    Events whose `pdrop` differs stand for different numbers of events, 1/(1 − pdrop), and a log has no weights:
    they are refused, unless `pdrop` is "ignore".
    """
    events = _Events(source, action_id, Flattener(ignore=ignore, hidden=True), context_id, Dropping(pdrop))
    log, notes = build(
        events.walk,
        name=events.records.name,
        naming=by_label if action_id == "position" else by_text,
        actions=actions,
        features=features,
        max_features=max_features,
    )
    return log, [*notes, *events.notes(log)]


class _Events:
    """The events of a file. The first walk settles how actions are numbered, the second relies on it."""

    def __init__(
        self, source: Any, action_id: str, flatten: Flattener, context_id: str | None, dropping: Dropping
    ) -> None:
        self.records = Records(source, "an object with _label_cost, a, p and c", objects_only=True)
        self.dropping = dropping
        self.identity = Identity(action_id)
        self.flatten = flatten
        self.context_id = context_id
        self.a, self.label = Numbering("a"), Numbering("_label_Action")
        self.settled = False
        self.unlabelled = self.unlearnt = self.found_ids = 0

    def walk(self) -> Iterator[Event]:
        """One event for each labelled line that is not marked as not to be learnt from."""
        self.unlabelled = self.unlearnt = self.found_ids = 0
        for where, record in self.records:
            label = label_of(record, where, self.records.expected)
            if label is None:
                self.unlabelled += 1
            elif record.get("_skipLearn"):
                self.unlearnt += 1
            else:
                yield self._event(where, record, label)
        self.settled = True

    def _event(self, where: str, record: dict[str, Any], label: dict[str, Any]) -> Event:
        context = record.get("c")
        multi = context.get("_multi") if isinstance(context, dict) else None
        if not isinstance(multi, list) or not multi:
            raise LogError(f"{where}: no list of actions; expected c with _multi, an object an action")
        eligible = [self.identity(action, position, where) for position, action in enumerate(multi)]
        ranking = self._ranking(record, len(multi), where)
        chosen = self._chosen(label, ranking, len(multi), where)
        self.dropping.see(finite(record.get("pdrop") or 0, where, "pdrop"), where)
        share = label.get("probability")
        ids = at(record, self.context_id) if self.context_id else None
        self.found_ids += ids is not None
        return Event(
            where,
            self.flatten(context, where),
            eligible[chosen],
            -finite(label["cost"], where, "the label's cost"),
            propensity=None if share is None else finite(share, where, "the label's probability"),
            eligible=eligible,
            probabilities=_probabilities(record, ranking, len(multi), where),
            context_id=ids,
        )

    def _ranking(self, record: dict[str, Any], count: int, where: str) -> list[int] | None:
        """The positions in `_multi` that `a` names."""
        numbers = record.get("a")
        if numbers is None:
            return None
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise LogError(f"{where}: a is {brief(numbers)}; expected a list of action numbers")
        if len(set(numbers)) < len(numbers):
            raise LogError(f"{where}: a names an action twice: {brief(numbers)}")
        return self.a.positions(numbers, count, where, settled=self.settled)

    def _chosen(self, label: dict[str, Any], ranking: list[int] | None, count: int, where: str) -> int:
        """The position of the action that was taken: `_labelIndex`, else `_label_Action`, else first in `a`."""
        index, number = label.get("index"), label.get("action")
        for what, value in (("_labelIndex", index), ("_label_Action", number)):
            if value is not None and type(value) is not int:
                raise LogError(f"{where}: {what} is {brief(value)}; expected a whole number")
        position = None
        if number is not None:
            position = self.label.positions([number], count, where, settled=self.settled)[0]
        if not self.settled:
            return 0
        if index is not None and position is not None and index != position:
            raise LogError(f"{where}: _labelIndex {index} and _label_Action {number} name different actions")
        chosen = index if index is not None else position
        if chosen is None and ranking:
            chosen = ranking[0]
        if chosen is None or not 0 <= chosen < count:
            raise LogError(
                f"{where}: the label names action {chosen} of {count}; expected _labelIndex from 0 to {count - 1}"
            )
        return int(chosen)

    def notes(self, log: Log) -> list[str]:
        """What was skipped and assumed."""
        notes = [
            "Rewards are minus the costs. Timestamps are not kept.",
            f"Actions are told by {self.identity.said}; any other features of theirs are left out.",
            *self.a.notes(),
            *self.label.notes(),
        ]
        if self.context_id == CONTEXT_ID and not self.found_ids:
            notes.append("EventId names an event, not a context: context_id='EventId' would keep it.")
        if self.unlabelled:
            notes.append(f"{self.unlabelled} lines without a label were skipped.")
        if self.unlearnt:
            notes.append(f"{self.unlearnt} events marked _skipLearn were skipped.")
        if self.records.skipped:
            notes.append(f"{self.records.skipped} lines that are not JSON objects were skipped.")
        return [*notes, *self.dropping.notes()]


def _probabilities(
    record: dict[str, Any], ranking: list[int] | None, count: int, where: str
) -> list[float] | None:
    """The probability of each action of `_multi`; those that `a` does not name have none."""
    shares = record.get("p")
    if shares is None or ranking is None:
        return None
    if not isinstance(shares, list) or len(shares) != len(ranking):
        raise LogError(
            f"{where}: p does not fit a; expected one probability for each of {len(ranking)} actions"
        )
    table = [0.0] * count
    for position, share in zip(ranking, shares, strict=True):
        table[position] = finite(share, where, "a probability in p")
    return table


def write(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write dsjson lines: actions as `{"a": {"id": name}}`. Says what the format could not carry."""
    need_propensities(log, "dsjson")
    names, notes = feature_names(log, usable=lambda name: name and not name.startswith("_"))
    texts = [labels.as_text(name) for name in log.action_names]
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows(log):
            file.write(
                json.dumps(_record(row, names, texts), ensure_ascii=False, separators=(",", ":")) + "\n"
            )
    notes += [*text_notes(log.action_names), *order_notes(log)]
    return [*notes, *support_notes(log, lists_everything=True), *missing_action_notes(log)]


def _record(row: Row, names: list[str], texts: list[str]) -> dict[str, Any]:
    available = list(range(len(texts))) if row.available is None else row.available
    place = {action: i for i, action in enumerate(available)}
    order = [row.action, *(action for action in available if action != row.action)]
    context: dict[str, Any] = {names[position]: value for position, value in row.features}
    context["_multi"] = [{"a": {"id": texts[action]}} for action in available]
    record: dict[str, Any] = {
        "_label_cost": -row.reward,
        "_label_probability": row.propensity,
        "_label_Action": place[row.action] + 1,
        "_labelIndex": place[row.action],
        "Version": "1",
        "EventId": str(row.number),
        "a": [place[action] + 1 for action in order],
        "c": context,
    }
    if row.probabilities is not None:
        record["p"] = [row.probabilities[place[action]] for action in order]
    if row.context_id is not None:
        record[CONTEXT_ID] = row.context_id
    return record
