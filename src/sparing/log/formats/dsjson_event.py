"""The parts of a dsjson event that are written in more than one way."""

from collections.abc import Hashable, Mapping
from typing import Any

from sparing.errors import LogError
from sparing.log.formats.features import Flattener
from sparing.log.parsing import brief

AUTOMATIC = "auto"
FEATURES = "features"
POSITION = "position"
REFUSE, IGNORE = "refuse", "ignore"
LABEL = {
    "_label_cost": "cost",
    "_label_probability": "probability",
    "_label_action": "action",
    "_labelindex": "index",
}


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


class Dropping:
    """The share of events like each that was dropped from the log (`pdrop`), which must be one for all."""

    def __init__(self, rule: str) -> None:
        if rule not in (REFUSE, IGNORE):
            raise LogError(f"pdrop={rule!r}; expected {REFUSE!r} or {IGNORE!r}")
        self.rule = rule
        self.first: tuple[float, str] | None = None
        self.top, self.differ = 0.0, False

    def see(self, share: float, where: str) -> None:
        """Take note of one event's pdrop."""
        if not 0 <= share < 1:
            raise LogError(
                f"{where}: pdrop is {share}; must be in [0, 1), for a logged event was not dropped"
            )
        known, place = self.first = self.first or (share, where)
        self.top = max(self.top, share)
        self.differ = self.differ or share != known
        if share != known and self.rule == REFUSE:
            raise LogError(
                f"{where}: pdrop is {share}, but {known} at {place}. Vowpal Wabbit counts such an event 1/(1 − pdrop) "
                "times, and a log has no weights: averages over it would not be averages over the traffic. Read "
                "the events of each pdrop on their own, or all as they are with pdrop='ignore' "
                "(sparing convert --option pdrop=ignore)"
            )

    def notes(self) -> list[str]:
        """What dropped events mean for the log."""
        if self.differ:
            return [
                f"Events were dropped at rates up to {self.top:g} (pdrop) that differ, and the log has no weights: "
                "averages over it are not averages over the traffic."
            ]
        if self.top:
            return [
                f"Of all events alike, {self.top:g} were dropped (pdrop): counts are smaller, averages the same."
            ]
        return []


class Numbering:
    """Whether action numbers begin at 0 or at 1, settled by the whole file; 1 where nothing tells."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.zero = self.last = ""

    def positions(self, numbers: list[int], count: int, where: str, *, settled: bool) -> list[int]:
        """Positions from 0 of `numbers` among `count` actions; before it is settled only evidence is kept."""
        if not settled:
            if 0 in numbers and not self.zero:
                self.zero = where
            if count in numbers and not self.last:
                self.last = where
            return [0] * len(numbers)
        if self.zero and self.last:
            raise LogError(
                f"{self.what} is numbered from 0 at {self.zero} (it has 0) but from 1 at {self.last} (it has "
                "the number of actions). Split the file, or renumber one part"
            )
        base = 0 if self.zero else 1
        bad = [number for number in numbers if not base <= number < base + count]
        if bad:
            raise LogError(
                f"{where}: {self.what} names action {bad[0]}; expected {base} to {base + count - 1}, one of the "
                f"{count} actions of _multi"
            )
        return [number - base for number in numbers]

    def notes(self) -> list[str]:
        """Says so where numbers were taken to begin at 0."""
        return [f"{self.what} is numbered from 0 ({self.zero} has a 0)."] if self.zero else []


class Identity:
    """What tells one action of `_multi` from another; `auto` is settled by the first event."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._flatten = Flattener(hidden=True)

    @property
    def said(self) -> str:
        """The rule, in words."""
        return {FEATURES: "their features", POSITION: "their position in _multi"}.get(
            self.rule, f"the field {self.rule}"
        )

    def __call__(self, action: Any, position: int, where: str) -> Hashable:
        """An action's label."""
        if not isinstance(action, dict | Mapping):
            raise LogError(f"{where}: action {position + 1} of _multi is {brief(action)}; expected an object")
        if self.rule == AUTOMATIC:
            self.rule = _id_path(action) or FEATURES
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


def _id_path(action: Mapping[str, Any]) -> str | None:
    """The dotted path of an action's id: a field called id, at any depth, else its tag."""
    found = _find_id(action, "")
    return found or ("_tag" if isinstance(action.get("_tag"), str) else None)


def _find_id(value: Mapping[str, Any], prefix: str) -> str | None:
    for key, part in value.items():
        if key.lower() == "id" and isinstance(part, str | int):
            return f"{prefix}{key}"
        if isinstance(part, Mapping) and (found := _find_id(part, f"{prefix}{key}.")):
            return found
    return None
