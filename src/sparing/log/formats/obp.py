"""Open Bandit Pipeline's `bandit_feedback`: a dict of arrays, in memory or as .npz (nothing is unpickled)."""

import contextlib
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import IO, Any

import numpy as np

from sparing.archive import replacing, unpacked
from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.formats.events import ArrayRows, Arrays, example_row
from sparing.log.formats.records import EXACT
from sparing.log.labels import check_action_count
from sparing.log.log import Log, floats
from sparing.log.passes import Blocks
from sparing.log.rows import AnyLog, Rows
from sparing.log.text_files import first_line, is_path
from sparing.log.writer import LogStream, has_sets

COUNTS = ("n_rounds", "n_actions")
ROUNDS = ("context", "action", "position", "reward", "pscore", "pi_b")
LOG_NAMES = {
    "context": "contexts",
    "action": "actions",
    "reward": "rewards",
    "pscore": "propensities",
    "pi_b": "distribution",
}
REQUIRED = ("context", "action", "reward")
BATCH_ROWS = 65_536

MAX_INFLATION = 1100
"""Bytes that one compressed byte can become at most; an archive that claims more is damaged."""

Path = str | os.PathLike[str]


def scan(
    source: Any,
    *,
    position: int | None = None,
    actions: Sequence[Hashable] | None = None,
    progress: Progress | None = None,
) -> tuple[Rows, list[str]]:
    """Read a feedback: context (n, d), action (n,) from 0, reward (n,), and if given pscore (n,), pi_b (n, K, L).

    pi_b is the full distribution; pscore alone leaves the support unknown. Of a feedback with several positions,
    `position` selects one. `actions` names the actions 0..K−1 in order. The arrays of an .npz, compressed or not, are
    read some rows at a time; those that are stored column by column are read into memory.
    """
    feedback = _Feedback(source)
    missing = [name for name in REQUIRED if name not in feedback.names]
    if missing:
        expected = f"context, action, reward and more of {(*COUNTS, *ROUNDS)}"
        raise LogError(f"the feedback has no {missing[0]!r}; expected {expected}")
    n, names = _action_names(feedback, actions)
    slot, n_rows, notes = _slot(feedback, n, position)
    _check_shapes(feedback.shapes, n, len(names), slot)
    if "pi_b" not in feedback.names:
        notes.append("No pi_b: pscore alone does not determine the support, which is unknown.")
    if "n_actions" not in feedback.names:
        notes.append(f"No n_actions: {len(names)} actions, as far as they were logged.")
    if unread := [name for name in feedback.names if name not in (*COUNTS, *ROUNDS)]:
        notes.append(f"Not kept: {', '.join(map(str, unread))}.")
    given, distribution = "pscore" in feedback.names, "pi_b" in feedback.names
    d = feedback.shapes["context"][1]
    example = example_row(d, len(names), propensities=given, distribution=distribution)
    arrays = partial(_rounds, feedback, slot)
    return ArrayRows("the feedback", n_rows, names, None, arrays, example, progress), notes


class _Feedback:
    """Names of all arrays of a feedback, its counts, and the arrays for each round, in memory or in the .npz."""

    def __init__(self, source: Any) -> None:
        if isinstance(source, Mapping):
            fields = {name: value for name, value in source.items() if value is not None}
        elif is_path(source):
            with _archive(source) as (archive, infos):
                fields = dict.fromkeys(infos) | {
                    name: _array(archive, infos[name], by_rows=name in ROUNDS)
                    for name in (*COUNTS, *ROUNDS)
                    if name in infos
                }
        else:
            raise LogError(
                f"cannot read a feedback from {type(source).__name__}; expected a dict or the path of an .npz"
            )
        self.source, self.names = source, list(fields)
        self.counts = {name: fields[name] for name in COUNTS if name in fields}
        self.arrays: dict[str, np.ndarray | Member] = {
            name: each if isinstance(each, Member) else floats(each, f"the values of {name}", copy=None)
            for name, each in fields.items()
            if name in ROUNDS
        }
        self.shapes = {name: each.shape for name, each in self.arrays.items()}

    def read(self, names: Sequence[str]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the rows of arrays of equal length, some at a time, with the first row's number."""
        arrays = {name: self.arrays[name] for name in names}
        files: dict[str, IO[bytes]] = {}
        with contextlib.ExitStack() as stack:
            if any(isinstance(each, Member) for each in arrays.values()):
                archive, infos = stack.enter_context(_archive(self.source))
                for name, each in arrays.items():
                    if isinstance(each, Member):
                        files[name] = stack.enter_context(_member(archive, infos[name]))
                        if Member.of(files[name], infos[name].file_size) != each:
                            raise ValueError("it has changed since it was opened")
            widest = max(prod(self.shapes[name][1:]) for name in names)
            for rows in Blocks.of_table(self.shapes[names[0]][0], widest):
                found = {
                    name: each.read(files[name], rows) if isinstance(each, Member) else each[rows]
                    for name, each in arrays.items()
                }
                yield rows.start, found


def _rounds(feedback: _Feedback, slot: int | None) -> Iterator[Arrays]:
    """Iterate over the rounds at one position."""
    names = [name for name in LOG_NAMES if name in feedback.shapes]
    for _, arrays in feedback.read([*names, *(["position"] if slot is not None else [])]):
        rows = slice(None) if slot is None else arrays["position"] == slot
        table = arrays.get("pi_b")
        if table is not None and table.ndim == 3:
            arrays["pi_b"] = table[:, :, (slot or 0) if table.shape[2] > 1 else 0]
        found = {LOG_NAMES[name]: arrays[name][rows].astype(np.float64) for name in names}
        yield {**found, "actions": found["actions"].astype(np.int32)}


def _check_shapes(shapes: Mapping[str, tuple[int, ...]], n: int, n_actions: int, slot: int | None) -> None:
    for name in ("context", "reward", "pscore"):
        axes, found = (2 if name == "context" else 1), shapes.get(name)
        if found is not None and (len(found) != axes or found[0] != n):
            expected = f"({n},)" if axes == 1 else f"({n}, features)"
            raise LogError(f"{name} has shape {found}; expected {expected}, for each of the {n} actions one")
    if not shapes["context"][1]:
        raise LogError(
            f"contexts of shape {shapes['context']}; expected (rows, features) with a feature or more"
        )
    table = shapes.get("pi_b", (n, n_actions))
    table = (*table, 1) if len(table) == 2 else table
    if len(table) != 3 or table[:2] != (n, n_actions) or (table[2] > 1 and slot is None):
        raise LogError(
            f"pi_b of shape {table}; expected {(n, n_actions, 1)}, or a position to choose its last axis by"
        )
    if table[2] > 1 and not 0 <= (slot or 0) < table[2]:
        raise LogError(f"position {slot} is outside pi_b, which has {table[2]}")


def _whole_numbers(feedback: _Feedback, name: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield a column of whole numbers, some rows at a time, with the first row's number."""
    if len(feedback.shapes[name]) != 1:
        raise LogError(f"{name} has shape {feedback.shapes[name]}; expected one whole number a row")
    for first, arrays in feedback.read([name]):
        yield first, _whole(arrays[name], name, first)


def _whole(values: Any, what: str, first_row: int = 0) -> np.ndarray:
    numbers = floats(values, f"the values of {what}", copy=None)
    bad = np.flatnonzero(~(np.abs(numbers) <= EXACT) | (numbers % 1 != 0))
    if len(bad):
        raise LogError(
            f"{what} is {numbers[bad[0]]} at row {first_row + bad[0]}; expected one whole number a row"
        )
    return numbers.astype(np.int64)


def _count(feedback: _Feedback, name: str) -> int:
    values = np.atleast_1d(feedback.counts[name])
    if values.ndim != 1:
        raise LogError(f"{name} has shape {values.shape}; expected one whole number a row")
    if len(numbers := _whole(values, name)) != 1:
        raise LogError(f"{name} has {len(numbers)} values; expected one number")
    return int(numbers[0])


def _action_names(
    feedback: _Feedback, actions: Sequence[Hashable] | None
) -> tuple[int, tuple[Hashable, ...]]:
    """Return the number of rounds, and the actions' names."""
    n, top, outside = 0, -1, ""
    limit = _count(feedback, "n_actions") if "n_actions" in feedback.counts else None
    for first, chosen in _whole_numbers(feedback, "action"):
        n, top = n + len(chosen), max(top, int(chosen.max(initial=-1)))
        odd = np.flatnonzero((chosen < 0) | (chosen >= (top + 1 if limit is None else limit)))
        if len(odd) and not outside:
            outside = f"action {chosen[odd[0]]} at row {first + odd[0]}"
    n_actions = top + 1 if limit is None else limit
    if "n_rounds" in feedback.counts and _count(feedback, "n_rounds") != n:
        raise LogError(f"n_rounds is {feedback.counts['n_rounds']}, but there are {n} actions")
    check_action_count(n_actions, "n_actions" if limit is not None else "the largest action")
    if outside:
        raise LogError(f"{outside}; expected 0 to {n_actions - 1}")
    names = labels.action_names(range(n_actions) if actions is None else actions)
    if len(names) != n_actions:
        raise LogError(f"{len(names)} names in actions=[...] for {n_actions} actions")
    return n, names


def _slot(feedback: _Feedback, n: int, position: int | None) -> tuple[int | None, int, list[str]]:
    """Return the position to read (None: there are none), the number of its rounds, and notes."""
    if "position" not in feedback.shapes:
        if position is not None:
            raise LogError(f"position={position}, but the feedback has no positions; leave it out")
        return None, n, []
    counts: Counter[int] = Counter()
    for _, part in _whole_numbers(feedback, "position"):
        counts.update(part.tolist())
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


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Open an .npz and its members by their arrays' names; any damage becomes one error."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if len(members) < len(archive.infolist()):
                raise ValueError("an array stands in it twice")  # noqa: TRY301 (reported like any damage)
            yield archive, members
    except FileNotFoundError:
        raise LogError(f"{path} does not exist") from None
    except Exception as error:  # a damaged archive or header fails in a dozen ways
        raise LogError(
            f"{path} is no .npz of plain arrays, or it is damaged: {first_line(error)}. Save it with "
            "np.savez(path, **{k: v for k, v in feedback.items() if v is not None})"
        ) from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, by_rows: bool) -> "Member | np.ndarray":
    with _member(archive, info) as file:
        member = Member.of(file, info.file_size) if by_rows else None
    if member is not None:
        return member
    with _member(archive, info) as file:
        return unpacked(file.read(info.file_size + 1), info.filename)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is packed in a way that NumPy does not write")
    if info.file_size > MAX_INFLATION * (info.compress_size + 1):
        raise ValueError(f"{info.filename} claims {info.file_size} bytes, more than it can have")
    return archive.open(info)


@dataclass(frozen=True)
class Member:
    """An array of an .npz whose rows can be read one after the other."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, file: IO[bytes], size: int) -> "Member | None":
        """Read the header of a file of `size` bytes; None if its rows cannot be read one after the other."""
        first = np.lib.format.read_magic(file) == (1, 0)
        parse = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = parse(file)
        simple = dtype.kind in "fiub" and shape and min(shape) > 0 and (not by_columns or len(shape) == 1)
        fits = simple and size - file.tell() == prod(shape) * dtype.itemsize
        return cls(shape, dtype) if fits else None

    def read(self, file: IO[bytes], rows: slice) -> np.ndarray:
        many = rows.stop - rows.start
        needed = many * prod(self.shape[1:]) * self.dtype.itemsize
        content = file.read(needed)
        if len(content) < needed:
            raise ValueError("it ends too early")
        return np.frombuffer(content, self.dtype).reshape(many, *self.shape[1:])


ARRAYS: dict[str, Callable[[Log], np.ndarray | None]] = {
    "context": lambda log: np.array(log.contexts),
    "action": lambda log: log.actions.astype(np.int64),
    "reward": lambda log: np.array(log.rewards),
    "pscore": lambda log: None if log.propensities is None else np.array(log.propensities),
    "pi_b": lambda log: np.array(log.support.distribution())[:, :, None] if _has_table(log) else None,
}
"""The arrays of a feedback, and how a log gives them."""


def _has_table(log: Log) -> bool:
    return has_sets(log) and log.support.probabilities is not None


def _lost(log: Log) -> list[str]:
    notes = []
    if log.support.known and not _has_table(log):
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


def write(log: AnyLog, path: Path) -> list[str]:
    """Write a feedback as .npz, each array in a pass of its own, and return what the format could not carry."""
    passing = LogStream(log)
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
