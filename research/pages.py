"""What is measured goes into the pages between two markers."""

from sparing.errors import FileError


def put_between(page: str, begin: str, end: str, text: str) -> str:
    """A page's text with what stands between its markers replaced."""
    if page.count(begin) != 1 or end not in page.partition(begin)[2]:
        raise FileError(f"the page needs the lines {begin}, once, and {end} after it")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{rest.partition(end)[2]}"
