"""Exports of policies: the formats by name."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparing.archive import replacing
from sparing.errors import SettingError
from sparing.policies.scorer import Scorer
from sparing.validation import one_of

FORMATS = ("json", "sql", "onnx")


def export(
    policy: Any,
    format: str,
    path: str | os.PathLike[str] | None = None,
    *,
    dialect: str | None = None,
    table: str | Sequence[str] = "contexts",
) -> str | bytes:
    """Return a policy in a format, and write it to `path` if there is one; as `policy.export`."""
    one_of("format", format, FORMATS)
    if dialect is not None and format != "sql":
        raise SettingError(f"dialect={dialect!r} with format={format!r}; only sql has dialects. Leave it out")
    if dialect is None and format == "sql":
        raise SettingError("format='sql' needs a database: dialect=duckdb, postgres or sqlite")
    scorer = Scorer.of(policy)
    content: str | bytes
    if format == "json":
        content = scorer.to_json()
    elif format == "onnx":
        from sparing.policies.onnx import to_onnx

        content = to_onnx(scorer)
    else:
        from sparing.policies.sql import to_sql

        content = to_sql(scorer, str(dialect), table)
    if path is not None:
        with replacing(Path(path)) as part:
            part.write_bytes(content.encode() if isinstance(content, str) else content)
    return content
