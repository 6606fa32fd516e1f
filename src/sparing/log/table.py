"""Where a table comes from, and which of its columns play which role."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.errors import LogError

BATCH_ROWS = 131_072
METADATA = b"sparing"
WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*")

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


@dataclass(frozen=True)
class Source:
    """A table that can be walked, batch by batch, more than once."""

    name: str
    schema: pa.Schema
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    text: bool = False

    @property
    def notes(self) -> dict[str, Any]:
        """What `write_log` left in the schema's metadata."""
        raw = (self.schema.metadata or {}).get(METADATA)
        return json.loads(raw) if raw else {}


@dataclass(frozen=True)
class Columns:
    """The columns that play each role; `contexts` are scalar columns or one list column."""

    contexts: tuple[str, ...]
    action: str
    reward: str
    propensity: str | None
    distribution: tuple[str, ...]
    eligible: str | None
    context_id: str | None
    prefix: str = "p_"
    estimated: bool = False
    all: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        named = (self.action, self.reward, self.propensity, self.eligible, self.context_id)
        scalar = tuple(name for name in named if name is not None)
        object.__setattr__(self, "all", tuple(dict.fromkeys((*self.contexts, *scalar, *self.distribution))))


def open_source(source: Any) -> Source:
    """A file path, an Arrow table, a pandas or polars frame, or a mapping of columns."""
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source))
    if isinstance(source, Mapping):
        table = pa.table({name: _column(values) for name, values in source.items()})
    elif isinstance(source, pa.Table):
        table = source
    elif hasattr(source, "__arrow_c_stream__"):
        table = pa.table(source)
    else:
        raise LogError(
            f"cannot read a log from {type(source).__name__}; expected a path, a pyarrow, pandas or polars "
            "table, or a mapping of columns. For arrays use Log.from_arrays(contexts, actions, rewards)"
        )

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS)

    return Source("the table", table.schema, batches)


def _column(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.ndim == 2:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return values


def file_format(path: Path) -> str:
    """Tell a table's format by its ending."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise LogError(f"{path}: unknown ending {path.suffix!r}; known are {', '.join(FORMATS)}") from None


def _open_file(path: Path) -> Source:
    kind = file_format(path)
    if not path.is_file():
        raise LogError(f"{path} does not exist or is not a file")
    if path.stat().st_size == 0:
        raise LogError(f"{path} is empty (0 bytes); expected a {kind} table")
    try:
        return {"parquet": _parquet, "csv": _csv, "arrow": _arrow}[kind](path)
    except (pa.ArrowInvalid, OSError) as error:
        raise LogError(f"{path} cannot be read as {kind}: {_first_line(error)}") from None


def _parquet(path: Path) -> Source:
    import pyarrow.parquet as pq

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _readable(path), pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns))

    with pq.ParquetFile(path) as file:
        return Source(str(path), file.schema_arrow, batches)


def _arrow(path: Path) -> Source:
    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _readable(path), pa.memory_map(str(path)) as memory:
            reader = pa.ipc.open_file(memory)
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i).select(list(columns))

    with pa.memory_map(str(path)) as memory:
        return Source(str(path), pa.ipc.open_file(memory).schema, batches)


def _csv(path: Path) -> Source:
    """Every cell is read as text; its role decides what it must parse to."""
    import pyarrow.csv as pc

    with path.open("rb") as file:
        first = file.readline()
    header = pc.read_csv(pa.BufferReader(first)).schema.names
    types = dict.fromkeys(header, pa.string())

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        options = pc.ConvertOptions(
            include_columns=list(columns), column_types=types, strings_can_be_null=False
        )
        parse = pc.ParseOptions(newlines_in_values=False)
        with _readable(path), pc.open_csv(path, convert_options=options, parse_options=parse) as reader:
            yield from reader

    return Source(str(path), pa.schema([(name, pa.string()) for name in header]), batches, text=True)


class _readable:  # noqa: N801 (a context manager read as a word)
    """Turn Arrow's errors while reading a file into ours."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, pa.ArrowInvalid | OSError):
            raise LogError(f"{self.path} is truncated or damaged: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def find_columns(
    source: Source,
    *,
    contexts: str | Sequence[str] | None,
    action: str,
    reward: str,
    propensity: str | None,
    distribution: str | None,
    eligible: str | None,
    context_id: str | None,
) -> Columns:
    """Match the roles to the columns that are there; a default name that is not there is left out."""
    names = source.schema.names
    for role, name in (("action", action), ("reward", reward)):
        if name not in names:
            raise LogError(f"{source.name} has no {role} column {name!r}; {_has(names)}. Pass {role}=NAME")
    estimated = "estimated_eligible" in names or any(name.startswith("estimated_p_") for name in names)
    marker = "estimated_" if estimated else ""

    def optional(role: str, name: str | None, default: str) -> str | None:
        if name is None or name in names:
            return name
        if name == default:
            return None
        raise LogError(f"{source.name} has no {role} column {name!r}; {_has(names)}")

    prefix = marker + (distribution or "p_")
    table = tuple(n for n in names if n.startswith(prefix)) if distribution else ()
    sets = None if table else optional("eligible", eligible and marker + eligible, marker + "eligible")
    return Columns(
        contexts=_context_columns(source, contexts),
        action=action,
        reward=reward,
        propensity=optional("propensity", propensity, "propensity"),
        distribution=table,
        eligible=sets,
        context_id=optional("context id", context_id, "context_id"),
        prefix=prefix,
        estimated=estimated,
    )


def _context_columns(source: Source, contexts: str | Sequence[str] | None) -> tuple[str, ...]:
    names = source.schema.names
    if contexts is not None:
        chosen = (contexts,) if isinstance(contexts, str) else tuple(contexts)
        missing = [name for name in chosen if name not in names]
        if missing or not chosen:
            raise LogError(f"{source.name} has no context column {missing or chosen!r}; {_has(names)}")
        return chosen
    features = [name for name in names if name.startswith("x_")]
    if features and all(name[2:].isdigit() for name in features):
        features.sort(key=lambda name: int(name[2:]))
    if features:
        return tuple(features)
    for name in ("x", "context", "contexts"):
        if name in names:
            return (name,)
    raise LogError(
        f"{source.name} has no context columns x_0, x_1, … nor a list column `context`; {_has(names)}. "
        "Pass contexts=[...] with the names of the feature columns"
    )


def _has(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return f"it has {shown}{', …' if len(names) > 12 else ''}"
