"""Features as JSON files: a specification written by hand, or a fitted encoder."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparing.archive import replacing
from sparing.errors import FileError
from sparing.log.features import Encoder, Features, features
from sparing.log.labels import RepeatedKeyError, load_json

EXAMPLE = '{"age": "number", "country": "category"}'


def write_features(encoder: Encoder, path: str | os.PathLike[str]) -> None:
    """Write an encoder as JSON, for `read_features` and the option --features of commands.

    Parameters
    ----------
    encoder : Encoder
        The encoder of a log (`log.encoder`) or a policy.
    path : path or str
        The file to write.
    """
    with replacing(Path(path)) as part:
        part.write_text(json.dumps(encoder.header(), ensure_ascii=False, indent=1), encoding="utf-8")


def read_features(path: str | os.PathLike[str]) -> Encoder | Features:
    """Read features from a JSON file.

    Parameters
    ----------
    path : path or str
        A file that `write_features` wrote, or a mapping of columns to kinds such as
        {"age": "number", "query": {"kind": "vector", "size": 384, "keep": 24}}. With more settings it is
        {"columns": {...}, "others": "auto", "kernel": 128}.

    Returns
    -------
    Encoder or Features
        For the `features` parameter of `read_log`.

    Raises
    ------
    FileError
        If the file cannot be read or has no features.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import sparing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "features.json"
    ...     _ = path.write_text('{"age": "number", "country": "category"}')
    ...     sparing.read_features(path).columns([])
    ('age', 'country')
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise FileError(
            f"{path} cannot be read: {error.strerror}; expected features as JSON, such as {EXAMPLE}"
        ) from None
    try:
        saved = load_json(content)
    except RepeatedKeyError as error:
        raise FileError(f"{path}: {error}") from None
    except ValueError as error:
        raise FileError(f"{path} is not whole JSON ({error}); expected features such as {EXAMPLE}") from None
    if not isinstance(saved, Mapping):
        raise FileError(f"{path} has no features; expected {EXAMPLE}, or what write_features wrote")
    return _features(saved)


def as_features(said: str | Mapping[str, Any] | None) -> Encoder | Features | str | None:
    """Return features from JSON: a word, a mapping as in a file, or None."""
    return _features(said) if isinstance(said, Mapping) else said


def _features(saved: Mapping[str, Any]) -> Encoder | Features:
    if "version" in saved:
        return Encoder.from_header(saved)
    columns = saved.get("columns")
    if not isinstance(columns, Mapping):
        return features(saved)
    settings = {name: saved[name] for name in ("kernel", "constant") if name in saved}
    return replace(features(columns or "auto", **settings), others=saved.get("others"))
