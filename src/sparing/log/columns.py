"""The roles that a table's columns play in a log: the one list of them, for the library, the commands and streams.

Nothing heavy is imported here: the commands' help is made from it.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict, TypeVar

F = TypeVar("F", bound=Callable[..., object])


class ColumnKeywords(TypedDict, total=False):
    """The keywords of whatever reads a table: those of `Columns`."""

    contexts: str | Sequence[str] | None
    action: str
    reward: str
    propensity: str | None
    distribution: str | None
    eligible: str | None
    context_id: str | None


def _role(default: str | None, said: str) -> Any:
    return field(default=default, metadata={"help": said})


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """Which columns play which role, as the caller says; a default name that is not there is left out.

    `contexts` are scalar columns or one list column, `distribution` is the prefix of one column an action.
    """

    contexts: str | Sequence[str] | None = _role(None, "Context columns, with commas; default: x_0, x_1, …")
    action: str = _role("action", "The action column.")
    reward: str = _role("reward", "The reward column.")
    propensity: str | None = _role("propensity", "The column of the logged action's probability.")
    distribution: str | None = _role("p_", "Prefix of the probability columns.")
    eligible: str | None = _role("eligible", "The column of eligible sets.")
    context_id: str | None = _role("context_id", "The column that says which context a row is.")


def keywords_of(source: Callable[..., object]) -> Callable[[F], F]:
    """Show, in a function's signature and so in its help, another's keywords where it has `**keywords`."""

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        first, *own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        theirs = [
            each for each in inspect.signature(source).parameters.values() if each.kind is each.KEYWORD_ONLY
        ]
        function.__signature__ = signature.replace(parameters=[first, *theirs, *own])  # type: ignore[attr-defined]
        return function

    return shown


def roles_of(names: ColumnKeywords) -> ColumnRoles:
    """The roles from a function's keywords; a keyword that is none of them is refused."""
    roles = [role.name for role in fields(ColumnRoles)]
    if unknown := sorted(set(names) - set(roles)):
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; columns are named by {', '.join(roles)}"
        )
    return ColumnRoles(**names)
