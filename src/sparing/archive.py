"""Files that are whole or not there: arrays and JSON in one checked archive, nothing unpickled."""

import contextlib
import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparing.errors import FileError

HEADER = "header.json"
CHECKSUM = "sha256"
EPOCH = (1980, 1, 1, 0, 0, 0)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it over `path` only if the block succeeds."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileError(f"cannot write {target}: the folder {target.parent} does not exist. Create it first")
    try:
        if target.is_dir():
            raise FileError(f"cannot write {target}: it is a folder. Name a file in it")
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        part.touch(exist_ok=False)
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror or error}") from None
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())  # a rename may reach the disk before what it names
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuse, before long work, a folder that cannot be made because a file stands in its way."""
    target = Path(path)
    standing = next((place for place in (target, *target.parents) if place.exists()), target)
    if not standing.is_dir():
        raise FileError(f"cannot make the folder {target}: {standing} is a file. Name another")


def folder(path: str | os.PathLike[str]) -> Path:
    """A folder to write into, made if it is not there."""
    target = Path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {target}: {error.strerror or error}. Name another") from None
    return target


def write(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a header and arrays as one file of this kind and format version."""
    body = json.dumps({"kind": kind, "version": version, **header}, ensure_ascii=False, indent=1)
    entries = {HEADER: body.encode()}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
        entries[f"{name}.npy"] = buffer.getvalue()
    with (
        replacing(path) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for name, content in {**entries, CHECKSUM: _checksum(entries).encode()}.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


def read(
    path: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `write` wrote, refusing anything that is not exactly that."""
    entries = _entries(Path(path))
    try:
        header = json.loads(entries[HEADER])
        found, number = header.pop("kind"), header.pop("version")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileError(f"{path} is not a sparing file, or its header is damaged; expected {kind}") from None
    if found != kind:
        raise FileError(f"{path} holds a {found}; expected a {kind}")
    if not isinstance(number, int) or number > version:
        raise FileError(
            f"{path} has format version {number}; this sparing reads up to {version}. "
            "Install a newer sparing, or save it again with this one"
        )
    checksum = entries.pop(CHECKSUM, b"").decode(errors="replace")
    if checksum != _checksum(entries):
        raise FileError(f"{path} was changed or damaged after it was saved (its checksum does not match)")
    arrays = {}
    for name, content in entries.items():
        if name != HEADER:
            try:
                array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
            except (ValueError, EOFError) as error:
                raise FileError(f"{path} holds no plain array {name}: {error}") from None
            arrays[name.removesuffix(".npy")] = array
    return header, arrays


def _entries(path: Path) -> dict[str, bytes]:
    if not path.exists():
        raise FileError(f"{path} does not exist")
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, OSError, RuntimeError, ValueError) as error:
        raise FileError(f"{path} is truncated, damaged, or not a sparing file: {error}") from None
    except Exception as error:  # zlib.error has no common base with the others
        raise FileError(f"{path} is damaged: {error}") from None


def _checksum(entries: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(entries):
        digest.update(f"{name}\0{len(entries[name])}\0".encode())
        digest.update(entries[name])
    return digest.hexdigest()
