"""Open Bandit Pipeline's `bandit_feedback`: a dict of arrays, in memory or as .npz (nothing pickled)."""

import os
import zipfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import IO, Any

import numpy as np

from sparing.archive import replacing, unpacked
from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks
from sparing.log.formats.records import EXACT
from sparing.log.formats.writing import Passing, has_sets
from sparing.log.labels import check_action_count
from sparing.log.log import Log, floats
from sparing.log.scanning import AnyLog, Rows, rows_of
from sparing.log.sources import first_line, is_path
from sparing.log.support import Support, SupportBuilder

READ = ("n_rounds", "n_actions", "context", "action", "position", "reward", "pscore", "pi_b")
BATCH_ROWS = 65_536

MOST_INFLATED = 1100
"""Bytes that one packed byte can become at most; who claims more is damaged."""


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
    chosen = _whole(fields["action"], "action")
    n_actions = _count(fields, "n_actions", int(chosen.max(initial=-1)) + 1)
    if _count(fields, "n_rounds", len(chosen)) != len(chosen):
        raise LogError(f"n_rounds is {fields['n_rounds']}, but there are {len(chosen)} actions")
    check_action_count(n_actions, "n_actions" if "n_actions" in fields else "the largest action")
    outside = np.flatnonzero((chosen < 0) | (chosen >= n_actions))
    if len(outside):
        raise LogError(f"action {chosen[outside[0]]} at row {outside[0]}; expected 0 to {n_actions - 1}")
    names = labels.action_names(range(n_actions) if actions is None else actions)
    if len(names) != n_actions:
        raise LogError(f"{len(names)} names in actions=[...] for {n_actions} actions")
    rows, slot, notes = _at_position(fields, len(chosen), position)
    n = len(chosen)
    log = Log.from_indices(
        _rounds(fields, "context", n, axes=2)[rows],
        chosen[rows].astype(np.int32),
        _rounds(fields, "reward", n)[rows],
        names,
        propensities=_rounds(fields, "pscore", n)[rows] if "pscore" in fields else None,
        support=_support(fields.get("pi_b"), (len(chosen), n_actions), rows, slot),
    )
    if "pi_b" not in fields:
        notes.append("No pi_b: pscore alone does not tell the support, which is unknown.")
    if "n_actions" not in fields:
        notes.append(f"No n_actions: {n_actions} actions, as far as they were logged.")
    if unread := [name for name in fields if name not in READ]:
        notes.append(f"Not kept: {', '.join(map(str, unread))}.")
    return log, notes


def scan(source: Any, *, progress: Progress | None = None, **options: Any) -> tuple[Rows, list[str]]:
    """The same log as one that is walked; it is in memory."""
    log, notes = read(source, **options)
    return rows_of(log), notes


def _fields(source: Any) -> dict[str, Any]:
    """What a feedback holds; of an .npz, arrays that are not read are named, but empty. Nothing is unpickled."""
    if isinstance(source, Mapping):
        return dict(source)
    if not is_path(source):
        raise LogError(
            f"cannot read a feedback from {type(source).__name__}; expected a dict or the path of an .npz"
        )
    try:
        with zipfile.ZipFile(source) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if len(members) < len(archive.infolist()):
                raise ValueError("an array stands in it twice")  # noqa: TRY301 (reported like any damage)
            return {name: _array(archive, info) if name in READ else () for name, info in members.items()}
    except FileNotFoundError:
        raise LogError(f"{source} does not exist") from None
    except Exception as error:  # a damaged archive or header fails in a dozen ways
        raise LogError(
            f"{source} is no .npz of plain arrays, or it is damaged: {first_line(error)}. Save it with "
            "np.savez(path, **{k: v for k, v in feedback.items() if v is not None})"
        ) from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """An array, without trusting what the archive says of it."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is packed in a way that NumPy does not write")
    if info.file_size > MOST_INFLATED * (info.compress_size + 1):
        raise ValueError(f"{info.filename} claims {info.file_size} bytes, more than it can have")
    with archive.open(info) as file:
        return unpacked(file.read(info.file_size + 1), info.filename)


def _rounds(fields: Mapping[str, Any], name: str, n: int, *, axes: int = 1) -> np.ndarray:
    """A field with a value, or a row of values, for each of the n rounds."""
    values = floats(fields[name], f"the values of {name}")
    if values.ndim != axes or len(values) != n:
        expected = f"({n},)" if axes == 1 else f"({n}, features)"
        raise LogError(
            f"{name} has shape {values.shape}; expected {expected}, for each of the {n} actions one"
        )
    return values


def _whole(values: Any, what: str) -> np.ndarray:
    numbers = floats(values, f"the values of {what}")
    bad = np.flatnonzero(~(np.abs(numbers) <= EXACT) | (numbers % 1 != 0)) if numbers.ndim == 1 else None
    if bad is None or len(bad):
        got = f"has shape {numbers.shape}" if bad is None else f"is {numbers[bad[0]]} at row {bad[0]}"
        raise LogError(f"{what} {got}; expected one whole number a row")
    return numbers.astype(np.int64)


def _count(fields: Mapping[str, Any], name: str, otherwise: int) -> int:
    value = _whole(np.atleast_1d(fields.get(name, otherwise)), name)
    if len(value) != 1:
        raise LogError(f"{name} has {len(value)} values; expected one number")
    return int(value[0])


def _at_position(
    fields: Mapping[str, Any], n: int, position: int | None
) -> tuple[slice | np.ndarray, int | None, list[str]]:
    """The rows to read, and the place of their distributions in pi_b."""
    if "position" not in fields:
        if position is not None:
            raise LogError(f"position={position}, but the feedback has no positions; leave it out")
        return slice(None), None, []
    positions = _whole(fields["position"], "position")
    if positions.shape != (n,):
        raise LogError(f"{len(positions)} positions for {n} actions; expected one a row")
    there = np.unique(positions)
    if position is None and len(there) > 1:
        raise LogError(
            f"the feedback has the positions {there.tolist()}; a log has one decision a row. "
            f"Choose one with position={there[0]}"
        )
    wanted = int(there[0]) if position is None and len(there) else position
    if position is not None and position not in there:
        raise LogError(f"position={position}, but the feedback has only {there.tolist()}")
    rows = np.flatnonzero(positions == wanted)
    notes = [f"Only position {wanted} was read: {len(rows)} of {n} rows."] if len(rows) < n else []
    return rows, wanted, notes


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
