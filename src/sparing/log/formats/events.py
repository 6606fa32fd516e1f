"""From a stream of logged events to a log, in two walks: one for the vocabulary, one to fill the arrays."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparing.errors import LogError
from sparing.log.formats.records import Naming, by_label
from sparing.log.labels import brief
from sparing.log.log import CONTRADICTION, Log
from sparing.log.support import Support, SupportBuilder

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
    """Reads a log from events that can be walked twice. A format adds its `events`, and `notes` on what it assumed.

    `alone_means_all`: where some events have a set of available actions, one without has them all. `skipped`
    counts what a walk leaves out, by what it is, and `seen` whatever else the notes tell of.
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

    def _walk(self) -> Iterator[Event]:
        """The events, counted anew."""
        self.skipped.clear()
        self.seen.clear()
        return self.events()

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
        survey = _Survey(features, max_features)
        for event in self._walk():
            survey.add(event)
        survey.check(self.name, alone_means_all=self.alone_means_all)
        names, index = self.naming(survey.labels, actions)
        filling = _Filling(survey, index, len(names))
        for event in self._walk():
            filling.add(event)
        log = Log.from_indices(
            filling.contexts,
            filling.actions,
            filling.rewards,
            names,
            propensities=filling.propensities,
            support=filling.support(),
            context_ids=filling.ids,
            feature_names=list(survey.columns),
        )
        skipped = [f"{count} {what} were skipped." for what, count in self.skipped.items()]
        notes = self.notes(log, named=actions is not None)
        return log, [*survey.notes(), *filling.notes(), *notes, *skipped]


class _Survey:
    """The first walk: how many events, which features and labels, and where optional parts first are and are missing."""

    def __init__(self, features: Sequence[str] | None, max_features: int) -> None:
        self.rows = 0
        self.labels: set[Hashable] = set()
        self.columns = {name: i for i, name in enumerate(features or ())}
        self.fixed = features is not None
        if len(self.columns) < len(features or ()):
            raise LogError("features=[...] names a feature twice")
        self.max_features = max_features
        self.constant = False
        self.left_out: set[str] = set()
        self.first: dict[str, str] = {}
        self.missing: dict[str, str] = {}

    def add(self, event: Event) -> None:
        self.rows += 1
        self.labels.add(event.action)
        if event.eligible is not None:
            self.labels.update(event.eligible)
        for part in PARTS:
            (self.missing if getattr(event, part) is None else self.first).setdefault(part, event.where)
        new = [name for name in event.features if name not in self.columns]
        if self.fixed:
            self.left_out.update(new)
            return
        for name in new:
            self.columns[name] = len(self.columns)
        if len(self.columns) > self.max_features:
            field, values = Counter(name.partition("=")[0] for name in self.columns).most_common(1)[0]
            raise LogError(
                f"{event.where}: more than {self.max_features} features; {brief(field)} alone has {values}. "
                "Leave it out (ignore=[...]), choose features=[...], or raise max_features"
            )

    def has(self, part: str) -> bool:
        """Whether every event has an optional part."""
        return part in self.first and part not in self.missing

    def check(self, name: str, *, alone_means_all: bool) -> None:
        """Refuse a file without events, and parts that only some events have, though all or none must."""
        if not self.rows:
            raise LogError(f"{name} has no labelled event; a log without rows is Log.empty(...)")
        free = {"probabilities", "eligible" if alone_means_all else ""}
        for part in PARTS:
            if part in self.first and part in self.missing and part not in free:
                raise LogError(
                    f"{self.missing[part]}: no {PARTS[part]}, but there is one at {self.first[part]}. "
                    "Give it for every event or for none"
                )
        self.constant = not self.columns
        if self.constant:
            self.columns[CONSTANT] = 0

    def notes(self) -> list[str]:
        notes = []
        if self.constant:
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
        return notes


class _Filling:
    """Arrays of the size that a first walk over the events found, filled by a second one."""

    def __init__(self, survey: _Survey, index: Mapping[Hashable, int], n_actions: int) -> None:
        rows, distributions = survey.rows, survey.has("probabilities")
        self.columns, self.index = survey.columns, index
        self.contexts = np.full((rows, 1), 1.0) if survey.constant else np.zeros((rows, len(self.columns)))
        self.actions = np.empty(rows, dtype=np.int32)
        self.rewards = np.empty(rows)
        self.propensities = np.empty(rows) if survey.has("propensity") or distributions else None
        self.ids: list[str | int] | None = [] if survey.has("context_id") else None
        self._distributions = distributions
        self._builder = SupportBuilder(n_actions) if "eligible" in survey.first else None
        self._batch = max(1, min(BATCH_ROWS, BATCH_CELLS // n_actions))
        self._cells: tuple[list[int], list[int], list[float]] = ([], [], [])
        self._sets: tuple[list[int], list[int], list[float]] = ([], [], [])
        self._row = self._scaled = self._merged = 0

    def add(self, event: Event) -> None:
        """Write one event into the next row."""
        row = self._row
        if row == len(self.actions):
            raise LogError(f"{event.where}: the log grew while it was read; read a copy that stands still")
        action = self._position(event.action, event.where)
        propensity = event.propensity
        if self._builder is not None:
            propensity = self._add_set(event, event.eligible, action)
        if propensity is not None and not 0 < propensity <= 1:
            raise LogError(
                f"{event.where}: the probability of the logged action is {propensity!r}; must be in (0, 1]. "
                "Drop the event, or mend its probability"
            )
        self.actions[row], self.rewards[row] = action, event.reward
        if self.propensities is not None:
            self.propensities[row] = propensity
        if self.ids is not None and event.context_id is not None:
            self.ids.append(_checked_id(event.context_id, event.where))
        rows, columns, values = self._cells
        for name, value in event.features.items():
            column = self.columns.get(name)
            if column is not None:
                rows.append(row)
                columns.append(column)
                values.append(value)
        self._row += 1
        if self._row % self._batch == 0:
            self._flush()

    def _position(self, label: Hashable, where: str) -> int:
        position = self.index.get(label)
        if position is None:
            some = ", ".join(map(brief, list(self.index)[:5])) + (", …" if len(self.index) > 5 else "")
            raise LogError(
                f"{where}: unknown action {brief(label)}; the {len(self.index)} known ones are {some}. "
                "Add it to actions=[...], or drop the event"
            )
        return position

    def _add_set(self, event: Event, eligible: Sequence[Hashable] | None, action: int) -> float | None:
        """Keep the event's set or distribution, and give its propensity, which they must bear out."""
        lengths, members, shares = self._sets
        lengths.append(len(eligible or ()))
        if eligible is None:
            return event.propensity
        where, given, logged = event.where, event.probabilities, event.propensity
        own = [self._position(label, where) for label in eligible]
        values = [1.0] * len(own) if given is None else self._scale(given, where)
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

    def _flush(self) -> None:
        rows, columns, values = self._cells
        self.contexts[rows, columns] = values
        self._cells = ([], [], [])
        lengths, members, shares = self._sets
        if self._builder is None or not lengths:
            return
        table = np.zeros((len(lengths), self._builder.n_actions))
        rows_of = np.repeat(np.arange(len(lengths)), lengths)
        np.add.at(table, (rows_of, np.array(members, dtype=np.int64)), shares)
        table[np.array(lengths) == 0] = 1.0  # nothing was listed: it could have taken any
        if self._distributions:
            self._builder.add_distribution(table)
        else:
            self._builder.add(table > 0)
        self._sets = ([], [], [])

    def support(self) -> Support | None:
        """The support, once every event is in."""
        if self._row < len(self.actions):
            raise LogError("the log shrank while it was read; read a copy that stands still")
        self._flush()
        return None if self._builder is None else self._builder.build()

    def notes(self) -> list[str]:
        """What was done to the events on the way."""
        scaled = f"The distributions of {self._scaled} events were scaled to sum to 1 (rounding)."
        merged = f"{self._merged} events show one action in two places; its probabilities were added."
        return [note for note, count in ((scaled, self._scaled), (merged, self._merged)) if count]


def _checked_id(value: object, where: str) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
        raise LogError(f"{where}: context id {brief(value)}; expected a text or a whole number")
    return value if isinstance(value, str) else int(value)
