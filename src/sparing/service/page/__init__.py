"""The page: files that a browser gets as they are, and the headers that keep it from loading anything else."""

from pathlib import Path

# A path of the service → the file and its content type.
FILES: dict[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
} | {
    f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
    for name in ("page", "access", "charts", "actions", "explanation", "panels", "text")
}

# What every file is sent with.
HEADERS: dict[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def read(path: str) -> tuple[bytes, str]:
    """The content of the file at a path of `FILES`, and its content type."""
    name, content_type = FILES[path]
    return (Path(__file__).parent / name).read_bytes(), content_type
