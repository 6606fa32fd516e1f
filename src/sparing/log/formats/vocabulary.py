"""What the events of a log name: their labels and features, numbered as they first appear, and which parts they have."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparing.errors import LogError
from sparing.log.labels import brief, check_action_count
from sparing.log.log import CONTRADICTION

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


@dataclass(slots=True)
class Numbered:
    """An event by numbers: its features' columns (−1: left out) and values, its action, its set and the shares in it."""

    columns: Sequence[int]
    values: Sequence[float]
    action: int
    reward: float
    propensity: float
    members: Sequence[int]
    shares: Sequence[float]
    context_id: str | int | None


class Vocabulary:
    """All that must be known of every event before any row is a log's: it grows with each event that is looked at.

    Labels and features keep the numbers of their first appearance, so that events can be looked at again.
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
        self.rows = 0
        self._ids = (0, 0, False)
        self._names: tuple[str, ...] = ()
        self._numbers: list[int] = []
        self._scaled = self._merged = 0

    def numbered(self, event: Event) -> Numbered:
        """Take in one event as the next row."""
        for part in PARTS:
            (self.missing if getattr(event, part) is None else self.first).setdefault(part, event.where)
        action = self._number(event.action, event.where)
        members, shares, propensity = self._set(event, action)
        if propensity is not None and not 0 < propensity <= 1:
            raise LogError(
                f"{event.where}: the probability of the logged action is {propensity!r}; must be in (0, 1]. "
                "Drop the event, or mend its probability"
            )
        names = tuple(event.features)
        if names != self._names:  # most events name the features of the one before
            self._names, self._numbers = names, self._columns_of(names, event.where)
        context_id = event.context_id
        if context_id is not None:
            context_id = self._id(context_id, event.where)
        self.rows += 1
        return Numbered(
            self._numbers,
            list(event.features.values()),
            action,
            event.reward,
            math.nan if propensity is None else propensity,
            members,
            shares,
            context_id,
        )

    def _number(self, label: Hashable, where: str) -> int:
        return self.labels.setdefault(label, (len(self.labels), where))[0]

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

    def _set(self, event: Event, action: int) -> tuple[list[int], Sequence[float], float | None]:
        """The event's set or distribution, and its propensity, which they must bear out."""
        where, given, logged = event.where, event.probabilities, event.propensity
        if event.eligible is None:
            return [], (), logged
        own = [self._number(label, where) for label in event.eligible]
        values = [1.0] * len(own) if given is None else self._scale(given, where)
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
            return own, values, logged
        share = sum(value for member, value in zip(own, values, strict=True) if member == action)
        if logged is None or times > 1:
            return own, values, share
        if abs(logged - share) > CONTRADICTION * logged:
            raise LogError(
                f"{where}: the logged action's probability {logged!r} contradicts the distribution's {share!r}. Mend "
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
                "each action. Mend it, or leave it out of every event"
            )
        if abs(total - 1) <= EXACT:
            return probabilities
        self._scaled += 1
        return [p / total for p in probabilities]

    def _id(self, value: object, where: str) -> str | int:
        if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
            raise LogError(f"{where}: context id {brief(value)}; expected a text or a whole number")
        low, high, text = self._ids
        if isinstance(value, str):
            self._ids = low, high, True
            return value
        number = int(value)
        self._ids = min(low, number), max(high, number), text
        return number

    def ids(self, values: Sequence[str | int]) -> np.ndarray:
        """Ids of some rows as an array of the kind that holds those of all."""
        low, high, text = self._ids
        if not text and low >= -(2**63) and high < 2**63:
            return np.array(values, dtype=np.int64)
        if not text and low >= 0 and high < 2**64:
            return np.array(values, dtype=np.uint64)
        return np.array(list(map(str, values)), dtype=np.str_)

    def check_count(self) -> None:
        """Refuse more labels than a log may have actions."""
        check_action_count(len(self.labels), "every label that occurs")

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

    def places(self, index: Mapping[Hashable, int]) -> np.ndarray:
        """The place of each label among the names; `index` says which of them it means."""
        for label, (_, where) in self.labels.items():
            if label not in index:
                some = ", ".join(map(brief, list(index)[:5])) + (", …" if len(index) > 5 else "")
                raise LogError(
                    f"{where}: unknown action {brief(label)}; the {len(index)} known ones are {some}. "
                    "Add it to actions=[...], or drop the event"
                )
        return np.array([index[label] for label in self.labels], dtype=np.int32)

    @property
    def extent(self) -> tuple[int, int, int, int]:
        """How much there is of everything: it stays the same when all events are looked at again."""
        return len(self.labels), len(self.columns), len(self.first), len(self.missing)

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
