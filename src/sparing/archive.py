"""Files that are whole or not there: arrays and JSON in one checked archive, nothing unpickled."""

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

# Bytes that a file may hold once it is inflated, whatever its own size; SPARING_FILE_LIMIT says another.
LIMIT = 2**31

# A file may also hold this many times its own size. Zeros deflate 1000 : 1, so a ratio alone would not do.
RATIO = 10

# What a disk answers to a write; the answer itself never says which file it was.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})

OWN_STREAM = re.compile(r"/dev/std(?P<name>out|err)|/(?:dev|proc/self)/fd/(?P<number>\d+)")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path; what is there when the block ends well takes the place of `path` at once.

    A link is followed, and stays. A file that is replaced hands its permissions on; a new one has those of
    the umask. A pipe or a device is written to instead. What a killed writer left behind is removed.
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
    """Say which file it was that could not be written, on these errors or on all."""
    try:
        yield
    except OSError as error:
        if numbers is not None and error.errno not in numbers:
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise FileError(f"cannot write {target}: {reason}") from None


def _is_stream(target: Path) -> bool:
    """Whether it is written to rather than replaced: a pipe, a device, one of our own streams."""
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
        raise FileError(f"cannot write {target}: it is a folder. Name a file in it")
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
    with _naming(asked):
        before = target.stat() if target.exists() else None
        marked = _marked(target)
        sweep(target.parent, marked)
        # Until it is whole it is ours alone: a secret file must not be readable on its way.
        part, held = _claimed(target.parent, marked, 0o666 if before is None else 0o600)
    try:
        yield part
        with _naming(asked):
            with part.open("rb+") as file:
                os.fsync(file.fileno())  # a rename may reach the disk before what it names
            if before is not None:
                _hand_on(before, part)
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def _hand_on(before: os.stat_result, part: Path) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(PermissionError):
            os.chown(part, before.st_uid, before.st_gid)
    part.chmod(before.st_mode & 0o777)


def _marked(target: Path) -> str:
    """How the temporary files of this target, on this machine, begin.

    The machine is part of it because locks on a network's disk may not reach from one to another.
    """
    readable = re.sub(r"[^\w.-]|[\ud800-\udfff]", "_", target.name[:40])
    whole = platform.node().encode(errors="replace") + b"\0" + os.fsencode(target.name)
    return f".{readable}.{hashlib.sha256(whole).hexdigest()[:12]}."


def _claimed(folder: Path, marked: str, mode: int) -> tuple[Path, int | None]:
    """Make a temporary file and lock it for as long as we live, so that no other writer sweeps it away."""
    while True:
        part = folder / f"{marked}{secrets.token_hex(4)}.part"
        held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        if sys.platform == "win32":
            os.close(held)
            return part, None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # swept between the making and the locking
            os.close(held)
            continue
        except OSError:  # a disk without locks, where nobody can sweep either
            os.close(held)
            return part, None
        if part.exists():
            return part, held
        os.close(held)


def sweep(folder: Path, marked: str = ".") -> None:
    """Remove the temporary files of writers that were killed: those that nobody holds the lock of."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # a folder that may not be listed
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
    """Write a header and arrays as one file of this kind and format version.

    The header lists how many bytes each array takes. What is larger than `LIMIT` is not deflated, so that
    the file's own size vouches for it and `read` takes it.
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
    """Read what `write` wrote, refusing anything that is not exactly that.

    Once inflated the file may hold as many bytes as SPARING_FILE_LIMIT says, else `LIMIT` or `RATIO` times its
    size, whichever is more. Each array is our own: writable, contiguous in C order, of native byte order.
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
                "was changed or damaged after it was saved (its arrays are not those that its header lists)"
            )
        entries = {name: _inflated(archive, info) for name, info in infos.items()}
        checksum = entries.pop(CHECKSUM, b"").decode(errors="replace")
        if checksum != _checksum(entries):
            raise FileError("was changed or damaged after it was saved (its checksum does not match)")
        del entries[HEADER]
        return header, {name.removesuffix(ARRAY): unpacked(entries.pop(name), name) for name in [*entries]}


@contextlib.contextmanager
def _naming_read(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say which file it is that is refused.

    Whatever a damaged zip makes its reader raise becomes one error: zlib's has no common base with others.
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
    """Make one error of all that a forged header or array may raise where the parts are put together."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise FileError(f"{path} does not hold a whole {what}: {error!r}") from None


def _limit(path: Path) -> int:
    asked = os.environ.get("SPARING_FILE_LIMIT")
    if asked is None:
        return max(LIMIT, RATIO * path.stat().st_size)
    if not asked.isdecimal():
        raise SettingError(f"SPARING_FILE_LIMIT={asked!r}; must be a whole number of bytes")
    return int(asked)


def _infos(archive: zipfile.ZipFile, limit: int) -> dict[str, zipfile.ZipInfo]:
    """What the zip says it holds, by name: nothing twice, nothing odd, not too much."""
    infos = {info.filename: info for info in archive.infolist()}
    if len(infos) < len(archive.infolist()):
        raise FileError("holds an entry twice; it was not saved by sparing")
    odd = [name for name in infos if name not in (HEADER, CHECKSUM) and not name.endswith(ARRAY)]
    if odd:
        raise FileError(f"holds an entry {odd[0]!r}; it was not saved by sparing")
    total = sum(info.file_size for info in infos.values())
    if total > limit:
        raise FileError(
            f"holds {total:,} bytes once inflated; the limit is {limit:,}. If you trust the file, raise "
            f"the limit: SPARING_FILE_LIMIT={total}"
        )
    return infos


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        return file.read(info.file_size + 1)


def _header(content: bytes, kind: str, version: int) -> dict[str, Any]:
    """What stands in the header beside the kind and the version, which must be these or older."""
    try:
        header: dict[str, Any] = json.loads(content)
        found, number = header.pop("kind"), header.pop("version")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise FileError(f"is not a sparing file, or its header is damaged; expected {kind}") from None
    if found != kind:
        raise KindError(f"holds a {found}; expected a {kind}", found)
    if not isinstance(number, int) or number > version:
        raise FileError(
            f"has format version {number}; this sparing reads up to {version}. "
            "Install a newer sparing, or save it again with this one"
        )
    return header


def _packed(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, _own(np.asarray(array)), allow_pickle=False)
    return buffer.getvalue()


def unpacked(content: bytes, name: str) -> np.ndarray:
    """An array from the bytes of its entry; NumPy's own reader would set memory aside before it looks."""
    try:
        shape, by_columns, dtype, start = _layout(content)
        flat = np.frombuffer(content, dtype, offset=start) if start < len(content) else np.empty(0, dtype)
        return _own(flat.reshape(shape, order="F" if by_columns else "C"), copy=True)
    except Exception as error:  # the layout is parsed as Python's text, which may fail in any way
        raise FileError(f"holds no plain array {name}: {error}") from None


def _layout(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and start of an array, which must have as many bytes as these need."""
    buffer = io.BytesIO(content)
    first = np.lib.format.read_magic(buffer) == (1, 0)
    parse = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = parse(buffer)
    start = buffer.tell()
    needed = math.prod(shape) * dtype.itemsize
    plain = dtype.itemsize > 0 and not dtype.hasobject and min(shape, default=0) >= 0
    if not plain or len(content) - start != needed:
        raise ValueError(f"{len(content) - start} bytes for {dtype} of shape {shape}")
    return shape, by_columns, dtype, start


def _own(array: np.ndarray, *, copy: bool = False) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("="), order="C", copy=copy)


def _checksum(entries: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(entries):
        digest.update(f"{name}\0{len(entries[name])}\0".encode())
        digest.update(entries[name])
    return digest.hexdigest()


def strict_json(value: Any, *, indent: int) -> str:
    """Nested values, NumPy's included, as JSON that every reader takes: a number that is not one is null."""
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
