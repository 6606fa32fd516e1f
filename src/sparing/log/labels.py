"""Action labels: any hashable value outside, a plain index inside."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log.limits import DEEPEST_LABEL, LONGEST_NUMBER, check_action_count
from sparing.log.parsing import brief, first_repeated, is_unicode

LARGEST_NUMBER = 10**LONGEST_NUMBER


def missing(label: Any) -> bool:
    """Whether a label stands for nothing: None, NaN, or another value that does not equal itself."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True


def plain(label: Any, depth: int = 0) -> Hashable:
    """Return a label as a plain Python value, so that NumPy's 3 and Python's 3 are one action."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, list | tuple):
        if depth == DEEPEST_LABEL:
            raise LogError(
                f"an action label is nested more than {DEEPEST_LABEL} deep; use a text, a number or a flat tuple"
            )
        label = tuple(plain(part, depth + 1) for part in label)
    if isinstance(label, str) and not is_unicode(label):
        raise LogError(
            f"action label {label!a} holds half of a surrogate pair, which is no character; rename it"
        )
    if isinstance(label, int) and abs(label) >= LARGEST_NUMBER:
        raise LogError(f"an action label is a number of more than {LONGEST_NUMBER} digits; use a text")
    try:
        hash(label)
    except TypeError:
        raise LogError(
            f"action label {brief(label)} is not hashable; use a number, a string or a tuple of those"
        ) from None
    if missing(label):
        raise LogError(f"action label {brief(label)} is missing; drop the row, or give the action a name")
    return label


def action_names(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """Check a list of action labels: not empty, no two equal."""
    if isinstance(labels, Sized):
        check_action_count(len(labels), "the list of actions")
    names = tuple(plain(label) for label in labels)
    if not names:
        raise LogError("no actions: a log needs at least one. Name them all in the list of actions")
    check_action_count(len(names), "the list of actions")
    if len(set(names)) < len(names):
        twice = first_repeated(names)
        raise LogError(f"action label {brief(twice)} is given twice (1, 1.0 and True count as one label)")
    return names


def in_order(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """Distinct labels in a stable order: sorted where they compare, else by type and text."""
    distinct = {plain(label) for label in labels}
    check_action_count(len(distinct), "every label that occurs")
    try:
        return tuple(sorted(distinct))  # type: ignore[type-var]
    except TypeError:
        return tuple(sorted(distinct, key=lambda label: (type(label).__name__, repr(label))))


def encode(labels: Sequence[Any] | np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Distinct labels, as they are, and each row's position among them, (n,)."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biufU":
        distinct, codes = np.unique(labels, return_inverse=True)
        return distinct.tolist(), codes
    seen: dict[Any, int] = {}
    codes = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels):
        try:
            codes[row] = seen.setdefault(label, len(seen))
        except TypeError:
            codes[row] = seen.setdefault(plain(label), len(seen))
    return list(seen), codes


def positions(
    distinct: Sequence[Any],
    codes: np.ndarray,
    index: Mapping[Hashable, int],
    *,
    what: str = "action",
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Map encoded labels to their indices, (n,), naming the first row whose label is missing or unknown.

    `rows` (n,) is each code's row in the log, by default its own position.
    """
    known = np.array([-1 if missing(label) else index.get(plain(label), -1) for label in distinct], np.int32)
    found = known[codes] if len(known) else np.empty(0, dtype=np.int32)
    bad = np.flatnonzero(found < 0)
    if not len(bad):
        return found
    row, label = bad[0] if rows is None else rows[bad[0]], distinct[codes[bad[0]]]
    if missing(label):
        raise LogError(
            f"the {what} at row {row} is missing ({brief(label)}); drop the row, or give it a name"
        )
    shown = ", ".join(brief(name) for name in list(index)[:5]) + (", …" if len(index) > 5 else "")
    raise LogError(
        f"unknown {what} {brief(label)} at row {row}; known are {shown}. Add it to the list of actions, or drop "
        "the row"
    )


def to_json(label: Hashable) -> Any:
    """Encode a label so that `from_json` gives an equal one back."""
    if isinstance(label, str | int | float | bool):
        return label
    if isinstance(label, tuple):
        return {"tuple": [to_json(part) for part in label]}
    raise LogError(
        f"action label {brief(label)} of type {type(label).__name__} cannot be written to a file; "
        "use strings, numbers or tuples of those"
    )


def from_json(value: Any) -> Hashable:
    """Decode what `to_json` wrote."""
    if isinstance(value, dict):
        return tuple(from_json(part) for part in value["tuple"])
    return value


def as_text(label: Hashable) -> str:
    """A label in a text column: a string as it is, anything else as its JSON."""
    return label if isinstance(label, str) else json.dumps(to_json(label), ensure_ascii=False)


def by_text(names: Sequence[Hashable]) -> dict[str, int]:
    """Indices by the labels' texts, refusing two labels that a text column cannot tell apart."""
    index: dict[str, int] = {}
    for position, name in enumerate(names):
        if as_text(name) in index:
            raise LogError(
                f"action labels {brief(names[index[as_text(name)]])} and {brief(name)} are one in a text column"
            )
        index[as_text(name)] = position
    return index
