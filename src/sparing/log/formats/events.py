"""From a stream of logged events to a log: held in memory in one walk, or walked once to learn and again for its rows."""

import inspect
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparing.engines import Progress
from sparing.log.blocks import Blocks
from sparing.log.columns import keywords_of
from sparing.log.formats.records import Naming, by_label
from sparing.log.formats.streams import changed
from sparing.log.formats.vocabulary import CONSTANT, MAX_FEATURES, Event, Numbered, Vocabulary
from sparing.log.log import Log
from sparing.log.rows import Rows
from sparing.log.support import Support, SupportBuilder, stacked

BATCH_CELLS = 2**21
BATCH_ROWS = 4096


class Reader(ABC):
    """Reads a log from events. A format adds its `events`, and `notes` on what it assumed.

    `alone_means_all`: where some events have a set of available actions, one without has them all. `skipped`
    counts what the first walk leaves out, by what it is, and `seen` whatever else the notes tell of.
    """

    def __init__(self, name: str, naming: Naming = by_label, *, alone_means_all: bool = False) -> None:
        self.name, self.naming, self.alone_means_all = name, naming, alone_means_all
        self.skipped: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """Walk the events, from the first."""

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed of a log, which may be without its rows; `named`: whether the caller named the actions."""
        return []

    def read(
        self,
        *,
        actions: Sequence[Hashable] | None = None,
        features: Sequence[str] | None = None,
        max_features: int = MAX_FEATURES,
    ) -> tuple[Log, list[str]]:
        """The log, and what was assumed.

        `actions` names every action, `features` the columns of the contexts in their order (others are left
        out); without them both are those that occur, features in the order of their first appearance.
        """
        vocabulary = Vocabulary(features, max_features)
        gathered = Gathered(vocabulary)
        for event in self.events():
            gathered.add(vocabulary.numbered(event))
        log = gathered.log(*self._named(vocabulary, actions))
        return log, self._all_notes(vocabulary, log, named=actions is not None)

    def scan(
        self,
        *,
        actions: Sequence[Hashable] | None = None,
        features: Sequence[str] | None = None,
        max_features: int = MAX_FEATURES,
        progress: Progress | None = None,
    ) -> tuple[Rows, list[str]]:
        """The same log as one that is walked, after a first walk for all that its events name.

        `progress(done, total)` is told of the rows of every walk; of the first one the total is 0, not known.
        """
        vocabulary, first = Vocabulary(features, max_features), None
        for event in self.events():
            numbered = vocabulary.numbered(event)
            first = first or numbered
            if vocabulary.rows % BATCH_ROWS == 0:
                if "eligible" in vocabulary.first:
                    vocabulary.check_count()
                if progress is not None:
                    progress(vocabulary.rows, 0)
        names, places = self._named(vocabulary, actions)
        assert first is not None
        rows = EventRows(self, vocabulary, names, places, first, progress)
        return rows, self._all_notes(vocabulary, rows.header, named=actions is not None)

    def _named(
        self, vocabulary: Vocabulary, actions: Sequence[Hashable] | None
    ) -> tuple[tuple[Hashable, ...], np.ndarray]:
        """The actions' names, and the place of each label among them."""
        vocabulary.check(self.name, alone_means_all=self.alone_means_all)
        names, index = self.naming(set(vocabulary.labels), actions)
        return names, vocabulary.places(index)

    def _all_notes(self, vocabulary: Vocabulary, log: Log, *, named: bool) -> list[str]:
        skipped = [f"{count} {what} were skipped." for what, count in self.skipped.items()]
        return [*vocabulary.notes(), *self.notes(log, named=named), *skipped]


def readers(
    opened: Callable[..., Reader],
) -> tuple[Callable[..., tuple[Log, list[str]]], Callable[..., tuple[Rows, list[str]]]]:
    """A format's `read` and `scan`: with the options of what opens it, and those of `Reader.read` or `Reader.scan`."""
    signature = inspect.signature(opened)

    def reader(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(source: Any, **options: Any) -> Any:
            own = {name: options.pop(name) for name in [*options] if name in signature.parameters}
            return getattr(opened(source, **own), method.__name__)(**options)

        run.__name__ = run.__qualname__ = method.__name__
        run.__doc__, run.__module__ = opened.__doc__, opened.__module__
        run.__signature__ = signature  # type: ignore[attr-defined]
        return keywords_of(method)(run)

    return reader(Reader.read), reader(Reader.scan)


class Gathered:
    """Rows on their way to a log.

    Contexts are kept in parts, each as wide as there were features by then, and sets likewise.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.actions, self.lengths = array("i"), array("i")
        self.rewards, self.propensities = array("d"), array("d")
        self.ids: list[str | int] = []
        self._contexts: list[np.ndarray] = []
        self._sets = SupportBuilder(0)
        self._begin()

    def __len__(self) -> int:
        return len(self.actions)

    def _begin(self) -> None:
        """Begin a part: its cells as lengths of rows, columns and values, its sets as members with their shares."""
        self._start = len(self.actions)
        self._cells: tuple[list[int], list[int], list[float]] = ([], [], [])
        self._members: tuple[list[int], list[float]] = ([], [])

    def add(self, row: Numbered) -> None:
        """Take in the next row."""
        lengths, columns, values = self._cells
        lengths.append(len(row.columns))
        columns += row.columns
        values += row.values
        members, shares = self._members
        members += row.members
        shares += row.shares
        self.lengths.append(len(row.members))
        self.actions.append(row.action)
        self.rewards.append(row.reward)
        self.propensities.append(row.propensity)
        if row.context_id is not None:
            self.ids.append(row.context_id)
        known = self.vocabulary
        width = len(known.labels) if members else 0
        if len(self.actions) - self._start >= _step(max(len(known.columns), width)):
            self._end()

    def _end(self) -> None:
        """Turn a part into arrays."""
        known = self.vocabulary
        sizes, columns = (np.array(part, dtype=np.int64) for part in self._cells[:2])
        contexts = np.zeros((len(sizes), len(known.columns) + 1))
        contexts[np.repeat(np.arange(len(sizes)), sizes), columns] = self._cells[2]
        self._contexts.append(contexts[:, :-1])  # the last column is of those left out
        lengths = np.array([length for length in self.lengths[self._start :] if length], dtype=np.int64)
        members, shares = self._members
        self._begin()
        if not len(lengths):
            return
        known.check_count()
        self._sets.widen(len(known.labels))
        table = np.zeros((len(lengths), len(known.labels)))
        np.add.at(table, (np.repeat(np.arange(len(lengths)), lengths), np.array(members)), shares)
        if "probabilities" in known.missing:
            self._sets.add(table > 0)
        else:
            self._sets.add_distribution(table)

    def log(self, names: tuple[Hashable, ...], places: np.ndarray, first_row: int = 0) -> Log:
        """The log of these rows, of which the first has this number; `places` are those of the labels among the names."""
        self._end()
        known = self.vocabulary
        told = known.has("propensity") or known.has("probabilities")
        contexts = stacked(self._contexts, len(known.columns))
        return Log.from_indices(
            contexts if known.columns else np.ones((len(contexts), 1)),
            places[np.asarray(self.actions)],
            np.array(self.rewards),
            names,
            propensities=np.array(self.propensities) if told else None,
            support=self._support(places, len(names)),
            context_ids=known.ids(self.ids) if known.has("context_id") else None,
            feature_names=list(known.columns) or [CONSTANT],
            first_row=first_row,
        )

    def _support(self, places: np.ndarray, n_actions: int) -> Support | None:
        """The sets once more, now with every action in its place."""
        if "eligible" not in self.vocabulary.first:
            return None
        found, whole = self._sets.build(), self.vocabulary.has("probabilities")
        listed = np.asarray(self.lengths) > 0
        of_row = np.cumsum(listed) - 1
        builder = SupportBuilder(n_actions)
        for rows in Blocks(0, len(listed), _step(n_actions)):
            own = of_row[rows][listed[rows]]
            shares = found.distribution(own) if whole else None
            given = found.mask(own) if shares is None else shares
            table = np.zeros((rows.stop - rows.start, n_actions), given.dtype)
            table[~listed[rows]] = 1  # nothing was listed: it could have taken any
            table[np.ix_(listed[rows], places[: found.n_actions])] = given
            (builder.add if shares is None else builder.add_distribution)(table)
        return replace(builder.build(), from_probabilities=whole)


class EventRows(Rows):
    """A log whose events are read anew in every walk; what they name is known from the first."""

    def __init__(
        self,
        reader: Reader,
        vocabulary: Vocabulary,
        names: tuple[Hashable, ...],
        places: np.ndarray,
        first: Numbered,
        progress: Progress | None,
    ) -> None:
        self.reader, self.vocabulary = reader, vocabulary
        self.names, self.places = names, places
        self.n_rows, self.progress = vocabulary.rows, progress
        self._extent = vocabulary.extent
        gathered = Gathered(vocabulary)
        gathered.add(first)
        self.header = gathered.log(names, places).part(slice(0, 0))

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Read here, one after the other."""
        first, step = 0, self.cut.block
        gathered = Gathered(self.vocabulary)
        for event in self.reader.events():
            gathered.add(self.vocabulary.numbered(event))
            if len(gathered) == step:
                yield first, self._log(gathered, first)
                first, gathered = first + step, Gathered(self.vocabulary)
        if first + len(gathered) != self.n_rows:
            raise changed(self.reader.name)
        if len(gathered):
            yield first, self._log(gathered, first)

    def _log(self, gathered: Gathered, first: int) -> Log:
        if self.vocabulary.extent != self._extent:
            raise changed(self.reader.name)
        return gathered.log(self.names, self.places, first)


def _step(width: int) -> int:
    """Rows of so many cells that are held at a time."""
    return max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width)))
