"""What a request can be refused for: a status, a stable code, a sentence, and the field that is at fault."""

from http import HTTPStatus

from sparing.errors import SparingError

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
