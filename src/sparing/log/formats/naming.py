"""Which action a label in a file means."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.limits import DEEPEST_LABEL
from sparing.log.parsing import brief, whole_numbers

COUNTED = 10_000
"""Up to this number, all actions below the largest number are there, though most may be missing from the file."""

SPARSE = 10
"""Beyond it, as long as at least one in so many occurs."""

Named = tuple[tuple[Hashable, ...], Mapping[Hashable, int]]
Naming = Callable[[set[Hashable], Sequence[Hashable] | None], Named]
"""From the labels that a file shows, and those that the caller gives: names, and the index of each label."""


def by_label(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Labels are what they are; sorted where the caller gives no order."""
    names = labels.in_order(seen) if given is None else labels.action_names(given)
    return names, {name: i for i, name in enumerate(names)}


def by_text(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Labels are texts; where all of them are whole numbers, they mean those numbers."""
    names = labels.in_order(whole_numbers(map(str, seen))) if given is None else labels.action_names(given)
    return names, {text: i for text, i in labels.by_text(names).items()}


def by_number(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Labels are the numbers 1..K, or ids where they are sparse; names that the caller gives stand for 1..K."""
    if given is not None:
        names = labels.action_names(given)
        return names, {i + 1: i for i in range(len(names))}
    names = numbered({label for label in seen if isinstance(label, int)}, first=1)
    return names, {name: i for i, name in enumerate(names)}


def numbered(seen: set[int], *, first: int) -> tuple[Hashable, ...]:
    """Names for numbers that count from `first`: all up to the largest, or, where most are missing, those seen.

    One large number among few is an id; it must not make as many actions.
    """
    top = max(seen)
    if top - first < max(COUNTED, SPARSE * len(seen)):
        return labels.action_names(range(first, top + 1))
    return labels.in_order(seen)


def numbered_note(names: Sequence[Hashable], *, first: int) -> str:
    """Says which of the two it was."""
    last = first + len(names) - 1
    if names[-1] == last:
        return f"Actions are named {first} to {last}, the largest number in the file."
    return (
        f"Action numbers reach {names[-1]}, but only {len(names)} occur: those are the actions. Name all of them "
        f"in order with actions=[...] if there are more."
    )


def from_json(value: Any, where: str, depth: int = 0) -> Hashable:
    """A label out of JSON: a list is a tuple, an object (features of an action) its text."""
    if type(value) is str and value.isascii():
        return value
    if type(value) is int and abs(value) < labels.LARGEST_NUMBER:
        return value
    if isinstance(value, list | tuple):
        if depth == DEEPEST_LABEL:
            raise LogError(f"{where}: an action is nested more than {DEEPEST_LABEL} deep; expected a label")
        return tuple(from_json(part, where, depth + 1) for part in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={value[key]}" for key in sorted(value, key=str))
    try:
        return labels.plain(value)
    except LogError as error:
        raise LogError(f"{where}: {error}") from None


def set_from_json(values: Any, where: str) -> list[Hashable]:
    """The labels that an event could have taken."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise LogError(f"{where}: the available actions are {brief(values)}; expected a list of labels")
    return [from_json(value, where) for value in values]


def to_json(label: Hashable) -> Any:
    """A label as plain JSON: a tuple is a list."""
    if isinstance(label, tuple):
        return [to_json(part) for part in label]
    return labels.to_json(label)


def text_notes(names: Sequence[Hashable]) -> list[str]:
    """What becomes of labels that are written as text and read back."""
    back = whole_numbers(labels.by_text(names))
    same = [type(a) is type(b) and a == b for a, b in zip(names, back, strict=True)]
    if all(same):
        return []
    name, text = names[same.index(False)], back[same.index(False)]
    return [
        f"Action labels are written as text: {brief(name)} reads back as {brief(text)} unless actions=[...] is given."
    ]


def unknown(label: Hashable, index: Mapping[Hashable, int], where: str) -> LogError:
    """The error for a label that is none of the named actions."""
    some = ", ".join(brief(name) for name in list(index)[:5]) + (", …" if len(index) > 5 else "")
    return LogError(
        f"{where}: unknown action {brief(label)}; the {len(index)} known ones are {some}. "
        "Add it to actions=[...], or drop the event"
    )
