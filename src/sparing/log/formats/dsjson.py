"""Vowpal Wabbit's decision-service JSON (`--dsjson`), an event a line: `a`, `p`, `c._multi` and a label."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from sparing.errors import LogError
from sparing.log import writer
from sparing.log.formats.events import Reader, readers
from sparing.log.formats.records import finite
from sparing.log.formats.vocabulary import Event
from sparing.log.formats.vw_json import AUTOMATIC, UNLABELLED, Events, at, chosen_place, write_labelled
from sparing.log.labels import brief
from sparing.log.log import Log
from sparing.log.rows import AnyLog, Rows
from sparing.validation import one_of

CONTEXT_ID = "ContextId"
REFUSE, IGNORE = "refuse", "ignore"

Found = TypeVar("Found")


def opened(
    source: Any,
    *,
    action_id: str = AUTOMATIC,
    ignore: Iterable[str] = (),
    context_id: str | None = CONTEXT_ID,
    pdrop: str = REFUSE,
) -> Reader:
    """Read dsjson lines, or a list of such events: reward = −cost, distribution from `a` and `p`.

    Contexts are the fields of `c` in one level (`Flattener`), those that begin with an underscore left
    out, as Vowpal Wabbit does. `action_id` says what tells an action: a field such as "i.id", "features"
    (all of them), "position", or "auto": the first field called id or else `_tag` that the first event's
    actions have, else their features. `context_id` names a field of the event ("c.user.id", "EventId").
    Events whose `pdrop` differs stand for different numbers of events, 1/(1 − pdrop), and a log has no weights:
    they are refused, unless `pdrop` is "ignore".
    """
    return _Events(source, action_id, ignore, context_id, Dropping(pdrop))


read, scan = readers(opened)


class _Events(Events):
    """Action numbers are taken to begin at 1; where that fails, the whole file is asked whether they begin at 0."""

    def __init__(
        self, source: Any, action_id: str, ignore: Iterable[str], context_id: str | None, dropping: "Dropping"
    ) -> None:
        super().__init__(source, "an object with _label_cost, a, p and c", action_id, ignore)
        self.context_id, self.dropping = context_id, dropping
        self.a, self.label = Numbering("a"), Numbering("_label_Action")

    def read(self, **vocabulary: Any) -> tuple[Log, list[str]]:
        """The log, and what was assumed."""
        return self._settled(super().read, vocabulary)

    def scan(self, **vocabulary: Any) -> tuple[Rows, list[str]]:
        """The log as one that is walked, and what was assumed."""
        return self._settled(super().scan, vocabulary)

    def _settled(self, walk: Callable[..., Found], vocabulary: dict[str, Any]) -> Found:
        try:
            return walk(**vocabulary)
        except LogError as error:
            found = error
        for where, record, label in self._learnt():
            count = len(self.eligible(at(record.get("c"), "_multi"), where))
            self.a.see(record.get("a"), count, where)
            self.label.see([label.get("action")], count, where)
        if self.a.base == self.label.base == 1:
            raise found
        self.skipped.clear()
        self.seen.clear()
        return walk(**vocabulary)

    def events(self) -> Iterator[Event]:
        """One event for each labelled line that is not marked as not to be learnt from."""
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
        eligible = self.eligible(at(context, "_multi"), where)
        ranking = self._ranking(record, len(eligible), where)
        first = ranking[0] if ranking else None
        chosen = chosen_place(label, len(eligible), where, base=self.label.base, otherwise=first)
        self.dropping.see(finite(record.get("pdrop") or 0, where, "pdrop"), where)
        ids = at(record, self.context_id) if self.context_id else None
        self.seen["ids"] += ids is not None
        shares = _probabilities(record, ranking, len(eligible), where)
        return self.event(
            where, context, label, eligible[chosen], eligible=eligible, probabilities=shares, context_id=ids
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
        base = self.a.base
        bad = [number for number in numbers if not base <= number < base + count]
        if bad:
            raise LogError(
                f"{where}: a names action {bad[0]}; expected {base} to {base + count - 1}, one of the {count} actions "
                "of _multi"
            )
        return [number - base for number in numbers]

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed."""
        notes = ["Rewards are minus the costs. Timestamps are not kept.", self.identity.note]
        notes += [*self.a.notes(), *self.label.notes()]
        if self.context_id == CONTEXT_ID and not self.seen["ids"]:
            notes.append("EventId names an event, not a context: context_id='EventId' would keep it.")
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


class Dropping:
    """The share of events like each that was dropped from the log (`pdrop`), which must be one for all."""

    def __init__(self, rule: str) -> None:
        self.rule = one_of("pdrop", rule, (REFUSE, IGNORE))
        self.rates: dict[float, str] = {}

    def see(self, share: float, where: str) -> None:
        """Take note of one event's pdrop."""
        if not 0 <= share < 1:
            raise LogError(
                f"{where}: pdrop is {share}; must be in [0, 1), for a logged event was not dropped"
            )
        self.rates.setdefault(share, where)
        if len(self.rates) > 1 and self.rule == REFUSE:
            known, place = next(iter(self.rates.items()))
            raise LogError(
                f"{where}: pdrop is {share}, but {known} at {place}. Vowpal Wabbit counts such an event 1/(1 − pdrop) "
                "times, and a log has no weights: averages over it would not be averages over the traffic. Read "
                "the events of each pdrop on their own, or all as they are with pdrop='ignore' "
                "(sparing convert --option pdrop=ignore)"
            )

    def notes(self) -> list[str]:
        """What dropped events mean for the log."""
        top = max(self.rates)
        if len(self.rates) > 1:
            return [
                f"Events were dropped at rates up to {top:g} (pdrop) that differ, and the log has no weights: "
                "averages over it are not averages over the traffic."
            ]
        alike = f"Of all events alike, {top:g} were dropped (pdrop): counts are smaller, averages the same."
        return [alike] if top else []


class Numbering:
    """Whether action numbers begin at 0 or at 1, settled by the whole file; 1 where nothing tells."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.zero = self.last = ""

    def see(self, numbers: Any, count: int, where: str) -> None:
        """Keep the evidence of an event with so many actions."""
        listed = numbers if isinstance(numbers, list) else []
        if 0 in listed:
            self.zero = self.zero or where
        if count in listed:
            self.last = self.last or where

    @property
    def base(self) -> int:
        """The first action's number, by what was seen."""
        if self.zero and self.last:
            raise LogError(
                f"{self.what} is numbered from 0 at {self.zero} (it has 0) but from 1 at {self.last} (it has "
                "the number of actions). Split the file, or renumber one part"
            )
        return 0 if self.zero else 1

    def notes(self) -> list[str]:
        """Says so where numbers were taken to begin at 0."""
        return [f"{self.what} is numbered from 0 ({self.zero} has a 0)."] if self.zero else []


def write(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write dsjson lines: actions as `{"a": {"id": name}}`. Says what the format could not carry."""
    return write_labelled(log, path, _record, title="dsjson", whole=True)


def _record(row: writer.Row, label: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    first = label["_labelIndex"]
    order = [first, *(place for place in range(len(context["_multi"])) if place != first)]
    record = {**label, "Version": "1", "EventId": str(row.number)}
    record |= {"a": [place + 1 for place in order], "c": context}
    if row.probabilities is not None:
        record["p"] = [row.probabilities[place] for place in order]
    if row.context_id is not None:
        record[CONTEXT_ID] = row.context_id
    return record
