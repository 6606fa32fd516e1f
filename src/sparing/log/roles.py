"""Which columns of a table play which role in a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparing.errors import LogError
from sparing.log.parsing import DIGITS, brief, first_repeated
from sparing.log.table import Source

ESTIMATED = "estimated_"
"""What a support column's name begins with where its support was estimated."""


@dataclass(frozen=True)
class Columns:
    """The columns that play each role; `contexts` are scalar columns or one list column."""

    contexts: tuple[str, ...]
    action: str
    reward: str
    propensity: str | None
    distribution: tuple[str, ...]
    eligible: str | None
    context_id: str | None
    prefix: str = "p_"
    estimated: bool = False
    all: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        named = (self.action, self.reward, self.propensity, self.eligible, self.context_id)
        scalar = tuple(name for name in named if name is not None)
        object.__setattr__(self, "all", tuple(dict.fromkeys((*self.contexts, *scalar, *self.distribution))))


def find_columns(
    source: Source,
    *,
    contexts: str | Sequence[str] | None,
    action: str,
    reward: str,
    propensity: str | None,
    distribution: str | None,
    eligible: str | None,
    context_id: str | None,
) -> Columns:
    """Match the roles to the columns that are there; a default name that is not there is left out."""
    names = source.schema.names
    if len(set(names)) < len(names):
        raise LogError(
            f"{source.name} has two columns {brief(first_repeated(names))}; {_has(names)}. Rename one of them"
        )
    for role, name in (("action", action), ("reward", reward)):
        if name not in names:
            raise LogError(
                f"{source.name} has no {role} column {brief(name)}; {_has(names)}. Pass {role}=NAME"
            )
    given = {"action": action, "reward": reward, "propensity": propensity}
    given |= {"eligible": eligible, "context_id": context_id}
    _check_written(source, given, contexts=contexts is None, distribution=distribution == "p_")
    others = set(given.values())
    features = _context_columns(source, contexts, others)
    prefix, table, sets = _support_columns(source, distribution, eligible, others.union(features))
    return Columns(
        contexts=features,
        action=action,
        reward=reward,
        propensity=_optional(source, "propensity", propensity, default="propensity"),
        distribution=table,
        eligible=sets,
        context_id=_optional(source, "context id", context_id, default="context_id"),
        prefix=prefix,
        estimated=(sets or prefix).startswith(ESTIMATED),
    )


def _check_written(
    source: Source, given: Mapping[str, str | None], *, contexts: bool, distribution: bool
) -> None:
    """Refuse a file that has lost a column which its notes list and which would be read by its default name."""
    there, features = set(source.schema.names), source.notes.get("features", {})
    for name in source.notes.get("columns", ()):
        plain = name.removeprefix(ESTIMATED)
        by_name = distribution if plain.startswith("p_") else given.get(plain) == plain
        if name not in there and (contexts if name in features else by_name):
            raise LogError(
                f"{source.name} has no column {brief(name)}, which its notes list; it is damaged, or the column was "
                "dropped. Write it again, or say what to read: contexts=[...], or None for another column's role"
            )


def _optional(source: Source, role: str, name: str | None, *, default: str) -> str | None:
    names = source.schema.names
    if name is None or name in names:
        return name
    if name == default:
        return None
    raise LogError(f"{source.name} has no {role} column {brief(name)}; {_has(names)}")


def _support_columns(
    source: Source, distribution: str | None, eligible: str | None, others: set[str | None]
) -> tuple[str, tuple[str, ...], str | None]:
    """The probability columns and their prefix, or the column of sets.

    What the caller named goes before what stands there by default, exact before estimated, and a full
    distribution before a set.
    """
    names = source.schema.names
    choices: list[tuple[str, tuple[str, ...], str | None]] = []
    for marker in ("", ESTIMATED):
        prefix = f"{marker}{distribution}"
        table = tuple(name for name in names if name.startswith(prefix) and name not in others)
        if distribution is not None and table:
            choices.append((prefix, table, None))
        if eligible is not None and f"{marker}{eligible}" in names:
            choices.append(("", (), f"{marker}{eligible}"))
    if distribution not in (None, "p_") and not any(table for _, table, _ in choices):
        raise LogError(f"{source.name} has no columns that begin with {distribution!r}; {_has(names)}")
    if eligible not in (None, "eligible"):
        if not any(sets for _, _, sets in choices):
            raise LogError(f"{source.name} has no eligible column {eligible!r}; {_has(names)}")
        if distribution == "p_":
            choices = [choice for choice in choices if choice[2]]
    return choices[0] if choices else ("", (), None)


def _context_columns(
    source: Source, contexts: str | Sequence[str] | None, others: set[str | None]
) -> tuple[str, ...]:
    names = source.schema.names
    if contexts is not None:
        chosen = (contexts,) if isinstance(contexts, str) else tuple(contexts)
        missing = [name for name in chosen if name not in names]
        if missing or not chosen:
            raise LogError(f"{source.name} has no context column {missing or chosen!r}; {_has(names)}")
        return chosen
    written = source.notes.get("features", {})
    if written:
        return tuple(written)
    features = [name for name in names if name.startswith("x_") and name not in others]
    if features and all(DIGITS.fullmatch(name[2:]) for name in features):
        features.sort(key=lambda name: int(name[2:]))
    if features:
        return tuple(features)
    for name in ("x", "context", "contexts"):
        if name in names:
            return (name,)
    raise LogError(
        f"{source.name} has no context columns x_0, x_1, … nor a list column `context`; {_has(names)}. "
        "Pass contexts=[...] with the names of the feature columns"
    )


def _has(names: Sequence[str]) -> str:
    shown = ", ".join(brief(name) for name in names[:12])
    return f"it has {shown}{', …' if len(names) > 12 else ''}"
