"""What is measured goes into the pages between two markers."""

from sparing.errors import FileError

MARK = "<!--"
"""How markers begin: what is measured has none of its own."""


def put_between(page: str, begin: str, end: str, text: str) -> str:
    """A page's text with what stands between its markers replaced."""
    before, _, rest = page.partition(begin)
    old, ended, after = rest.partition(end)
    if page.count(begin) != 1 or not ended or MARK in old:
        raise FileError(f"the page needs the lines {begin}, once, and {end} after it, before any other mark")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"
