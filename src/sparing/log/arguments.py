"""What a log is built from, as the arrays it keeps."""

import contextlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.parsing import brief, first_repeated, is_unicode
from sparing.log.support import Support, SupportBuilder

ODD_KINDS = {"c": "complex", "M": "dates", "m": "durations", "U": "text", "S": "bytes", "V": "records"}
"""Kinds of arrays that NumPy turns into numbers, quietly and wrongly, or not at all."""


@dataclass(frozen=True)
class EligibleSets:
    """Eligible sets end to end: the distinct labels, the members' codes, and the sets' lengths (n,)."""

    distinct: list[Any]
    codes: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, eligible: Iterable[Sequence[Hashable]]) -> "EligibleSets":
        """Gather each row's labels."""
        if isinstance(eligible, np.ndarray) and eligible.dtype == bool:
            raise LogError(
                "eligible is a boolean matrix; expected the labels of each row. "
                "Pass support=Support.from_mask(matrix) instead"
            )
        members: list[Any] = []
        lengths: list[int] = []
        for row, labels_of_row in enumerate(eligible):
            if isinstance(labels_of_row, str) or not isinstance(labels_of_row, Iterable):
                raise LogError(f"eligible at row {row} is {brief(labels_of_row)}; expected a list of actions")
            before = len(members)
            members.extend(labels_of_row)
            lengths.append(len(members) - before)
        return cls(*labels.encode(members), np.array(lengths, dtype=np.int64))

    def support(self, index: dict[Hashable, int]) -> Support:
        """The sets as a support, their labels looked up in `index`."""
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        builder = SupportBuilder(len(index))
        builder.add_sets(
            self.lengths,
            labels.positions(self.distinct, self.codes, index, what="eligible action", rows=rows),
        )
        return builder.build()


def listed(values: Any, what: str) -> Any:
    """A one-dimensional array, or a list."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise LogError(f"{what} of shape {values.shape}; expected one a row")
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def floats(values: Any, what: str, *, copy: bool | None = True) -> np.ndarray:
    """Numbers as an array of floats; of the caller's own array a copy, unless `copy` is None."""
    try:
        array = np.asarray(values)
        odd = _odd(array)
        if odd is None:
            return np.array(array, dtype=np.float64, order="C", copy=copy)
    except (TypeError, ValueError, OverflowError) as error:
        raise LogError(f"{what} are not all numbers: {str(error)[:200]}") from None
    raise LogError(f"{what} are not all numbers, but {odd}. Turn each into a number first")


def _odd(array: np.ndarray) -> str | None:
    """What an array holds, if it is something that NumPy would make numbers of though it is none."""
    if array.dtype.kind != "O":
        return ODD_KINDS.get(array.dtype.kind)
    kinds = {type(value) for value in array.flat}
    return "text" if any(issubclass(kind, str | bytes) for kind in kinds) else None


def distributions(values: Any, n: int, k: int) -> np.ndarray:
    """Full action distributions, (n, K)."""
    table = floats(values, "probabilities", copy=None)
    if table.shape != (n, k):
        raise LogError(f"distribution of shape {table.shape}; expected ({n}, {k}), one column an action")
    return table


def support_from(
    index: dict[Hashable, int],
    distribution: np.ndarray | None,
    sets: EligibleSets | None,
    support: Support | None,
) -> Support | None:
    """The support by whichever of the three is given; None where none is."""
    choices = {"distribution": distribution, "eligible": sets, "support": support}
    given = [name for name, value in choices.items() if value is not None]
    if len(given) > 1:
        raise LogError(f"got {' and '.join(given)}; give one of them, the other follows from it")
    if distribution is not None:
        return Support.from_distribution(distribution)
    return support if sets is None else sets.support(index)


def identifiers(values: Any, n: int) -> np.ndarray | None:
    """Context ids as an array of integers or of strings, (n,), or None."""
    if values is None:
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuU" and values.shape == (n,):
        return _whole_text(values.copy())
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    odd = [row for row, value in enumerate(listed) if not isinstance(value, str | int | np.integer)]
    if odd or len(listed) != n:
        got = f"{brief(listed[odd[0]])} at row {odd[0]}" if odd else f"{len(listed)} of them"
        raise LogError(f"context ids must be {n} integers or strings; got {got}")
    if not any(isinstance(value, str) for value in listed):
        for kind in (np.int64, np.uint64):
            with contextlib.suppress(OverflowError):
                return np.array(listed, dtype=kind)
    return _whole_text(np.array(list(map(str, listed)), dtype=np.str_))


def _whole_text(ids: np.ndarray) -> np.ndarray:
    """The ids as they are, if every character of theirs can be written."""
    if ids.dtype.kind == "U" and ids.size and ids.dtype.itemsize:
        codes = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), -1)
        broken = np.flatnonzero(((codes >= 0xD800) & (codes <= 0xDFFF)).any(axis=1))
        if len(broken):
            raise LogError(
                f"context id {str(ids[broken[0]])!a} at row {broken[0]} holds half of a surrogate pair, which is no "
                "character; rename it"
            )
    return ids


def feature_names(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """The features' names as given, or x_0, x_1, …"""
    if names is None:
        return tuple(f"x_{i}" for i in range(d))
    if len(names) != d:
        raise LogError(f"{len(names)} feature names for {d} features")
    texts = tuple(map(str, names))
    if len(set(texts)) < d:
        raise LogError(
            f"feature names are not all different: {brief(first_repeated(texts))} is given twice. Rename one"
        )
    broken = next((text for text in texts if not is_unicode(text)), None)
    if broken is not None:
        raise LogError(
            f"feature name {broken!a} holds half of a surrogate pair, which is no character; rename it"
        )
    return texts
