"""The arrays of an .npz, read without trusting what it says of itself."""

import math
import os
import zipfile
from collections.abc import Container
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log.files import first_line

MOST_INFLATED = 1100
"""Bytes that one packed byte can become at most; who claims more is damaged."""


def arrays_of(path: str | os.PathLike[str], wanted: Container[str]) -> dict[str, Any]:
    """The wanted arrays by name; others are named, but empty. Nothing is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if len(members) < len(archive.infolist()):
                raise ValueError("an array stands in it twice")  # noqa: TRY301 (reported like any damage)
            return {name: _array(archive, info) if name in wanted else () for name, info in members.items()}
    except FileNotFoundError:
        raise LogError(f"{path} does not exist") from None
    except Exception as error:  # a damaged archive or header fails in a dozen ways
        raise LogError(
            f"{path} is no .npz of plain arrays, or it is damaged: {first_line(error)}. Save it with "
            "np.savez(path, **{k: v for k, v in feedback.items() if v is not None})"
        ) from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is packed in a way that NumPy does not write")
    if info.file_size > MOST_INFLATED * (info.compress_size + 1):
        raise ValueError(f"{info.filename} claims {info.file_size} bytes, more than it can have")
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, kind = read[version](file)
    if math.prod(shape) * kind.itemsize > info.file_size:
        raise ValueError(f"{info.filename} claims to be an array of shape {shape}, which is not there")
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
