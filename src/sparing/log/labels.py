"""Action labels: any hashable value outside, a plain index inside."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sparing.errors import LogError


def plain(label: Any) -> Hashable:
    """Return a label as a plain Python value, so that NumPy's 3 and Python's 3 are one action."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, list):
        label = tuple(label)
    try:
        hash(label)
    except TypeError:
        raise LogError(
            f"action label {label!r} is not hashable; use a number, a string or a tuple of those"
        ) from None
    if label is None or label != label:
        raise LogError(f"action label {label!r} is missing; drop the row, or give the action a name")
    return label


def action_names(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """Check a list of action labels: not empty, no two equal."""
    names = tuple(plain(label) for label in labels)
    if not names:
        raise LogError("no actions: a log needs at least one. Pass actions=[...] with the action labels")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise LogError(f"action label {twice!r} is given twice (1, 1.0 and True count as one label)")
    return names


def in_order(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """Distinct labels in a stable order: sorted where they compare, else by type and text."""
    distinct = {plain(label) for label in labels}
    try:
        return tuple(sorted(distinct))  # type: ignore[type-var]
    except TypeError:
        return tuple(sorted(distinct, key=lambda label: (type(label).__name__, repr(label))))


def indices(
    labels: Sequence[Any] | np.ndarray, index: Mapping[Hashable, int], *, what: str = "action"
) -> np.ndarray:
    """Map labels to their indices, naming the first row whose label is unknown."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    found = np.empty(len(values), dtype=np.int32)
    for row, label in enumerate(values):
        position = index.get(plain(label))
        if position is None:
            known = ", ".join(repr(name) for name in list(index)[:5]) + (", …" if len(index) > 5 else "")
            raise LogError(
                f"unknown {what} {label!r} at row {row}; the {len(index)} known ones are {known}. "
                "Add it to actions=[...], or drop the row"
            )
        found[row] = position
    return found


def to_json(label: Hashable) -> Any:
    """Encode a label so that `from_json` gives an equal one back."""
    if isinstance(label, str | int | float | bool):
        return label
    if isinstance(label, tuple):
        return {"tuple": [to_json(part) for part in label]}
    raise LogError(
        f"action label {label!r} of type {type(label).__name__} cannot be written to a file; "
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
                f"action labels {names[index[as_text(name)]]!r} and {name!r} are one in a text column"
            )
        index[as_text(name)] = position
    return index
