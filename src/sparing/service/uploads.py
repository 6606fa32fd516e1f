"""Logs that come over HTTP."""

import base64
import binascii
import re
import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from sparing.errors import SettingError, SparingError
from sparing.log.columns import Columns
from sparing.log.features.files import as_features
from sparing.log.formats import read_log
from sparing.log.log import Log
from sparing.service.messages import LogUpload

ROLES = tuple(role.name for role in fields(Columns))


def read_upload(upload: LogUpload, actions: Sequence[Hashable] | None = None) -> Log:
    """The log in an upload; `actions` take the place of those it names."""
    try:
        content = base64.b64decode(upload.content, validate=True)
    except (binascii.Error, ValueError):
        raise SettingError("log.content is not base64") from None
    for name, column in upload.columns.items():
        if name not in ROLES:
            raise SettingError(f"log.columns has no role {name!r}; the roles are {', '.join(ROLES)}")
        if name != "contexts" and not isinstance(column, str):
            raise SettingError(
                f"log.columns.{name} must be the name of one column; only contexts are several"
            )
    with tempfile.TemporaryDirectory(prefix="sparing-") as folder:
        path = Path(folder) / re.sub(r"^\.*$|[^\w.-]", "_", upload.filename)
        path.write_bytes(content)
        columns: Any = upload.columns
        return read_log(
            path,
            actions=upload.actions if actions is None else actions,
            features=_features(upload),
            items=None if upload.items is None else _table(upload.items),
            delimiter=upload.delimiter,
            decimal=upload.decimal,
            **columns,
        )


def _features(upload: LogUpload) -> Any:
    try:
        return as_features(upload.features)
    except SparingError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SettingError(
            f"log.features are not as `write_features` or a plan says them: {error!r}"
        ) from None


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(rows)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise SettingError(f"log.items is no table: {error}") from None
