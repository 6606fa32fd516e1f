"""Vowpal Wabbit's JSON lines: `--json`, where an object is the context, and `--dsjson`, where it contains one."""

import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from sparing.errors import LogError
from sparing.log import labels, writer
from sparing.log.formats.events import Event, EventReader
from sparing.log.formats.records import (
    Flattener,
    JsonRecords,
    by_label,
    by_number,
    by_text,
    finite,
    numbered_note,
)
from sparing.log.formats.vw_text import parse_label
from sparing.log.labels import shorten
from sparing.log.log import Log
from sparing.log.rows import AnyLog, Rows
from sparing.validation import one_of

EXPECTED = "an object with features and a label, and _multi for the actions' own"
EXPECTED_EVENT = "an object with _label_cost, a, p and c"
AUTOMATIC, FEATURES, POSITION = "auto", "features", "position"
CONTEXT_ID = "ContextId"
REFUSE, IGNORE = "refuse", "ignore"
UNLABELLED = "lines without a label"
LABEL = {
    "_label_cost": "cost",
    "_label_probability": "probability",
    "_label_action": "action",
    "_labelindex": "index",
}


class _LabelledReader(EventReader):
    """Reads JSON lines with Vowpal Wabbit's labels, `--json` or `--dsjson`."""

    def __init__(self, source: Any, expected: str, action_id: str, ignore: Iterable[str]) -> None:
        super().__init__("", by_label if action_id == POSITION else by_text)
        self.records = JsonRecords(source, expected, skipped=self.skipped)
        self.name = self.records.name
        self.identity, self.flatten = ActionIdentity(action_id), Flattener(ignore=ignore, hidden=True)

    def labelled(self) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
        """Yield each record with its place and its label."""
        for where, record in self.records:
            yield where, record, label_of(record, where, self.records.expected)

    def eligible(self, multi: Any, where: str) -> list[Hashable]:
        if not isinstance(multi, list | tuple) or not multi:
            raise LogError(
                f"{where}: no list of actions, _multi is {str(multi)[:40]!r}; expected an object for each action"
            )
        return [self.identity(action, position, where) for position, action in enumerate(multi)]

    def event(
        self, where: str, context: Any, label: Mapping[str, Any], action: Hashable, **more: Any
    ) -> Event:
        share = label.get("probability")
        return Event(
            where,
            self.flatten(context, where),
            action,
            -finite(label["cost"], where, "the label's cost"),
            propensity=None if share is None else finite(share, where, "the label's probability"),
            **more,
        )


class VwJsonReader(_LabelledReader):
    """Reads `--json` lines, or a list of such objects: reward = −cost. All have a list of actions, `_multi`, or none has.

    With `_multi` the chosen action is the one with a `_label` of its own, or that `_labelIndex` (from 0) or else
    `_label_Action` (from 1) names; `action_id` is that of dsjson. Without `_multi` the actions are the numbers 1..K,
    as in `--cb` text.
    """

    listed: bool | None = None

    def __init__(self, source: Any, *, action_id: str = AUTOMATIC, ignore: Iterable[str] = ()) -> None:
        super().__init__(source, EXPECTED, action_id, ignore)

    def events(self) -> Iterator[Event]:
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
            raise LogError(
                f"{where}: the label's action is {shorten(number)}; expected a whole number from 1"
            )
        return self.event(where, record, label, number)

    def _from_list(self, where: str, record: Mapping[str, Any], label: dict[str, Any] | None) -> Event | None:
        multi = record["_multi"]
        eligible = self.eligible(multi, where)
        own = [(i, found) for i, action in enumerate(multi) if (found := _own_label(action, where))]
        many = len(own) + (label is not None)
        if many > 1:
            raise LogError(f"{where}: {many} labels in one event; only one action was taken")
        if label is not None:
            own = [(chosen_index(label, len(multi), where), label)]
        if not own:
            return None
        chosen, found = own[0]
        return self.event(where, record, found, eligible[chosen], eligible=eligible)

    def notes(self, log: Log, *, named: bool) -> list[str]:
        notes = ["Rewards are minus the costs."]
        if self.listed:
            notes.append(self.identity.note)
        elif not named:
            notes.append(numbered_note(log.action_names, first=1))
        return notes


class DsjsonReader(_LabelledReader):
    """Reads dsjson lines, or a list of such events: reward = −cost, distribution from `a` and `p`.

    Contexts are the fields of `c` in one level (`Flattener`), without those that begin with an underscore, as Vowpal
    Wabbit does. `action_id` says what identifies an action: a field such as "i.id", "features" (all of them),
    "position", or "auto": the first field called id or else `_tag` that the first event's actions have, else their
    features. `context_id` names a field of the event ("c.user.id", "EventId"). Events whose `pdrop` differs represent
    different numbers of events, 1/(1 − pdrop), and a log has no weights: they are refused, unless `pdrop` is "ignore".

    Action numbers are assumed to begin at 1; if that fails, the whole file is checked for numbers from 0.
    """

    def __init__(
        self,
        source: Any,
        *,
        action_id: str = AUTOMATIC,
        ignore: Iterable[str] = (),
        context_id: str | None = CONTEXT_ID,
        pdrop: str = REFUSE,
    ) -> None:
        super().__init__(source, EXPECTED_EVENT, action_id, ignore)
        self.context_id, self.pdrop = context_id, one_of("pdrop", pdrop, (REFUSE, IGNORE))
        self.drop_rates: dict[float, str] = {}
        self.a, self.label = IndexBase("a"), IndexBase("_label_Action")

    def scan(self, **options: Any) -> tuple[Rows, list[str]]:
        try:
            return super().scan(**options)
        except LogError as error:
            found = error
        for where, record, label in self._learnt():
            count = len(self.eligible(get_path(record.get("c"), "_multi"), where))
            self.a.add(record.get("a"), count, where)
            self.label.add([label.get("action")], count, where)
        if self.a.base == self.label.base == 1:
            raise found
        self.skipped.clear()
        self.seen.clear()
        return super().scan(**options)

    def events(self) -> Iterator[Event]:
        for where, record, label in self._learnt():
            yield self._event(where, record, label)

    def _learnt(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        for where, record, label in self.labelled():
            if label is None:
                self.skipped[UNLABELLED] += 1
            elif record.get("_skipLearn"):
                self.skipped["events marked _skipLearn"] += 1
            else:
                yield where, record, label

    def _event(self, where: str, record: dict[str, Any], label: dict[str, Any]) -> Event:
        context = record.get("c")
        eligible = self.eligible(get_path(context, "_multi"), where)
        ranking = self._ranking(record, len(eligible), where)
        first = ranking[0] if ranking else None
        chosen = chosen_index(label, len(eligible), where, base=self.label.base, otherwise=first)
        self._add_drop_rate(finite(record.get("pdrop") or 0, where, "pdrop"), where)
        ids = get_path(record, self.context_id) if self.context_id else None
        self.seen["ids"] += ids is not None
        shares = _probabilities(record, ranking, len(eligible), where)
        return self.event(
            where, context, label, eligible[chosen], eligible=eligible, probabilities=shares, context_id=ids
        )

    def _ranking(self, record: dict[str, Any], count: int, where: str) -> list[int] | None:
        """Return the positions in `_multi` that `a` names."""
        numbers = record.get("a")
        if numbers is None:
            return None
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise LogError(f"{where}: a is {shorten(numbers)}; expected a list of action numbers")
        if len(set(numbers)) < len(numbers):
            raise LogError(f"{where}: a names an action twice: {shorten(numbers)}")
        base = self.a.base
        bad = [number for number in numbers if not base <= number < base + count]
        if bad:
            raise LogError(
                f"{where}: a names action {bad[0]}; expected {base} to {base + count - 1}, one of the {count} actions "
                "of _multi"
            )
        return [number - base for number in numbers]

    def notes(self, log: Log, *, named: bool) -> list[str]:
        notes = ["Rewards are minus the costs. Timestamps are not kept.", self.identity.note]
        notes += [*self.a.notes(), *self.label.notes()]
        if self.context_id == CONTEXT_ID and not self.seen["ids"]:
            notes.append("EventId names an event, not a context: context_id='EventId' would keep it.")
        dropped = max(self.drop_rates)
        if len(self.drop_rates) > 1:
            notes.append(
                f"Events were dropped at rates up to {dropped:g} (pdrop) that differ, and the log has no weights: "
                "averages over it are not averages over the traffic."
            )
        elif dropped:
            notes.append(
                f"Of all events alike, {dropped:g} were dropped (pdrop): counts are smaller, averages the same."
            )
        return notes

    def _add_drop_rate(self, share: float, where: str) -> None:
        if not 0 <= share < 1:
            raise LogError(
                f"{where}: pdrop is {share}; must be in [0, 1), for a logged event was not dropped"
            )
        self.drop_rates.setdefault(share, where)
        if len(self.drop_rates) > 1 and self.pdrop == REFUSE:
            known, place = next(iter(self.drop_rates.items()))
            raise LogError(
                f"{where}: pdrop is {share}, but {known} at {place}. Vowpal Wabbit counts such an event 1/(1 − pdrop) "
                "times, and a log has no weights: averages over it would not be averages over the traffic. Read "
                "the events of each pdrop on their own, or all as they are with pdrop='ignore' "
                "(sparing convert --option pdrop=ignore)"
            )


def _probabilities(
    record: dict[str, Any], ranking: list[int] | None, count: int, where: str
) -> list[float] | None:
    """Return the probability of each action of `_multi`, 0 for those that `a` does not name."""
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


class IndexBase:
    """Whether action numbers begin at 0 or 1, by the evidence of the whole file; 1 without evidence."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.zero = self.last = ""

    def add(self, numbers: Any, count: int, where: str) -> None:
        """Add the numbers of an event with `count` actions."""
        listed = numbers if isinstance(numbers, list) else []
        if 0 in listed:
            self.zero = self.zero or where
        if count in listed:
            self.last = self.last or where

    @property
    def base(self) -> int:
        """The first action's number."""
        if self.zero and self.last:
            raise LogError(
                f"{self.what} is numbered from 0 at {self.zero} (it has 0) but from 1 at {self.last} (it has "
                "the number of actions). Split the file, or renumber one part"
            )
        return 0 if self.zero else 1

    def notes(self) -> list[str]:
        return [f"{self.what} is numbered from 0 ({self.zero} has a 0)."] if self.zero else []


def _own_label(action: Any, where: str) -> dict[str, Any] | None:
    """Return the label of an action in `_multi`, an object or a text."""
    if not isinstance(action, Mapping):
        return None
    return _text_label(action.get("_label"), where) or label_of(action, where, EXPECTED)


def _text_label(text: Any, where: str) -> dict[str, Any] | None:
    if not isinstance(text, str):
        return None
    label = parse_label(text, where)
    return None if label.cost is None else label._asdict()


def chosen_index(
    label: Mapping[str, Any], count: int, where: str, *, base: int = 1, otherwise: int | None = None
) -> int:
    """Return the index in `_multi` of the action taken: `_labelIndex`, else `_label_Action` from `base`, else `otherwise`."""
    index, number = label.get("index"), label.get("action")
    for name, value in (("_labelIndex", index), ("_label_Action", number)):
        if value is not None and type(value) is not int:
            raise LogError(f"{where}: {name} is {shorten(value)}; expected a whole number")
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
    """Return a label's cost, probability, action and index, or None if there is no cost.

    The fields are in the event (`_label_cost`, …, in any case of letters) or in an object `_label`. An event that is
    not a single choice among listed actions is refused.
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


def get_path(record: Any, path: str) -> Any:
    """Return the value at a dotted path, or None."""
    for key in path.split("."):
        if not isinstance(record, dict | Mapping):
            return None
        record = record.get(key)
    return record


class ActionIdentity:
    """Labels the actions of `_multi` by a rule; the first event decides which rule `auto` is."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._flatten = Flattener(hidden=True)

    @property
    def note(self) -> str:
        """The rule, in words."""
        known = {FEATURES: "their features", POSITION: "their position in _multi"}
        by = known.get(self.rule, f"the field {self.rule}")
        return f"Actions are identified by {by}; their other features are left out."

    def __call__(self, action: Any, position: int, where: str) -> Hashable:
        if not isinstance(action, dict | Mapping):
            raise LogError(
                f"{where}: action {position + 1} of _multi is {shorten(action)}; expected an object"
            )
        if self.rule == AUTOMATIC:
            tag = "_tag" if isinstance(action.get("_tag"), str) else FEATURES
            self.rule = _find_id(action, "") or tag
        if self.rule == POSITION:
            return position + 1
        if self.rule == FEATURES:
            features = self._flatten(action, where)
            if not features:
                raise LogError(
                    f"{where}: action {position + 1} has no features to identify it. Pass action_id={POSITION!r}"
                )
            pairs = sorted(features.items())
            return ", ".join(name if value == 1 else f"{name}:{value!r}" for name, value in pairs)
        value = get_path(action, self.rule)
        if type(value) is str:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise LogError(
                f"{where}: action {position + 1} has {shorten(value)} in the field {self.rule!r} that identifies "
                f"actions. Choose another with action_id=..., {FEATURES!r} or {POSITION!r}"
            )
        return str(value)


def _find_id(value: Mapping[str, Any], prefix: str) -> str | None:
    """Return the dotted path of a field called id, at any depth."""
    for key, part in value.items():
        if key.lower() == "id" and isinstance(part, str | int):
            return f"{prefix}{key}"
        if isinstance(part, Mapping) and (found := _find_id(part, f"{prefix}{key}.")):
            return found
    return None


def write_dsjson(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write dsjson lines, actions as `{"a": {"id": name}}`, and return what the format could not carry."""
    passing = writer.LogStream(log, needs_propensities="dsjson")
    header = passing.header
    names, notes = writer.feature_names(header, usable=lambda name: name and not name.startswith("_"))
    actions = [{"a": {"id": labels.label_text(name)}} for name in header.action_names]

    def record(row: writer.WrittenRow) -> dict[str, Any]:
        first = row.available.index(row.action)
        order = [first, *(place for place in range(len(row.available)) if place != first)]
        event: dict[str, Any] = {
            "_label_cost": -row.reward,
            "_label_probability": row.propensity,
            "_label_Action": first + 1,
            "_labelIndex": first,
            "Version": "1",
            "EventId": str(row.number),
            "a": [place + 1 for place in order],
            "c": {**dict(row.features), "_multi": [actions[action] for action in row.available]},
        }
        if row.probabilities is not None:
            event["p"] = [row.probabilities[place] for place in order]
        if row.context_id is not None:
            event[CONTEXT_ID] = row.context_id
        return event

    events = map(record, writer.rows(passing, names))
    encode = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    writer.write_lines(path, map(encode, events))
    return [
        *notes,
        *writer.text_notes(header.action_names),
        *writer.lossy_notes(passing, keeps_distributions=True),
    ]
