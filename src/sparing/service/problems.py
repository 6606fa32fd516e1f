"""What a request can be refused for: a status, a stable code, a sentence, and the field that is at fault."""

import re
from http import HTTPStatus

from sparing.errors import SparingError

KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
"""What JSON calls the kinds of values that msgspec names."""

RETRY_AFTER = 1
"""Seconds after which to try again, where that may help."""


class ServiceError(SparingError):
    """A request that is refused; nothing was changed."""

    def __init__(self, status: int, code: str, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.field = status, code, detail, field

    def document(self) -> dict[str, object]:
        """The answer's body: problem details (RFC 9457)."""
        found: dict[str, object] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.field is not None:
            found["field"] = self.field
        return found


def not_found(what: str, code: str = "not_found") -> ServiceError:
    """Something that a path names is not there."""
    return ServiceError(404, code, what)


def conflict(code: str, detail: str, field: str | None = None) -> ServiceError:
    """A request that contradicts what is stored."""
    return ServiceError(409, code, detail, field)


def unfit(detail: str, field: str | None = None, code: str = "invalid") -> ServiceError:
    """Well-formed, but not what the experiment can use."""
    return ServiceError(422, code, detail, field)


def unavailable(code: str, detail: str) -> ServiceError:
    """Not now; the same request may succeed later."""
    return ServiceError(503, code, detail)


def misfit(error: Exception) -> tuple[str, str | None]:
    """What msgspec refused in our words, and the field that it is about: expected a number, got a text."""
    detail, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").lstrip(".") or None
    detail = detail.replace("Object contains unknown field", "unknown field")
    detail = detail.replace("Object missing required field", "there is no field")
    detail = re.sub(r"^Invalid enum value (.*)", r"\1 is not one of its values", detail)
    detail = re.sub(r"`([a-z |]+)`( of length)?", _kinds, detail) if detail.startswith("Expected") else detail
    return detail[:1].lower() + detail[1:], field


def _kinds(found: re.Match[str]) -> str:
    return " or ".join(KINDS.get(kind, kind) for kind in found[1].split(" | ")) + (found[2] or "")
