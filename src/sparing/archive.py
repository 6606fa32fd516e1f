"""Atomic file writing, and a checked archive of arrays and JSON without pickles."""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sparing.errors import FileError, KindError, SettingError

if sys.platform != "win32":
    import fcntl

HEADER, CHECKSUM, SIZES, ARRAY = "header.json", "sha256", "bytes", ".npy"
EPOCH = (1980, 1, 1, 0, 0, 0)

# Bytes of a file once inflated, whatever its own size; SPARING_FILE_LIMIT overrides it.
LIMIT = 2**31

# Or this many times its own size. Zeros deflate 1000 : 1, so a ratio alone is not enough.
RATIO = 10

# Errors of a write; they do not name the file.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})

OWN_STREAM = re.compile(r"/dev/std(?P<name>out|err)|/(?:dev|proc/self)/fd/(?P<number>\d+)")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` atomically if the block succeeds.

    A link is followed and kept. A replaced file keeps its permissions; a new one has those of the umask. Pipes and devices are
    written to instead. Temporary files of killed writers are removed.
    """
    target = Path(path)
    with _naming(target):
        through = _is_stream(target)
        followed = target if through else _followed(target)
    staged = _passed_on(target) if through else _renamed(followed, target)
    with _naming(target, NO_ROOM), staged as part:
        yield part


@contextlib.contextmanager
def _naming(target: Path, numbers: Collection[int] | None = None) -> Iterator[None]:
    """Add the name of the file to write errors: to those of these numbers, or to all."""
    try:
        yield
    except OSError as error:
        if numbers is not None and error.errno not in numbers:
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise FileError(f"cannot write {target}: {reason}") from None


def _is_stream(target: Path) -> bool:
    if OWN_STREAM.fullmatch(str(target)):
        return True
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _followed(target: Path) -> Path:
    place = Path(os.path.realpath(target)) if target.is_symlink() else target
    if not place.parent.is_dir():
        raise FileError(f"cannot write {target}: the folder {place.parent} does not exist. Create it first")
    if place.is_dir():
        raise FileError(f"cannot write {target}: it is a folder. Give the name of a file")
    return place


@contextlib.contextmanager
def _passed_on(target: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sparing-") as folder:
        part = Path(folder) / "part"
        part.touch()
        yield part
        with _naming(target), part.open("rb") as whole, _opened(target) as stream:
            shutil.copyfileobj(whole, stream)


def _opened(target: Path) -> BinaryIO:
    own = OWN_STREAM.fullmatch(str(target))
    if own is None:
        return target.open("wb")
    sys.stdout.flush()
    number = int(own["number"]) if own["number"] else 1 + (own["name"] == "err")
    return os.fdopen(os.dup(number), "wb")


@contextlib.contextmanager
def _renamed(target: Path, asked: Path) -> Iterator[Path]:
    marked, held = _marked(target), None
    made: list[Path] = []
    try:  # from here on, since an interruption may come as soon as a file is there
        with _naming(asked):
            before = target.stat() if target.exists() else None
            sweep(target.parent, marked)
            # Private until complete: a secret file must not be readable meanwhile.
            held = _claim(target.parent / marked, 0o666 if before is None else 0o600, made)
        part = made[-1]
        yield part
        with _naming(asked):
            with part.open("rb+") as file:
                os.fsync(file.fileno())  # a rename may reach the disk before the content
            if before is not None:  # the new file gets its owner and permissions
                if sys.platform != "win32":
                    with contextlib.suppress(PermissionError):
                        os.chown(part, before.st_uid, before.st_gid)
                part.chmod(before.st_mode & 0o777)
            part.replace(target)
    finally:
        for part in made:
            part.unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def _marked(target: Path) -> str:
    """Return the prefix of temporary files of this target on this machine.

    The machine is part of it because locks on a network disk may not work across machines.
    """
    readable = re.sub(r"[^\w.-]|[\ud800-\udfff]", "_", target.name[:40])
    whole = platform.node().encode(errors="replace") + b"\0" + os.fsencode(target.name)
    return f".{readable}.{hashlib.sha256(whole).hexdigest()[:12]}."


def _claim(beginning: Path, mode: int, made: list[Path]) -> int | None:
    """Create a temporary file and lock it until it is closed, so that no other writer removes it; its name is the last in `made`."""
    while True:
        part = beginning.with_name(f"{beginning.name}{secrets.token_hex(4)}.part")
        made.append(part)
        try:
            held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        except OSError:
            made.pop()
            raise
        if sys.platform == "win32":
            os.close(held)
            return None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # removed between creating and locking
            os.close(held)
            continue
        except OSError:  # a file system without locks: no other process can remove it either
            os.close(held)
            return None
        if part.exists():
            return held
        os.close(held)


def sweep(folder: Path, marked: str = ".") -> None:
    """Remove temporary files that no process has locked."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # a folder that cannot be listed
        for part in folder.iterdir():
            if part.name.startswith(marked) and part.name.endswith(".part"):
                with contextlib.suppress(OSError):  # in use, another's, or gone already
                    held = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
                    try:
                        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        part.unlink()
                    finally:
                        os.close(held)


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuse, before long work, a folder that cannot be created because a file is in its place."""
    target = Path(path)
    standing = next((place for place in (target, *target.parents) if place.exists()), target)
    if not standing.is_dir():
        raise FileError(f"cannot create the folder {target}: {standing} is a file. Choose another")


def folder(path: str | os.PathLike[str], *, private: bool = False) -> Path:
    """Return a folder, created if it does not exist; a new `private` one is for its owner alone."""
    target = Path(path)
    try:
        target.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot create the folder {target}: {error.strerror or error}. Choose another"
        ) from None
    return target


def write(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a header and arrays as one file of this kind and format version.

    The header lists the bytes of each array. Above `LIMIT` nothing is deflated, so that `read` accepts it by the file's own size.
    """
    entries = {f"{name}{ARRAY}": _packed(array) for name, array in arrays.items()}
    sizes = {name: len(content) for name, content in entries.items()}
    body = json.dumps({"kind": kind, "version": version, **header, SIZES: sizes}, indent=1)
    entries = {HEADER: body.encode(), **entries}
    method = zipfile.ZIP_DEFLATED if sum(sizes.values()) < LIMIT else zipfile.ZIP_STORED
    with replacing(path) as part, zipfile.ZipFile(part, "w", method, compresslevel=1) as archive:
        for name, content in {**entries, CHECKSUM: _checksum(entries).encode()}.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = method
            archive.writestr(info, content)


def read(
    path: str | os.PathLike[str], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a file of `write`, and refuse anything else.

    The inflated size may be SPARING_FILE_LIMIT, else `LIMIT` or `RATIO` times the file's size, whichever is more. Arrays are
    writable, C-contiguous and of native byte order.
    """
    place = Path(path)
    if not place.exists():
        raise FileError(f"{path} does not exist")
    if not place.is_file():
        raise FileError(f"{path} is a folder or a device, not a sparing file")
    limit = _limit(place)
    with _naming_read(path), zipfile.ZipFile(place) as archive:
        infos = _infos(archive, limit)
        header = _header(_inflated(archive, infos[HEADER]) if HEADER in infos else b"", kind, version)
        listed = header.pop(SIZES, None)  # older files have none
        if listed not in (None, {name: infos[name].file_size for name in infos if name.endswith(ARRAY)}):
            raise FileError(
                "was changed or damaged after it was saved (its arrays differ from those in its header)"
            )
        entries = {name: _inflated(archive, info) for name, info in infos.items()}
        checksum = entries.pop(CHECKSUM, b"").decode(errors="replace")
        if checksum != _checksum(entries):
            raise FileError("was changed or damaged after it was saved (its checksum does not match)")
        del entries[HEADER]
        return header, {name.removesuffix(ARRAY): unpacked(entries.pop(name), name) for name in [*entries]}


@contextlib.contextmanager
def _naming_read(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the name of the file to errors.

    A damaged zip raises many types of errors; zlib's has no common base with the others.
    """
    try:
        yield
    except KindError as error:
        raise KindError(f"{path} {error}", error.kind) from None
    except FileError as error:
        raise FileError(f"{path} {error}") from None
    except MemoryError:
        raise
    except Exception as error:
        raise FileError(f"{path} is truncated, damaged, or not a sparing file: {error}") from None


@contextlib.contextmanager
def understanding(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Convert errors of a damaged or forged header or array to FileError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise FileError(f"{path} does not contain a complete {what}: {error!r}") from None


def _limit(path: Path) -> int:
    asked = os.environ.get("SPARING_FILE_LIMIT")
    if asked is None:
        return max(LIMIT, RATIO * path.stat().st_size)
    if not asked.isdecimal():
        raise SettingError(f"SPARING_FILE_LIMIT={asked!r}; must be a whole number of bytes")
    return int(asked)


def _infos(archive: zipfile.ZipFile, limit: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name; refuse repeated or unknown ones, and more than the limit."""
    infos = {info.filename: info for info in archive.infolist()}
    if len(infos) < len(archive.infolist()):
        raise FileError("contains an entry twice; it was not saved by sparing")
    odd = [name for name in infos if name not in (HEADER, CHECKSUM) and not name.endswith(ARRAY)]
    if odd:
        raise FileError(f"contains an entry {odd[0]!r}; it was not saved by sparing")
    total = sum(info.file_size for info in infos.values())
    if total > limit:
        raise FileError(
            f"has {total:,} bytes once inflated; the limit is {limit:,}. If you trust the file, raise "
            f"the limit: SPARING_FILE_LIMIT={total}"
        )
    return infos


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        return file.read(info.file_size + 1)


def _header(content: bytes, kind: str, version: int) -> dict[str, Any]:
    """Return the header without kind and version, which are checked."""
    try:
        header: dict[str, Any] = json.loads(content)
        found, number = header.pop("kind"), header.pop("version")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise FileError(f"is not a sparing file, or its header is damaged; expected {kind}") from None
    if found != kind:
        raise KindError(f"contains a {found}; expected a {kind}", found)
    if not isinstance(number, int) or number > version:
        raise FileError(
            f"has format version {number}; this sparing reads up to {version}. "
            "Install a newer sparing, or save the file again with this one"
        )
    return header


def _packed(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, _own(np.asarray(array)), allow_pickle=False)
    return buffer.getvalue()


def unpacked(content: bytes, name: str) -> np.ndarray:
    """Return an array from the bytes of its entry."""
    try:
        _check_size(content)
        return _own(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))
    except Exception as error:  # the layout is a Python literal; parsing may raise anything
        raise FileError(f"contains no plain array {name}: {error}") from None


def _check_size(content: bytes) -> None:
    # NumPy's reader would allocate before it checks the size.
    buffer = io.BytesIO(content)
    first = np.lib.format.read_magic(buffer) == (1, 0)
    parse = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, _, dtype = parse(buffer)
    size = len(content) - buffer.tell()
    plain = dtype.itemsize > 0 and not dtype.hasobject and min(shape, default=0) >= 0
    if not plain or size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{size} bytes for {dtype} of shape {shape}")


def _own(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=False)


def _checksum(entries: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(entries):
        digest.update(f"{name}\0{len(entries[name])}\0".encode())
        digest.update(entries[name])
    return digest.hexdigest()


def strict_json(value: Any, *, indent: int) -> str:
    """Encode nested values, NumPy's included, as JSON; numbers that are not finite become null."""
    return json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
