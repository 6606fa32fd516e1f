"""Labels, ids and names: hashable values outside, indices inside; their text and JSON."""

import contextlib
import difflib
import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log.limits import DEEPEST_JSON, DEEPEST_LABEL, LONGEST_NUMBER, MAX_ACTIONS

LARGEST_NUMBER = 10**LONGEST_NUMBER
WHOLE_NUMBER = re.compile(rf"0|-?[1-9][0-9]{{0,{LONGEST_NUMBER - 1}}}")
DIGITS = re.compile(rf"[0-9]{{1,{LONGEST_NUMBER}}}")

# Characters of an invalid value that an error message repeats.
SHORT_LENGTH = 80

# Labels, and rows of each, of an action column that is an id.
MANY_LABELS, ROWS_PER_LABEL = 100, 5.0

# Names that are compared to suggest a similar one.
MAX_CHECKED = 1000

_SURROGATE = re.compile("[\ud800-\udfff]")


class RepeatedKeyError(ValueError):
    """A JSON object has a `key` twice; Python's parser would silently keep the last one."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{shorten(key)} stands twice in one object; name each field once")
        self.key = key


def number(text: str) -> float:
    """Parse a number in ASCII digits; a ValueError for Python's `1_0` and for digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def whole_numbers(texts: Iterable[str]) -> list[Hashable]:
    """Convert texts to numbers if all are whole numbers; otherwise return them unchanged."""
    listed = list(texts)
    return [int(text) for text in listed] if all(map(WHOLE_NUMBER.fullmatch, listed)) else list(listed)


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: it has no half of a surrogate pair."""
    return text.isascii() or _SURROGATE.search(text) is None


def _check_text(what: str, text: str, where: str = "") -> None:
    if not is_unicode(text):
        raise LogError(
            f"{what} {text!a}{where} holds half of a surrogate pair, which is no character; rename it"
        )


def load_json(text: str | bytes, *, constants: bool = False) -> Any:
    """Parse JSON; a ValueError for invalid JSON, deep nesting, broken text and repeated keys.

    `constants` allows NaN and Infinity, which Python writes although JSON has no such numbers.
    """
    try:
        value = json.loads(
            text,
            parse_constant=None if constants else _reject_constant,
            object_pairs_hook=reject_repeated_keys,
        )
    except RecursionError:
        raise ValueError(f"nested more than {DEEPEST_JSON} deep") from None
    if isinstance(text, bytes):
        text = text.decode()
    if text.count("[") + text.count("{") > DEEPEST_JSON and _too_deep(value):
        raise ValueError(f"nested more than {DEEPEST_JSON} deep")
    if "\\u" in text and not is_unicode(json.dumps(value, ensure_ascii=False)):
        raise ValueError("half of a surrogate pair, such as \\ud800, is no character")
    return value


def truncate(text: str) -> str:
    return text if len(text) <= SHORT_LENGTH else f"{text[:SHORT_LENGTH]}…"


def shorten(value: object) -> str:
    """The `repr` of a value for an error message, truncated if it is long."""
    if isinstance(value, int) and abs(value) >= LARGEST_NUMBER:
        return f"a number of more than {LONGEST_NUMBER} digits"
    return truncate(repr(value[:SHORT_LENGTH] if isinstance(value, str | bytes) else value))


def first_repeated(names: Sequence[Hashable]) -> Hashable:
    """The first name that occurs twice, or None."""
    seen: set[Hashable] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of a JSON object as a dict."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RepeatedKeyError(str(first_repeated([key for key, _ in pairs])))
    return found


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number; write null where one is missing")


def _too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST_JSON + 1):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [child for part in parts for child in part if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def missing(label: Any) -> bool:
    """Whether a label is None, NaN, or another value that does not equal itself."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True


def normalize_label(label: Any, depth: int = 0) -> Hashable:
    """Convert a label to a plain Python value, so that NumPy's 3 and Python's 3 are one action."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, list | tuple):
        if depth == DEEPEST_LABEL:
            raise LogError(
                f"an action label is nested more than {DEEPEST_LABEL} deep; use a text, a number or a flat tuple"
            )
        label = tuple(normalize_label(part, depth + 1) for part in label)
    if isinstance(label, str):
        _check_text("action label", label)
    if isinstance(label, int) and abs(label) >= LARGEST_NUMBER:
        raise LogError(f"an action label is a number of more than {LONGEST_NUMBER} digits; use a text")
    try:
        hash(label)
    except TypeError:
        raise LogError(
            f"action label {shorten(label)} is not hashable; use a number, a string or a tuple of those"
        ) from None
    if missing(label):
        raise LogError(f"action label {shorten(label)} is missing; drop the row, or give the action a name")
    return label


def action_names(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """Normalise action labels; at least one, and no two equal."""
    if isinstance(labels, str):
        parts = [part.strip() for part in labels.split(",")]
        raise LogError(f"actions={labels!r} is one text; expected a list of labels: pass {parts}")
    if isinstance(labels, Sized):
        check_action_count(len(labels), "the list of actions")
    names = tuple(normalize_label(label) for label in labels)
    if not names:
        raise LogError("no actions: a log needs at least one. Name them all in the list of actions")
    check_action_count(len(names), "the list of actions")
    twice = first_repeated(names)
    if twice is not None:
        raise LogError(f"action label {shorten(twice)} is given twice (1, 1.0 and True count as one label)")
    return names


def in_order(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """Distinct labels in a stable order: sorted if they compare, else by type and text."""
    distinct = {normalize_label(label) for label in labels}
    check_action_count(len(distinct), "every label that occurs")
    try:
        return tuple(sorted(distinct))  # type: ignore[type-var]
    except TypeError:
        return tuple(sorted(distinct, key=lambda label: (type(label).__name__, repr(label))))


def encode(labels: Sequence[Any] | np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Distinct labels, and each row's position among them, (n,)."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biufU":
        distinct, codes = np.unique(labels, return_inverse=True)
        return distinct.tolist(), codes
    seen: dict[Any, int] = {}
    codes = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels):
        try:
            codes[row] = seen.setdefault(label, len(seen))
        except TypeError:
            codes[row] = seen.setdefault(normalize_label(label), len(seen))
    return list(seen), codes


def positions(
    distinct: Sequence[Any],
    codes: np.ndarray,
    index: Mapping[Hashable, int],
    *,
    what: str = "action",
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Map encoded labels to their indices, (n,); an error names the first row with a missing or unknown label.

    `rows` (n,) is each code's row in the log, by default its position.
    """
    known = np.array(
        [-1 if missing(label) else index.get(normalize_label(label), -1) for label in distinct], np.int32
    )
    found = known[codes] if len(known) else np.empty(0, dtype=np.int32)
    bad = np.flatnonzero(found < 0)
    if not len(bad):
        return found
    row, label = bad[0] if rows is None else rows[bad[0]], distinct[codes[bad[0]]]
    if missing(label):
        raise LogError(
            f"the {what} at row {row} is missing ({shorten(label)}); drop the row, or give it a name"
        )
    shown = ", ".join(shorten(name) for name in list(index)[:5]) + (", …" if len(index) > 5 else "")
    raise LogError(
        f"unknown {what} {shorten(label)} at row {row}; known are {shown}. Add it to the list of actions, or drop "
        "the row"
    )


def to_json(label: Hashable) -> Any:
    """Encode a label; `from_json` returns an equal one."""
    if isinstance(label, str | int | float | bool):
        return label
    if isinstance(label, tuple):
        return {"tuple": [to_json(part) for part in label]}
    raise LogError(
        f"action label {shorten(label)} of type {type(label).__name__} cannot be written to a file; "
        "use strings, numbers or tuples of those"
    )


def from_json(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(from_json(part) for part in value["tuple"])
    return value


def label_text(label: Hashable) -> str:
    """A label in a text column: a string unchanged, other labels as JSON."""
    return label if isinstance(label, str) else json.dumps(to_json(label), ensure_ascii=False)


def labels_by_text(names: Sequence[Hashable]) -> dict[str, int]:
    """Indices by the labels' texts; an error if two labels have the same text."""
    index: dict[str, int] = {}
    for position, name in enumerate(names):
        if label_text(name) in index:
            raise LogError(
                f"action labels {shorten(names[index[label_text(name)]])} and {shorten(name)} are one in a text column"
            )
        index[label_text(name)] = position
    return index


def check_action_count(count: int, what: str) -> None:
    """Reject more actions than a log may have; `what` is the origin of the number."""
    if count > MAX_ACTIONS:
        shown = f"{count:,}" if count < LARGEST_NUMBER else "far more"
        raise LogError(
            f"{what} makes {shown} actions; a log may have {MAX_ACTIONS:,}. If the labels are ids of users or "
            "events, choose another column or field; if many are rare, put those under one label"
        )


def check_action_labels(counts: np.ndarray, items: object = None) -> list[str]:
    """Return a sentence if the actions, with rows (K,), look like ids: hundreds of labels with a few rows each."""
    n_labels = int((counts > 0).sum())
    if n_labels < MANY_LABELS or counts.sum() > ROWS_PER_LABEL * n_labels or items is not None:
        return []
    return [
        f"the action column has {n_labels:,} labels with {counts.sum() / n_labels:.1f} rows each on average: is it an id? "
        "Nothing can be learnt about such actions one by one. Name the column of what was done with action=NAME, or describe "
        "the actions with items=..."
    ]


def identifiers(values: Any, n: int) -> np.ndarray | None:
    """Convert context ids to an array of integers or of strings, (n,)."""
    if values is None:
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuU" and values.shape == (n,):
        return _check_id_text(values.copy())
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    odd = [row for row, value in enumerate(listed) if not isinstance(value, str | int | np.integer)]
    if odd or len(listed) != n:
        got = f"{shorten(listed[odd[0]])} at row {odd[0]}" if odd else f"{len(listed)} of them"
        raise LogError(f"context ids must be {n} integers or strings; got {got}")
    if not any(isinstance(value, str) for value in listed):
        for kind in (np.int64, np.uint64):
            with contextlib.suppress(OverflowError):
                return np.array(listed, dtype=kind)
    return _check_id_text(np.array(list(map(str, listed)), dtype=np.str_))


def _check_id_text(ids: np.ndarray) -> np.ndarray:
    if ids.dtype.kind == "U" and not is_unicode("".join(texts := ids.tolist())):
        for row, text in enumerate(texts):
            _check_text("context id", text, f" at row {row}")
    return ids


def feature_names(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """Check the names of d features; by default x_0, x_1, …"""
    if names is None:
        return tuple(f"x_{i}" for i in range(d))
    if len(names) != d:
        raise LogError(f"{len(names)} feature names for {d} features")
    texts = tuple(map(str, names))
    twice = first_repeated(texts)
    if twice is not None:
        raise LogError(f"feature names are not all different: {shorten(twice)} is given twice. Rename one")
    for text in texts:
        _check_text("feature name", text)
    return texts


def near_duplicates(names: Iterable[Hashable]) -> list[str]:
    """Texts that differ from an earlier one only in case or spaces, each after that earlier one."""
    first: dict[str, str] = {}
    found: list[str] = []
    for name in names:
        if isinstance(name, str) and first.setdefault(fold_case(name), name) != name:
            found += [first[fold_case(name)], name]
    return found


def fold_case(name: object) -> str:
    """A name in lower case, without leading, trailing and repeated spaces."""
    return " ".join(str(name).split()).casefold()


def suggest(name: object, known: Iterable[Hashable]) -> str | None:
    """The most similar of the existing names, regardless of case and spaces; None if none is close."""
    texts = [each for each in known if isinstance(each, str)][:MAX_CHECKED]
    near = {fold_case(each): each for each in reversed(texts)}
    close = difflib.get_close_matches(fold_case(name), near, 1)
    return near[close[0]] if close else None
