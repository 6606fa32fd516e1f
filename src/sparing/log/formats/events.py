"""From a stream of logged events to a log, in one walk: labels and features are numbered as they first appear."""

import math
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparing.errors import LogError
from sparing.log.blocks import Blocks
from sparing.log.formats.records import Naming, by_label
from sparing.log.labels import brief, check_action_count
from sparing.log.log import CONTRADICTION, Log
from sparing.log.support import Support, SupportBuilder, stacked

MAX_FEATURES = 10_000
"""Features beyond which a context is taken to hold an id by mistake."""

CONSTANT = "constant"
"""The one feature, always 1, of a log without contexts: a linear model needs something to stand on."""

ROUNDED = 5e-5
"""How far a distribution's sum may be from 1 because its probabilities were printed with few digits."""

EXACT = 5e-7
"""How far it may be before it is scaled to sum to 1."""

PARTS = {
    "propensity": "probability of the logged action",
    "context_id": "context id",
    "eligible": "set of available actions",
    "probabilities": "distribution",
}
"""What an event may do without, in words."""

BATCH_CELLS = 2**21
BATCH_ROWS = 4096


@dataclass(slots=True)
class Event:
    """One logged round, and the place it was read from.

    `probabilities` belong to `eligible`, in its order. A label may stand in `eligible` twice (two slots
    that show one action): their probabilities add up.
    """

    where: str
    features: dict[str, float]
    action: Hashable
    reward: float
    propensity: float | None = None
    eligible: Sequence[Hashable] | None = None
    probabilities: Sequence[float] | None = None
    context_id: str | int | None = None


class Reader(ABC):
    """Reads a log from events. A format adds its `events`, and `notes` on what it assumed.

    `alone_means_all`: where some events have a set of available actions, one without has them all. `skipped`
    counts what the walk leaves out, by what it is, and `seen` whatever else the notes tell of.
    """

    def __init__(self, name: str, naming: Naming = by_label, *, alone_means_all: bool = False) -> None:
        self.name, self.naming, self.alone_means_all = name, naming, alone_means_all
        self.skipped: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    @abstractmethod
    def events(self) -> Iterator[Event]:
        """Walk the events, from the first."""

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed; `named`: whether the caller named the actions."""
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
        rows = _Rows(features, max_features)
        for event in self.events():
            rows.add(event)
        rows.check(self.name, alone_means_all=self.alone_means_all)
        names, index = self.naming(set(rows.labels), actions)
        log = rows.log(names, index)
        skipped = [f"{count} {what} were skipped." for what, count in self.skipped.items()]
        return log, [*rows.notes(), *self.notes(log, named=actions is not None), *skipped]


class _Rows:
    """The rows so far. Labels and features have the numbers of their first appearance, until all are known.

    Contexts are kept in parts, each as wide as there were features by then, and sets likewise.
    """

    def __init__(self, features: Sequence[str] | None, max_features: int) -> None:
        self.columns = {name: i for i, name in enumerate(features or ())}
        self.fixed, self.max_features = features is not None, max_features
        if len(self.columns) < len(features or ()):
            raise LogError("features=[...] names a feature twice")
        self.labels: dict[Hashable, tuple[int, str]] = {}
        self.left_out: set[str] = set()
        self.first: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.actions, self.lengths = array("i"), array("i")
        self.rewards, self.propensities = array("d"), array("d")
        self.ids: list[str | int] = []
        self._contexts: list[np.ndarray] = []
        self._sets = SupportBuilder(0)
        self._names: tuple[str, ...] = ()
        self._numbers: list[int] = []
        self._scaled = self._merged = 0
        self._begin()

    def _begin(self) -> None:
        """Begin a part: its cells as lengths of rows, columns and values, its sets as members with their shares."""
        self._start = len(self.actions)
        self._cells: tuple[list[int], list[int], list[float]] = ([], [], [])
        self._members: tuple[list[int], list[float]] = ([], [])

    def add(self, event: Event) -> None:
        """Take in one event as the next row."""
        for part in PARTS:
            (self.missing if getattr(event, part) is None else self.first).setdefault(part, event.where)
        action = self._number(event.action, event.where)
        propensity = self._add_set(event, action)
        if propensity is not None and not 0 < propensity <= 1:
            raise LogError(
                f"{event.where}: the probability of the logged action is {propensity!r}; must be in (0, 1]. "
                "Drop the event, or mend its probability"
            )
        self._add_features(event.features, event.where)
        self.actions.append(action)
        self.rewards.append(event.reward)
        self.propensities.append(math.nan if propensity is None else propensity)
        if event.context_id is not None:
            self.ids.append(_checked_id(event.context_id, event.where))
        rows, width = len(self.actions) - self._start, len(self.labels) if self._members[0] else 0
        if rows >= _step(max(len(self.columns), width)):
            self._end()

    def _number(self, label: Hashable, where: str) -> int:
        return self.labels.setdefault(label, (len(self.labels), where))[0]

    def _add_features(self, features: dict[str, float], where: str) -> None:
        names = tuple(features)
        if names != self._names:  # most events name the features of the one before
            self._names, self._numbers = names, self._columns_of(names, where)
        lengths, columns, values = self._cells
        lengths.append(len(names))
        columns += self._numbers
        values += features.values()

    def _columns_of(self, names: tuple[str, ...], where: str) -> list[int]:
        """The columns of features, which are new ones where they are not known; −1 for those left out."""
        new = [name for name in names if name not in self.columns]
        if self.fixed:
            self.left_out.update(new)
            return [self.columns.get(name, -1) for name in names]
        self.columns |= {name: len(self.columns) + i for i, name in enumerate(new)}
        if len(self.columns) > self.max_features:
            field, count = Counter(name.partition("=")[0] for name in self.columns).most_common(1)[0]
            raise LogError(
                f"{where}: more than {self.max_features} features; {brief(field)} alone has {count}. "
                "Leave it out (ignore=[...]), choose features=[...], or raise max_features"
            )
        return [self.columns[name] for name in names]

    def _add_set(self, event: Event, action: int) -> float | None:
        """Keep the event's set or distribution, and give its propensity, which they must bear out."""
        where, given, logged = event.where, event.probabilities, event.propensity
        self.lengths.append(len(event.eligible or ()))
        if event.eligible is None:
            return logged
        own = [self._number(label, where) for label in event.eligible]
        values = [1.0] * len(own) if given is None else self._scale(given, where)
        members, shares = self._members
        members += own
        shares += values
        self._merged += len(set(own)) < len(own)
        times = own.count(action)
        if not times:
            raise LogError(
                f"{where}: the logged action {brief(event.action)} is not among the {len(set(own))} available ones. "
                "Mend the action or the set"
            )
        if given is None:
            if times > 1 and logged is not None:
                raise LogError(
                    f"{where}: the logged action {brief(event.action)} is available twice, so that its probability "
                    "is not known. Tell the two apart with action_id=..."
                )
            return logged
        share = sum(value for member, value in zip(own, values, strict=True) if member == action)
        if logged is None or times > 1:
            return share
        if abs(logged - share) > CONTRADICTION * logged:
            raise LogError(
                f"{where}: the logged action's probability {logged!r} contradicts the distribution's {share!r}. Mend "
                "one of the two"
            )
        return logged

    def _scale(self, probabilities: Sequence[float], where: str) -> Sequence[float]:
        bad = [p for p in probabilities if not 0 <= p <= 1]
        total = math.fsum(probabilities)
        if bad or abs(total - 1) > ROUNDED:
            got = f"has the probability {bad[0]!r}" if bad else f"sums to {total:.6g}"
            raise LogError(
                f"{where}: the distribution {got}; expected probabilities in [0, 1] that sum to 1, one for "
                "each action. Mend it, or leave it out of every event"
            )
        if abs(total - 1) <= EXACT:
            return probabilities
        self._scaled += 1
        return [p / total for p in probabilities]

    def _end(self) -> None:
        """Turn a part into arrays."""
        sizes, columns = (np.array(part, dtype=np.int64) for part in self._cells[:2])
        contexts = np.zeros((len(sizes), len(self.columns) + 1))
        contexts[np.repeat(np.arange(len(sizes)), sizes), columns] = self._cells[2]
        self._contexts.append(contexts[:, :-1])  # the last column is of those left out
        lengths = np.array([length for length in self.lengths[self._start :] if length], dtype=np.int64)
        members, shares = self._members
        self._begin()
        if not len(lengths):
            return
        check_action_count(len(self.labels), "every label that occurs")
        self._sets.widen(len(self.labels))
        table = np.zeros((len(lengths), len(self.labels)))
        np.add.at(table, (np.repeat(np.arange(len(lengths)), lengths), np.array(members)), shares)
        if "probabilities" in self.missing:
            self._sets.add(table > 0)
        else:
            self._sets.add_distribution(table)

    def has(self, part: str) -> bool:
        """Whether every event has an optional part."""
        return part in self.first and part not in self.missing

    def check(self, name: str, *, alone_means_all: bool) -> None:
        """Refuse a file without events, and parts that only some events have, though all or none must."""
        if not self.actions:
            raise LogError(f"{name} has no labelled event; a log without rows is Log.empty(...)")
        free = {"probabilities", "eligible" if alone_means_all else ""}
        for part in PARTS:
            if part in self.first and part in self.missing and part not in free:
                raise LogError(
                    f"{self.missing[part]}: no {PARTS[part]}, but there is one at {self.first[part]}. "
                    "Give it for every event or for none"
                )

    def log(self, names: tuple[Hashable, ...], index: Mapping[Hashable, int]) -> Log:
        """The log of all rows; `index` says which of the names a label means."""
        self._end()
        places = self._places(index)
        told = self.has("propensity") or self.has("probabilities")
        contexts = stacked(self._contexts, len(self.columns))
        return Log.from_indices(
            contexts if self.columns else np.ones((len(contexts), 1)),
            places[np.asarray(self.actions)],
            np.array(self.rewards),
            names,
            propensities=np.array(self.propensities) if told else None,
            support=self._support(places, len(names)),
            context_ids=self.ids if self.has("context_id") else None,
            feature_names=list(self.columns) or [CONSTANT],
        )

    def _places(self, index: Mapping[Hashable, int]) -> np.ndarray:
        """The place of each label among the names."""
        for label, (_, where) in self.labels.items():
            if label not in index:
                some = ", ".join(map(brief, list(index)[:5])) + (", …" if len(index) > 5 else "")
                raise LogError(
                    f"{where}: unknown action {brief(label)}; the {len(index)} known ones are {some}. "
                    "Add it to actions=[...], or drop the event"
                )
        return np.array([index[label] for label in self.labels], dtype=np.int32)

    def _support(self, places: np.ndarray, n_actions: int) -> Support | None:
        """The sets once more, now with every action in its place."""
        if "eligible" not in self.first:
            return None
        found, whole = self._sets.build(), self.has("probabilities")
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

    def notes(self) -> list[str]:
        """What the events lacked, and what was done to them on the way."""
        notes = []
        if not self.columns:
            notes.append(f"No event has a context: the one feature {CONSTANT!r}, always 1, stands for it.")
        if self.left_out:
            notes.append(
                f"{len(self.left_out)} features of the file are not in features=[...] and were left out."
            )
        if "propensity" not in self.first and "probabilities" not in self.first:
            notes.append("No event has a probability: the log has no propensities.")
        if "eligible" not in self.first:
            notes.append("No event tells which other actions it could have taken: the support is unknown.")
        if "probabilities" in self.first and "probabilities" in self.missing:
            notes.append(
                f"Some events have no full distribution ({self.missing['probabilities']}): of the others, only "
                "the sets of actions with a positive probability are kept."
            )
        if self._scaled:
            notes.append(f"The distributions of {self._scaled} events were scaled to sum to 1 (rounding).")
        if self._merged:
            notes.append(
                f"{self._merged} events show one action in two places; its probabilities were added."
            )
        return notes


def _step(width: int) -> int:
    """Rows of so many cells that are held at a time."""
    return max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width)))


def _checked_id(value: object, where: str) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
        raise LogError(f"{where}: context id {brief(value)}; expected a text or a whole number")
    return value if isinstance(value, str) else int(value)
