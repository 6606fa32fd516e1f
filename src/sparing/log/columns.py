"""The roles of a table's columns in a log: one list for the library, the commands and streams.

The commands' help is generated from it, so nothing heavy is imported here.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

F = TypeVar("F", bound=Callable[..., object])


class ColumnKeywords(TypedDict, total=False):
    """The keywords of functions that read a table: the fields of `ColumnRoles`."""

    contexts: str | Sequence[str] | None
    action: str
    reward: str
    propensity: str | None
    distribution: str | None
    eligible: str | None
    context_id: str | None
    drop: str | Sequence[str] | None
    costs: str | Mapping[Any, float] | None


def _role(default: str | None, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """The column of each role; a default name that the table does not have is left out.

    `contexts` are scalar columns or one list column; `distribution` and `costs` are the prefix of one column per action; `drop`
    are columns that have no role. `costs` may also be the cost of each action in every row, by label.
    """

    contexts: str | Sequence[str] | None = _role(None, "Context columns, with commas; default: x_0, x_1, …")
    action: str = _role("action", "The action column.")
    reward: str = _role("reward", "The reward column.")
    propensity: str | None = _role("propensity", "The column of the logged action's probability.")
    distribution: str | None = _role("p_", "Prefix of the probability columns.")
    eligible: str | None = _role("eligible", "The column of eligible sets.")
    context_id: str | None = _role("context_id", "The column of context ids.")
    drop: str | Sequence[str] | None = _role(None, "Columns to leave out, with commas.")
    costs: str | Mapping[Any, float] | None = _role(
        None, "Known costs, as ACTION=COST with commas, or the prefix of one cost column per action."
    )


def keywords_of(source: Callable[..., object]) -> Callable[[F], F]:
    """Replace `**keywords` in a function's signature, and so in its help, by the keywords of `source`."""

    def with_signature(function: F) -> F:
        signature = inspect.signature(function)
        first, *own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        given = inspect.signature(source).parameters.values()
        theirs = [each for each in given if each.kind is each.KEYWORD_ONLY]
        function.__signature__ = signature.replace(parameters=[first, *theirs, *own])  # type: ignore[attr-defined]
        return function

    return with_signature
