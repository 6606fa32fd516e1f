"""What a database must do for the store: a writer that is alone while it writes, and readers of what is committed."""

from collections.abc import Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class StoreError(Exception):
    """The database could not do it now: its disk is full, it is busy, or the connection was lost. Nothing was written."""


class LostError(BaseException):
    """Nobody can say whether what was written is on the disk: only a new start from it can."""


class Driver(Protocol):
    """Statements have $1, $2, … where values go, in the order of their first appearance."""

    kind: str

    async def connect(self, *, create: bool) -> None:
        """Open the database; make it if it is not there and may be made."""

    async def close(self) -> None:
        """Leave it."""

    async def begin(self) -> None:
        """Wait until nobody else writes; from now on nobody does."""

    async def commit(self) -> None:
        """Make all since `begin` durable. Raises StoreError if it was rolled back, LostError if nobody can say."""

    async def rollback(self) -> None:
        """Undo all since `begin`."""

    async def rows(self, statement: str, *values: Any) -> list[Row]:
        """Run a statement as the writer."""

    async def many(self, statement: str, values: Sequence[Row]) -> None:
        """Run a statement with each of these values, as the writer."""

    async def script(self, statements: str) -> None:
        """Run statements as the writer."""

    async def matching(self, statement: str, column: str, values: Sequence[Any], *others: Any) -> list[Row]:
        """As the writer, what a statement finds that ends in `where` and is continued by: this column has one of these values.

        `others` are the values of $1, $2, … in the statement itself.
        """

    async def read(self, statement: str, *values: Any) -> list[Row]:
        """What is committed."""

    async def size(self) -> int:
        """Bytes that the database takes."""
