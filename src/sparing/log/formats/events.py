"""Logged events as the rows of a log, in memory that does not grow with their number.

A first pass over the events collects their labels, feature names and optional parts. Every later pass encodes the
events again and yields blocks of rows.
"""

import math
from abc import ABC, abstractmethod
from array import array
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log.formats.records import Naming, by_label
from sparing.log.labels import check_action_count, shorten
from sparing.log.log import CONTRADICTION, Log
from sparing.log.passes import BATCH_CELLS, block_rows
from sparing.log.rows import Rows
from sparing.log.support import SupportBuilder

PROGRESS_ROWS = 4096

MAX_FEATURES = 10_000
"""Above this number of features, a context is assumed to contain an id by mistake."""

CONSTANT = "constant"
"""The only feature, always 1, of a log without contexts: a linear model needs one."""

ROUNDED = 5e-5
"""Largest deviation of a distribution's sum from 1 that is explained by printing few digits."""

EXACT = 5e-7
"""Largest deviation that is not rescaled."""

PARTS = {
    "propensity": "probability of the logged action",
    "context_id": "context id",
    "eligible": "set of available actions",
    "probabilities": "distribution",
}
"""Optional parts of an event, in words."""

MISSING = " is missing"


Arrays = dict[str, np.ndarray]
"""Rows as arrays by their names in `Log.from_indices`; their support is a `distribution` or `sets`, (n, K)."""


@dataclass(slots=True)
class Event:
    """One logged round, and the place it was read from.

    `probabilities` belong to `eligible`, in its order. A label may occur twice in `eligible` (two slots that show one
    action): their probabilities are added.
    """

    where: str
    features: dict[str, float]
    action: Hashable
    reward: float
    propensity: float | None = None
    eligible: Sequence[Hashable] | None = None
    probabilities: Sequence[float] | None = None
    context_id: str | int | None = None


class EventBatch:
    """Events with labels and features as numbers of the vocabulary; a column of −1 is left out.

    `sizes` and `set_sizes` are the numbers of features and set members of each event, which follow each other.
    """

    def __init__(self) -> None:
        self.sizes, self.columns, self.actions, self.set_sizes, self.members = (array("i") for _ in range(5))
        self.values, self.rewards, self.propensities, self.shares = (array("d") for _ in range(4))
        self.ids: list[str | int] = []


class Vocabulary:
    """Labels, features and parts of all events; labels and features are numbered as they first appear."""

    def __init__(self, features: Sequence[str] | None, max_features: int) -> None:
        self.columns = {name: i for i, name in enumerate(features or ())}
        self.fixed, self.max_features = features is not None, max_features
        if len(self.columns) < len(features or ()):
            raise LogError("features=[...] names a feature twice")
        self.labels: dict[Hashable, tuple[int, str]] = {}
        self.left_out: set[str] = set()
        self.first: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.rows = 0
        self._ids = (0, 0, False)
        self._names: tuple[str, ...] = ()
        self._numbers: list[int] = []
        self._scaled = self._merged = 0

    def batches(self, events: Iterator[Event]) -> Iterator[EventBatch]:
        """Encode as many events at a time as the smallest block has rows: every larger block is a multiple of it."""
        size = block_rows(BATCH_CELLS)
        while events_of_batch := list(islice(events, size)):
            batch = EventBatch()
            for event in events_of_batch:
                self._encode(event, batch)
            yield batch

    def _encode(self, event: Event, batch: EventBatch) -> None:
        """Add an event to the batch, and whatever is new in it to the vocabulary."""
        for part in PARTS:
            (self.missing if getattr(event, part) is None else self.first).setdefault(part, event.where)
        action = self._number(event.action, event.where)
        members, shares, propensity = self._set(event, action)
        if propensity is not None and not 0 < propensity <= 1:
            raise LogError(
                f"{event.where}: the probability of the logged action is {propensity!r}; must be in (0, 1]. "
                "Drop the event, or correct its probability"
            )
        names = tuple(event.features)
        if names != self._names:  # most events name the features of the one before
            self._names, self._numbers = names, self._columns_of(names, event.where)
        if event.context_id is not None:
            batch.ids.append(self._id(event.context_id, event.where))
        self.rows += 1
        batch.sizes.append(len(names))
        batch.columns.extend(self._numbers)
        batch.values.extend(event.features.values())
        batch.actions.append(action)
        batch.rewards.append(event.reward)
        batch.propensities.append(math.nan if propensity is None else propensity)
        batch.set_sizes.append(len(members))
        batch.members.extend(members)
        batch.shares.extend(shares)

    def _number(self, label: Hashable, where: str) -> int:
        return self.labels.setdefault(label, (len(self.labels), where))[0]

    def _columns_of(self, names: tuple[str, ...], where: str) -> list[int]:
        new = [name for name in names if name not in self.columns]
        if self.fixed:
            self.left_out.update(new)
            return [self.columns.get(name, -1) for name in names]
        self.columns |= {name: len(self.columns) + i for i, name in enumerate(new)}
        if len(self.columns) > self.max_features:
            field, count = Counter(name.partition("=")[0] for name in self.columns).most_common(1)[0]
            raise LogError(
                f"{where}: more than {self.max_features} features; {shorten(field)} alone has {count}. "
                "Leave it out (ignore=[...]), choose features=[...], or raise max_features"
            )
        return [self.columns[name] for name in names]

    def _set(self, event: Event, action: int) -> tuple[list[int], Sequence[float], float | None]:
        """Return the event's set or distribution, and its propensity, which must agree with them."""
        where, given, logged = event.where, event.probabilities, event.propensity
        if event.eligible is None:
            return [], (), logged
        own = [self._number(label, where) for label in event.eligible]
        values = [1.0] * len(own) if given is None else self._scale(given, where)
        self._merged += len(set(own)) < len(own)
        times = own.count(action)
        if not times:
            raise LogError(
                f"{where}: the logged action {shorten(event.action)} is not among the {len(set(own))} available ones. "
                "Correct the action or the set"
            )
        if given is None:
            if times > 1 and logged is not None:
                raise LogError(
                    f"{where}: the logged action {shorten(event.action)} is available twice, so that its probability "
                    "is unknown. Distinguish the two with action_id=..."
                )
            return own, values, logged
        share = sum(value for member, value in zip(own, values, strict=True) if member == action)
        if logged is None or times > 1:
            return own, values, share
        if abs(logged - share) > CONTRADICTION * logged:
            raise LogError(
                f"{where}: the logged action's probability {logged!r} contradicts the distribution's {share!r}. Correct "
                "one of the two"
            )
        return own, values, logged

    def _scale(self, probabilities: Sequence[float], where: str) -> Sequence[float]:
        bad = [p for p in probabilities if not 0 <= p <= 1]
        total = math.fsum(probabilities)
        if bad or abs(total - 1) > ROUNDED:
            got = f"has the probability {bad[0]!r}" if bad else f"sums to {total:.6g}"
            raise LogError(
                f"{where}: the distribution {got}; expected probabilities in [0, 1] that sum to 1, one for "
                "each action. Correct it, or leave it out of every event"
            )
        if abs(total - 1) <= EXACT:
            return probabilities
        self._scaled += 1
        return [p / total for p in probabilities]

    def _id(self, value: object, where: str) -> str | int:
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise LogError(f"{where}: context id {shorten(value)}; expected a text or a whole number")
        low, high, text = self._ids
        if isinstance(value, str):
            self._ids = low, high, True
            return value
        number = int(value)
        self._ids = min(low, number), max(high, number), text
        return number

    def ids(self, values: Sequence[str | int]) -> np.ndarray:
        """Return ids of some rows as an array of the type that holds the ids of all rows."""
        low, high, text = self._ids
        if not text and low >= -(2**63) and high < 2**63:
            return np.array(values, dtype=np.int64)
        if not text and low >= 0 and high < 2**64:
            return np.array(values, dtype=np.uint64)
        return np.array(list(map(str, values)), dtype=np.str_)

    def has(self, part: str) -> bool:
        """Whether every event has an optional part."""
        return part in self.first and part not in self.missing

    def check(self, name: str, *, alone_means_all: bool) -> None:
        """Refuse a file without events, and parts that must be in all events or none but are in some."""
        if not self.rows:
            raise LogError(f"{name} has no labelled event; a log without rows is Log.empty(...)")
        free = {"probabilities", "eligible" if alone_means_all else ""}
        for part in PARTS:
            if part in self.first and part in self.missing and part not in free:
                raise LogError(
                    f"{self.missing[part]}: no {PARTS[part]}, but there is one at {self.first[part]}. "
                    "Give it for every event or for none"
                )

    def action_indices(self, index: Mapping[Hashable, int]) -> np.ndarray:
        """Return the action index of each label, (labels,)."""
        for label, (_, where) in self.labels.items():
            if label not in index:
                some = ", ".join(map(shorten, list(index)[:5])) + (", …" if len(index) > 5 else "")
                raise LogError(
                    f"{where}: unknown action {shorten(label)}; the {len(index)} known ones are {some}. "
                    "Add it to actions=[...], or drop the event"
                )
        return np.array([index[label] for label in self.labels], dtype=np.int32)

    @property
    def extent(self) -> tuple[int, int, int, int]:
        """Sizes that do not change when the same events are encoded again."""
        return len(self.labels), len(self.columns), len(self.first), len(self.missing)

    def arrays(self, batch: EventBatch, indices: np.ndarray, n_actions: int) -> Arrays:
        """Return a batch as arrays; `indices` (labels,) are the actions of its labels."""
        n_rows, columns = len(batch.actions), np.asarray(batch.columns)
        contexts = np.zeros((n_rows, len(self.columns))) if self.columns else np.ones((n_rows, 1))
        rows, used = np.repeat(np.arange(n_rows), batch.sizes), columns >= 0
        contexts[rows[used], columns[used]] = np.asarray(batch.values)[used]
        found = {
            "contexts": contexts,
            "actions": indices[np.asarray(batch.actions)],
            "rewards": np.asarray(batch.rewards),
        }
        if self.has("propensity") or self.has("probabilities"):
            found["propensities"] = np.asarray(batch.propensities)
        if self.has("context_id"):
            found["context_ids"] = self.ids(batch.ids)
        if "eligible" in self.first:
            sizes, members = np.asarray(batch.set_sizes), indices[np.asarray(batch.members)]
            table = np.zeros((n_rows, n_actions))
            np.add.at(table, (np.repeat(np.arange(n_rows), sizes), members), batch.shares)
            if self.has("probabilities"):
                found["distribution"] = table
            else:
                table[sizes == 0] = 1  # an event without a set could have taken any action
                found["sets"] = table > 0
        return found

    def notes(self) -> list[str]:
        """What the events lacked, and how they were changed."""
        notes = []
        if not self.columns:
            notes.append(f"No event has a context: the one feature {CONSTANT!r}, always 1, stands for it.")
        if self.left_out:
            notes += [
                f"{len(self.left_out)} features of the file are not in features=[...] and were left out."
            ]
        if "propensity" not in self.first and "probabilities" not in self.first:
            notes.append("No event has a probability: the log has no propensities.")
        if "eligible" not in self.first:
            notes.append("No event lists the other actions it could have taken: the support is unknown.")
        if "probabilities" in self.first and "probabilities" in self.missing:
            notes.append(
                f"Some events have no full distribution ({self.missing['probabilities']}): of the others, only "
                "the sets of actions with a positive probability are kept."
            )
        if self._scaled:
            notes.append(f"The distributions of {self._scaled} events were scaled to sum to 1 (rounding).")
        if self._merged:
            notes += [f"{self._merged} events show one action in two places; its probabilities were added."]
        return notes


def file_changed_error(name: str) -> LogError:
    return LogError(f"{name} has changed since it was opened. Do not write to it until it is read")


def example_row(n_features: int, n_actions: int, *, propensities: bool, distribution: bool = False) -> Arrays:
    found: Arrays = {"contexts": np.zeros((1, n_features)), "rewards": np.zeros(1)}
    found["actions"] = np.zeros(1, dtype=np.int32)
    if propensities:
        found["propensities"] = np.full(1, 1 / n_actions)
    if distribution:
        found["distribution"] = np.full((1, n_actions), 1 / n_actions)
    return found


class ArrayRows(Rows):
    """A log that is read, in this thread, as arrays of any lengths; they are joined and cut to blocks.

    `arrays` iterates over the rows, from the first. `example` has the arrays of a row or more, of which only the shapes
    and types matter.
    """

    def __init__(
        self,
        name: str,
        n_rows: int,
        names: tuple[Hashable, ...],
        features: Sequence[str] | None,
        arrays: Callable[[], Iterator[Arrays]],
        example: Arrays,
        progress: Progress | None,
    ) -> None:
        self.name, self.n_rows, self.progress = name, n_rows, progress
        self._names, self._features, self._arrays = names, features, arrays
        self.header = self._log([example], 0).part(slice(0, 0))

    def blocks(self) -> Iterator[tuple[int, Log]]:
        held: list[Arrays] = []
        first = many = 0
        step = self.partition.block
        for part in self._arrays():
            low, stop = 0, len(part["actions"])
            while low < stop:
                size = min(step - many, stop - low)
                held.append({name: each[low : low + size] for name, each in part.items()})
                many, low = many + size, low + size
                if many == step:
                    yield first, self._log(held, first)
                    held, many, first = [], 0, first + step
        if many:
            yield first, self._log(held, first)
        if first + many != self.n_rows:
            raise file_changed_error(self.name)

    def _log(self, parts: list[Arrays], first_row: int) -> Log:
        support = SupportBuilder(len(self._names), first_row=first_row)
        for part in parts:
            if "distribution" in part:
                support.add_distribution(part.pop("distribution"))
            elif "sets" in part:
                support.add(part.pop("sets"))
        joined: Any = {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}
        return Log.from_indices(
            action_names=self._names,
            support=support.build() if support.rows else None,
            feature_names=self._features,
            first_row=first_row,
            **joined,
        )


class EventReader(ABC):
    """Reads a log from events. A format adds its `events`, and `notes` on what it assumed.

    `alone_means_all`: if some events have a set of available actions, an event without one has them all. `skipped`
    counts what the first pass leaves out, by what it is, and `seen` whatever else the notes report.
    """

    def __init__(self, name: str, naming: Naming = by_label, *, alone_means_all: bool = False) -> None:
        self.name, self.naming, self.alone_means_all = name, naming, alone_means_all
        self.skipped: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """Iterate over the events, from the first."""

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed of a log, given without its rows; `named`: whether the caller named the actions."""
        return []

    def scan(
        self,
        *,
        actions: Sequence[Hashable] | None = None,
        features: Sequence[str] | None = None,
        max_features: int = MAX_FEATURES,
        progress: Progress | None = None,
        keep: bool = False,
    ) -> tuple[Rows, list[str]]:
        """Pass over the events once and return the log as one that is scanned, and what was assumed.

        Without `actions`, they are the labels that occur; without `features`, the columns are all that occur, in the
        order of their first appearance. In the first pass, the total that `progress` gets is 0, not known. With `keep`,
        the next pass takes the encoded events from memory, and does not read the file again.
        """
        vocabulary, first = Vocabulary(features, max_features), EventBatch()
        kept: deque[EventBatch] = deque()
        for batch in vocabulary.batches(self.events()):
            first = first if first.actions else batch
            if keep:
                kept.append(batch)
            if vocabulary.rows % PROGRESS_ROWS == 0:
                if "eligible" in vocabulary.first:
                    check_action_count(len(vocabulary.labels), "every label that occurs")
                if progress is not None:
                    progress(vocabulary.rows, 0)
        vocabulary.check(self.name, alone_means_all=self.alone_means_all)
        names, index = self.naming(set(vocabulary.labels), actions)
        extent, indices = vocabulary.extent, vocabulary.action_indices(index)
        encode = partial(vocabulary.arrays, indices=indices, n_actions=len(names))

        def arrays() -> Iterator[Arrays]:
            if kept:
                while kept:
                    yield encode(kept.popleft())
                return
            for batch in vocabulary.batches(self.events()):
                if vocabulary.extent != extent:
                    raise file_changed_error(self.name)
                yield encode(batch)

        columns, example = list(vocabulary.columns) or [CONSTANT], encode(first)
        rows = ArrayRows(self.name, vocabulary.rows, names, columns, arrays, example, progress)
        skipped = [f"{count} {what} were skipped." for what, count in self.skipped.items()]
        own = self.notes(rows.header, named=actions is not None)
        return rows, [*vocabulary.notes(), *own, *skipped]


def raw_columns(log: Log) -> dict[str, Any]:
    """Return the columns that features such as `user.country=NZ` and `user.age` were made from, by name.

    A column of words holds a text or None for each row, any other column numbers, NaN where they are missing.
    """
    places = {name: place for place, name in enumerate(log.encoder.names)}
    words: dict[str, dict[str, int]] = {}
    for name, place in places.items():
        column, equals, value = name.partition("=")
        if equals and column not in places:
            words.setdefault(column, {})[value] = place
    columns: dict[str, Any] = {}
    for name, place in places.items():
        column = name.partition("=")[0]
        if column in words:
            if column not in columns:
                columns.update(_words(log.contexts, column, words[column]))
        elif not name.endswith(MISSING) or name.removesuffix(MISSING) not in {*places, *words}:
            gap = places.get(f"{name}{MISSING}")
            numbers = log.contexts[:, place]
            columns[name] = numbers if gap is None else np.where(log.contexts[:, gap] > 0, np.nan, numbers)
    return columns


def _words(contexts: np.ndarray, column: str, values: Mapping[str, int]) -> dict[str, Any]:
    # A row with two of the words, or half of one, is no category: then the features stay numbers.
    block = contexts[:, list(values.values())]
    if not np.isin(block, (0, 1)).all() or block.sum(axis=1).max(initial=0) > 1:
        return {f"{column}={value}": contexts[:, place] for value, place in values.items()}
    listed = np.array([*values, None], dtype=object)
    return {column: listed[np.where(block.any(axis=1), block.argmax(axis=1), len(values))].tolist()}
