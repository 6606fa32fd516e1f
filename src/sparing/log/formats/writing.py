"""A log on its way into a file: block by block, or row by row as the writers of the text formats want them."""

import json
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks
from sparing.log.labels import brief, whole_numbers
from sparing.log.log import Log
from sparing.log.rows import AnyLog, rows_of
from sparing.log.walking import Total

KEPT = "the set and the logged action's probability are kept"
"""What most formats keep of a full distribution."""


@dataclass(frozen=True, eq=False)
class Told:
    """What only the rows tell: which actions were logged, (K,), which are in a known set, (K,), and the smallest such set."""

    logged: np.ndarray
    listed: np.ndarray
    smallest: int

    @classmethod
    def of(cls, block: Log, first_row: int = 0) -> "Told":
        """What a block tells; equal sets are looked at once."""
        logged = block.counts > 0
        if not has_sets(block):
            return cls(logged, np.zeros_like(logged), sys.maxsize)
        support = block.support
        assert support.table is not None
        places = slice(None) if support.index is None else np.unique(support.index)
        sets = support.table[places]
        listed = np.unpackbits(np.bitwise_or.reduce(sets, axis=0), count=block.n_actions).astype(bool)
        smallest = int(np.bitwise_count(sets).sum(axis=1, dtype=np.int64).min(initial=sys.maxsize))
        return cls(logged, listed, smallest)

    def __add__(self, other: "Told") -> "Told":
        smallest = min(self.smallest, other.smallest)
        return Told(self.logged | other.logged, self.listed | other.listed, smallest)


class Passing:
    """A log that is walked into a file; once its blocks have passed, `told` is what they tell."""

    def __init__(self, log: AnyLog) -> None:
        self.rows = rows_of(log)
        self.header = self.rows.header
        self.told = Told.of(self.header)

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """The rows in order, a block at a time, each with its first row."""
        for first, block in self.rows.blocks():
            self.told += Told.of(block)
            yield first, block
            if self.rows.progress is not None:
                self.rows.progress(first + block.n_rows, self.rows.n_rows)

    def beforehand(self) -> Told:
        """What all blocks tell, from a walk of its own."""
        return self.rows.fold(Total(Told.of)) or self.told


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a log.

    `context` (d,) are all its features' values. `features` are the names and values to write: all of them in the first row, so that a reader learns the
    features in their order, later those that are not 0. `available` are the indices of the actions the row
    could have taken, all where that is unknown, `probabilities` theirs (None: only the set is known).
    """

    number: int
    context: np.ndarray
    features: list[tuple[Any, float]]
    action: int
    reward: float
    propensity: float | None
    available: Sequence[int]
    probabilities: list[float] | None
    context_id: Any


def rows(passing: Passing, names: Sequence[Any]) -> Iterator[Row]:
    """Each row, its features under these names; sets and distributions are unpacked for a few rows at a time."""
    for first, block in passing.blocks():
        for part in Blocks.of(block.n_rows, max(block.n_features, block.n_actions)):
            yield from _rows(block.part(part), first + part.start, names)


def _rows(log: Log, first: int, names: Sequence[Any]) -> Iterator[Row]:
    known = has_sets(log)
    written = (log.contexts != 0) | np.signbit(log.contexts)
    masks = log.support.mask() if known else None
    shares = log.support.distribution() if known else None
    for i in range(log.n_rows):
        where = np.flatnonzero(written[i]) if first + i else np.arange(log.n_features)
        available = None if masks is None else np.flatnonzero(masks[i])
        yield Row(
            first + i,
            log.contexts[i],
            list(zip([names[j] for j in where.tolist()], log.contexts[i, where].tolist(), strict=True)),
            int(log.actions[i]),
            float(log.rewards[i]),
            None if log.propensities is None else float(log.propensities[i]),
            range(log.n_actions) if available is None else available.tolist(),
            None if shares is None else shares[i, available].tolist(),
            None if log.context_ids is None else log.context_ids[i].item(),
        )


def has_sets(log: Log) -> bool:
    """Whether the log knows, rather than estimates, which actions each row could have taken."""
    return log.support.kind == "exact"


def need_propensities(log: Log, title: str) -> None:
    """Refuse a log without propensities for a format that cannot do without."""
    if log.propensities is None:
        raise LogError(
            f"{title} needs the probability of every logged action, and this log has none. Estimate them "
            "first, or write a format that can do without (obp, a table)"
        )


def lost(passing: Passing, *, kept: str = KEPT, listing: bool = True) -> list[str]:
    """What is lost of the actions and the support by a format from which labels come back sorted.

    `kept` says what of distributions is, nothing where they are kept whole; `listing`: whether rows list all
    actions where the support is unknown.
    """
    log, told, notes = passing.header, passing.told, []
    if labels.in_order(log.action_names) != log.action_names:
        notes.append(
            "Actions read back in sorted order; read the file with actions=[...] for the log's order."
        )
    notes += distribution_notes(log, kept) if kept else []
    shown = told.logged | told.listed
    if not has_sets(log):
        what = "is estimated, not logged" if log.support.kind == "estimated" else "is unknown"
        then = "all actions are listed, which reads back as if each row could have taken any"
        notes.append(f"The log's support {what}: {then if listing else 'left out'}.")
        shown = shown | listing
    if unseen := [name for name, there in zip(log.action_names, shown, strict=True) if not there]:
        some = ", ".join(map(repr, unseen[:3])) + (", …" if unseen[3:] else "")
        notes.append(
            f"Actions that are in no row ({some}) are lost unless the file is read with actions=[...]."
        )
    return notes


def distribution_notes(log: Log, kept: str = KEPT) -> list[str]:
    """What a format keeps of full distributions that it cannot carry."""
    full = has_sets(log) and log.support.probabilities is not None
    return [f"Of each row's distribution, {kept}."] if full else []


def feature_names(log: Log, *, usable: Callable[[str], object] = bool) -> tuple[list[str], list[str]]:
    """The names to write features under, and a note where the log's own will not do."""
    names = list(log.feature_names)
    bad = [name for name in names if not usable(name)]
    if not bad:
        return names, []
    note = f"Feature names are written as x_0, x_1, … because {brief(bad[0])} cannot be written."
    return [f"x_{i}" for i in range(len(names))], [note]


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


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines of text as a file that is whole or not there."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{line}\n")


def write_json(path: str | os.PathLike[str], records: Iterable[Any], *, compact: bool = False) -> None:
    """Write JSON values, one a line."""
    separators = (",", ":") if compact else None
    write_lines(path, (json.dumps(record, ensure_ascii=False, separators=separators) for record in records))
