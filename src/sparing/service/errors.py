"""Problem details (RFC 9457): a status, a stable code, a sentence, and the name of the wrong field."""

import contextlib
import re
import sys
import traceback
from http import HTTPStatus
from typing import Any

import msgspec

from sparing.errors import SparingError

# Types of msgspec under their JSON names.
KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}

RETRY_AFTER = 1  # seconds


def tell_operator(text: str) -> None:
    """Write a line to the error stream; it may be a file on a full disk, which must not stop anything."""
    with contextlib.suppress(OSError, ValueError):
        print(f"sparing: {text}", file=sys.stderr, flush=True)


def print_traceback() -> None:
    """Write the present exception to the error stream, as `tell_operator` does."""
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc(file=sys.stderr)


class Problem(msgspec.Struct, omit_defaults=True):
    """Why a request is refused (RFC 9457): `code` is stable, `field` is the name of the wrong field."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None


class ServiceError(SparingError):
    """A refused request; nothing was changed."""

    def __init__(self, status: int, code: str, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.field = status, code, detail, field

    def document(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        problem = Problem("about:blank", title, self.status, self.code, self.detail, self.field)
        found: dict[str, Any] = msgspec.to_builtins(problem)
        return found


def not_found(what: str, code: str = "not_found") -> ServiceError:
    return ServiceError(404, code, what)


def conflict(code: str, detail: str, field: str | None = None) -> ServiceError:
    return ServiceError(409, code, detail, field)


def outdated(detail: str) -> ServiceError:
    return ServiceError(412, "changed", detail, "If-Match")


def unprocessable(detail: str, field: str | None = None, code: str = "invalid") -> ServiceError:
    return ServiceError(422, code, detail, field)


def unavailable(code: str, detail: str) -> ServiceError:
    return ServiceError(503, code, detail)


def validation_detail(error: Exception, kind: Any) -> tuple[str, str | None]:
    """Reword an error of msgspec for decoding `kind`; return the sentence and the name of the wrong field."""
    from sparing.service.messages import DURATION

    detail, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").lstrip(".") or None
    types = _types(kind, field or "")
    known = ", ".join(each.encode_name for one in types for each in getattr(one, "fields", ()))
    detail = re.sub(r"^Object contains (unknown field .*)", rf"\1; must be one of {known}", detail)
    detail = detail.replace("Object missing required field", "missing field")
    literal = (one for one in types if isinstance(one, msgspec.inspect.LiteralType))
    allowed = ", ".join(str(value) for one in literal for value in one.values)
    detail = re.sub(r"^Invalid enum value (.*)", rf"got \1; must be one of {allowed}", detail)
    if allowed:
        detail = re.sub(r"^Expected `str`", f"expected one of {allowed}", detail)
    detail = detail.replace(f"matching regex {DURATION!r}", "such as 7d or 12h, in s, m, h, d or w")
    if detail.lower().startswith("expected"):
        detail = re.sub(r"`([a-z |]+)`( of length)?", _kinds, detail)
    return detail[:1].lower() + detail[1:], field


def _types(kind: Any, field: str) -> list[Any]:
    found = [msgspec.inspect.type_info(kind)]
    for part in [*re.findall(r"\[[^]]*\]|[^.\[]+", field), ""]:
        found = [each for one in found for each in getattr(one, "types", (one,))]
        if part.startswith("["):
            inner = [(getattr(one, "item_type", None), getattr(one, "value_type", None)) for one in found]
            found = [each for pair in inner for each in pair if each is not None]
        elif part:
            known = [each for one in found for each in getattr(one, "fields", ())]
            found = [each.type for each in known if each.encode_name == part]
    return found


def _kinds(found: re.Match[str]) -> str:
    return " or ".join(KINDS.get(kind, kind) for kind in found[1].split(" | ")) + (found[2] or "")
