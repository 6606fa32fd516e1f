"""Open Bandit Pipeline's `bandit_feedback`: a dict of arrays, in memory or as .npz (nothing pickled)."""

import os
import zipfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from sparing.archive import replacing
from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks
from sparing.log.formats.obp_members import Member, Path, members_of, opened, rows_of_members, whole
from sparing.log.formats.records import EXACT
from sparing.log.formats.streams import cut_anew
from sparing.log.labels import check_action_count
from sparing.log.log import Log, floats
from sparing.log.rows import AnyLog, Rows, rows_of
from sparing.log.support import Support, SupportBuilder
from sparing.log.text_files import is_path
from sparing.log.writer import Passing, has_sets

READ = ("n_rounds", "n_actions", "context", "action", "position", "reward", "pscore", "pi_b")
COUNTS, ROUNDS = READ[:2], READ[2:]
BATCH_ROWS = 65_536


def read(
    source: Any, *, position: int | None = None, actions: Sequence[Hashable] | None = None
) -> tuple[Log, list[str]]:
    """Read a feedback: context (n, d), action (n,) from 0, reward (n,), and where given pscore (n,), pi_b (n, K, L).

    pi_b is the full distribution; pscore alone leaves the support unknown. Of a feedback with several
    positions, `position` selects one. `actions` names the actions 0..K−1 in order.
    """
    fields = {name: value for name, value in _fields(source).items() if value is not None}
    missing = [name for name in ("context", "action", "reward") if name not in fields]
    if missing:
        raise LogError(
            f"the feedback has no {missing[0]!r}; expected context, action, reward and more of {READ}"
        )
    n, names = _names(fields, [(0, fields["action"])], actions)
    slot, _, notes = _slot(fields, [(0, fields.get("position"))], n, position)
    rows = slice(None) if slot is None else np.flatnonzero(_whole(fields["position"], "position") == slot)
    log = Log.from_indices(
        _rounds(fields, "context", n, axes=2)[rows],
        _whole(fields["action"], "action")[rows].astype(np.int32),
        _rounds(fields, "reward", n)[rows],
        names,
        propensities=_rounds(fields, "pscore", n)[rows] if "pscore" in fields else None,
        support=_support(fields.get("pi_b"), (n, len(names)), rows, slot),
    )
    return log, [*notes, *_notes(fields, len(names))]


def _notes(fields: Iterable[str], n_actions: int) -> list[str]:
    notes, names = [], list(fields)
    if "pi_b" not in names:
        notes.append("No pi_b: pscore alone does not tell the support, which is unknown.")
    if "n_actions" not in names:
        notes.append(f"No n_actions: {n_actions} actions, as far as they were logged.")
    if unread := [name for name in names if name not in READ]:
        notes.append(f"Not kept: {', '.join(map(str, unread))}.")
    return notes


def scan(
    source: Any,
    *,
    position: int | None = None,
    actions: Sequence[Hashable] | None = None,
    progress: Progress | None = None,
) -> tuple[Rows, list[str]]:
    """The same log as one that is walked.

    The arrays of an .npz, packed or not, are read some rows at a time. A dict, or an .npz with arrays that are stored
    column by column or do not fit each other, is read into memory.
    """
    members = members_of(source, ROUNDS) if is_path(source) else None
    if members is not None and _are_columns(members):
        fields = _fields(source, COUNTS)
        n, names = _names(fields, _column(source, members, "action"), actions)
        slot, rows, notes = _slot(fields, _column(source, members, "position"), n, position)
        if _fit(members, n, len(names), slot):
            found = Rounds(source, members, names, slot, rows, progress)
            return found, [*notes, *_notes(fields, len(names))]
    log, notes = read(source, position=position, actions=actions)
    return rows_of(log), notes


def _are_columns(members: Mapping[str, Member]) -> bool:
    """Whether all that must be there is, the logged actions and positions one a row."""
    flat = all(len(members[name].shape) == 1 for name in ("action", "position") if name in members)
    return flat and {"context", "action", "reward"} <= set(members)


def _column(source: Path, members: Mapping[str, Member], name: str) -> Iterator[tuple[int, np.ndarray]]:
    """One array, some rows at a time, each time with the first of them; nothing where it is not there."""
    if name in members:
        for first, arrays in rows_of_members(source, {name: members[name]}):
            yield first, arrays[name]


def _fit(members: Mapping[str, Member], n: int, n_actions: int, slot: int | None) -> bool:
    """Whether the arrays have the shapes that they must have."""
    shares = members["pi_b"].shape if "pi_b" in members else (n, n_actions)
    lists = shares[2:] in ((), (1,)) or (len(shares) == 3 and slot is not None and 0 <= slot < shares[2])
    return (
        all(member.shape[0] == n for member in members.values())
        and len(members["context"].shape) == 2
        and all(members[name].shape == (n,) for name in ("reward", "pscore") if name in members)
        and shares[:2] == (n, n_actions)
        and lists
    )


class Rounds(Rows):
    """The rounds of an .npz at one position, read some at a time."""

    def __init__(
        self,
        source: Path,
        members: dict[str, Member],
        names: tuple[Hashable, ...],
        slot: int | None,
        rows: int,
        progress: Progress | None,
    ) -> None:
        self.source, self.members, self.names, self.slot = source, members, names, slot
        self.n_rows, self.progress = rows, progress
        self.header = next(self._pieces(1))[1].part(slice(0, 0))

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Read here, one after the other."""
        return self._pieces(self.cut.block)

    def _pieces(self, step: int) -> Iterator[tuple[int, Log]]:
        order = (
            "context",
            "action",
            "reward",
            *(name for name in ("pscore", "pi_b") if name in self.members),
        )
        for first, arrays in cut_anew(self._parts(order), self.n_rows, step, str(self.source)):
            found = dict(zip(order, arrays, strict=True))
            support = SupportBuilder(len(self.names), first_row=first)
            if "pi_b" in found:
                support.add_distribution(found["pi_b"])
            yield (
                first,
                Log.from_indices(
                    found["context"],
                    found["action"].astype(np.int32),
                    found["reward"],
                    self.names,
                    propensities=found.get("pscore"),
                    support=support.build() if "pi_b" in found else None,
                    first_row=first,
                ),
            )

    def _parts(self, order: Sequence[str]) -> Iterator[tuple[np.ndarray, ...]]:
        """The arrays as floats, of rounds at the position alone."""
        for _, arrays in rows_of_members(self.source, self.members):
            rows = slice(None) if self.slot is None else arrays["position"] == self.slot
            table = arrays.get("pi_b")
            if table is not None and table.ndim == 3:
                arrays["pi_b"] = table[:, :, (self.slot or 0) if table.shape[2] > 1 else 0]
            yield tuple(arrays[name][rows].astype(np.float64) for name in order)


def _fields(source: Any, read: Sequence[str] = READ) -> dict[str, Any]:
    """What a feedback holds; of an .npz, arrays that are not to be read are named, but empty."""
    if isinstance(source, Mapping):
        return dict(source)
    if not is_path(source):
        raise LogError(
            f"cannot read a feedback from {type(source).__name__}; expected a dict or the path of an .npz"
        )
    with opened(source) as (archive, members):
        return {name: whole(archive, info) if name in read else () for name, info in members.items()}


def _rounds(fields: Mapping[str, Any], name: str, n: int, *, axes: int = 1) -> np.ndarray:
    """A field with a value, or a row of values, for each of the n rounds."""
    values = floats(fields[name], f"the values of {name}")
    if values.ndim != axes or len(values) != n:
        expected = f"({n},)" if axes == 1 else f"({n}, features)"
        raise LogError(
            f"{name} has shape {values.shape}; expected {expected}, for each of the {n} actions one"
        )
    return values


def _whole(values: Any, what: str, first_row: int = 0) -> np.ndarray:
    numbers = floats(values, f"the values of {what}")
    bad = np.flatnonzero(~(np.abs(numbers) <= EXACT) | (numbers % 1 != 0)) if numbers.ndim == 1 else None
    if bad is None or len(bad):
        got = (
            f"has shape {numbers.shape}"
            if bad is None
            else f"is {numbers[bad[0]]} at row {first_row + bad[0]}"
        )
        raise LogError(f"{what} {got}; expected one whole number a row")
    return numbers.astype(np.int64)


def _count(fields: Mapping[str, Any], name: str, otherwise: int) -> int:
    value = _whole(np.atleast_1d(fields.get(name, otherwise)), name)
    if len(value) != 1:
        raise LogError(f"{name} has {len(value)} values; expected one number")
    return int(value[0])


def _names(
    fields: Mapping[str, Any], parts: Iterable[tuple[int, Any]], actions: Sequence[Hashable] | None
) -> tuple[int, tuple[Hashable, ...]]:
    """How many rounds there are, and the actions' names, from the logged ones: some rows at a time, with their first."""
    n, top, outside = 0, -1, ""
    limit = _count(fields, "n_actions", 0) if "n_actions" in fields else None
    for first, part in parts:
        chosen = _whole(part, "action", first)
        n, top = n + len(chosen), max(top, int(chosen.max(initial=-1)))
        odd = np.flatnonzero((chosen < 0) | (chosen >= (top + 1 if limit is None else limit)))
        if len(odd) and not outside:
            outside = f"action {chosen[odd[0]]} at row {first + odd[0]}"
    n_actions = top + 1 if limit is None else limit
    if _count(fields, "n_rounds", n) != n:
        raise LogError(f"n_rounds is {fields['n_rounds']}, but there are {n} actions")
    check_action_count(n_actions, "n_actions" if "n_actions" in fields else "the largest action")
    if outside:
        raise LogError(f"{outside}; expected 0 to {n_actions - 1}")
    names = labels.action_names(range(n_actions) if actions is None else actions)
    if len(names) != n_actions:
        raise LogError(f"{len(names)} names in actions=[...] for {n_actions} actions")
    return n, names


def _slot(
    fields: Mapping[str, Any], parts: Iterable[tuple[int, Any]], n: int, position: int | None
) -> tuple[int | None, int, list[str]]:
    """The position to read, None where there are none, and how many rounds have it; `parts` as those of `_names`."""
    if "position" not in fields:
        if position is not None:
            raise LogError(f"position={position}, but the feedback has no positions; leave it out")
        return None, n, []
    counts: Counter[int] = Counter()
    for first, part in parts:
        counts.update(_whole(part, "position", first).tolist())
    if counts.total() != n:
        raise LogError(f"{counts.total()} positions for {n} actions; expected one a row")
    there = sorted(counts)
    if position is None and len(there) > 1:
        raise LogError(
            f"the feedback has the positions {there}; a log has one decision a row. "
            f"Choose one with position={there[0]}"
        )
    if position is not None and position not in there:
        raise LogError(f"position={position}, but the feedback has only {there}")
    wanted = there[0] if position is None and there else position
    many = n if wanted is None else counts[wanted]
    return wanted, many, [f"Only position {wanted} was read: {many} of {n} rows."] if many < n else []


def _support(pi_b: Any, shape: tuple[int, int], rows: slice | np.ndarray, slot: int | None) -> Support | None:
    if pi_b is None:
        return None
    table = floats(pi_b, "the values of pi_b")
    table = table[:, :, None] if table.ndim == 2 else table
    if table.ndim != 3 or table.shape[:2] != shape or (table.shape[2] > 1 and slot is None):
        raise LogError(
            f"pi_b of shape {table.shape}; expected {(*shape, 1)}, or a position to choose its last axis by"
        )
    if table.shape[2] > 1 and not 0 <= (slot or 0) < table.shape[2]:
        raise LogError(f"position {slot} is outside pi_b, which has {table.shape[2]}")
    table = table[rows, :, (slot or 0) if table.shape[2] > 1 else 0]
    builder = SupportBuilder(shape[1])
    for part in Blocks(0, len(table), BATCH_ROWS):
        builder.add_distribution(table[part])
    return builder.build()


ARRAYS: dict[str, Callable[[Log], np.ndarray | None]] = {
    "context": lambda log: np.array(log.contexts),
    "action": lambda log: log.actions.astype(np.int64),
    "position": lambda log: None,
    "reward": lambda log: np.array(log.rewards),
    "pscore": lambda log: None if log.propensities is None else np.array(log.propensities),
    "pi_b": lambda log: _distributions(log),
}
"""What a feedback has for each round, and how a log says it."""


def _distributions(log: Log) -> np.ndarray | None:
    table = log.support.distribution() if has_sets(log) else None
    return None if table is None else np.array(table)[:, :, None]


def to_feedback(log: Log) -> tuple[dict[str, Any], list[str]]:
    """A log as a `bandit_feedback`, with pi_b where it has full distributions, and what it cannot carry."""
    arrays = {name: of(log) for name, of in ARRAYS.items()}
    if arrays["pi_b"] is None:
        del arrays["pi_b"]
    return {"n_rounds": log.n_rows, "n_actions": log.n_actions, **arrays}, _lost(log)


def _lost(log: Log) -> list[str]:
    notes = []
    if log.support.known and not (has_sets(log) and log.support.probabilities is not None):
        notes.append("The sets of available actions are lost: without full distributions there is no pi_b.")
    if log.propensities is None:
        notes.append("The log has no propensities: pscore is None.")
    if log.action_names != tuple(range(log.n_actions)):
        notes.append("Actions are written as 0 to K−1: read it with actions=[...] for their names.")
    if log.feature_names != tuple(f"x_{i}" for i in range(log.n_features)):
        notes.append("Feature names are lost.")
    if log.context_ids is not None:
        notes.append("Context ids are lost.")
    return notes


def write(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write a feedback as .npz, one array after the other, each in a walk of its own; what is None is left out.

    Says what the format could not carry.
    """
    passing = Passing(log)
    n, format = passing.rows.n_rows, np.lib.format
    with replacing(path) as part, zipfile.ZipFile(part, "w") as archive:

        def member(name: str) -> IO[bytes]:
            return archive.open(f"{name}.npy", "w", force_zip64=True)

        for name, count in (("n_rounds", n), ("n_actions", passing.header.n_actions)):
            with member(name) as file:
                format.write_array(file, np.asarray(count), allow_pickle=False)
        for name, of in ARRAYS.items():
            if (empty := of(passing.header)) is None:
                continue
            with member(name) as file:
                layout = format.header_data_from_array_1_0(empty)
                format.write_array_header_1_0(file, layout | {"shape": (n, *empty.shape[1:])})
                for _, block in passing.blocks():
                    for rows in Blocks(0, block.n_rows, BATCH_ROWS):
                        file.write(memoryview(of(block.part(rows))).cast("B"))  # type: ignore[arg-type]
    return _lost(passing.header)
