"""What columns are declared to become: `sparing.text`, `sparing.vector`, `sparing.hashed`, and kinds by name."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sparing.errors import SettingError
from sparing.log.features import texts
from sparing.log.features.encoder import KINDS
from sparing.validation import integer

KIND_NAMES = ("auto", *KINDS)


@dataclass(frozen=True)
class ColumnSpec:
    """The kind that a column becomes, with its settings."""

    kind: str
    size: int | None = None
    keep: int | None = None
    ngrams: int | None = None


def parse_spec(name: str, kind: Any) -> ColumnSpec:
    if isinstance(kind, Mapping):
        kind = ColumnSpec(**{key: value for key, value in kind.items() if key in SETTINGS})
    spec = kind if isinstance(kind, ColumnSpec) else ColumnSpec(kind)
    if spec.kind not in KIND_NAMES:
        raise SettingError(
            f"{name}={spec.kind!r}; must be one of {', '.join(KIND_NAMES)}, vector(size, keep=...) or text(keep=...)"
        )
    if spec.kind == "text":
        return text(keep=spec.keep, ngrams=spec.ngrams)
    return spec


SETTINGS = tuple(each.name for each in fields(ColumnSpec))


def text(*, keep: int | None = None, ngrams: int | None = None) -> ColumnSpec:
    """Declare a column of texts such as prompts, for `sparing.features`.

    Words, neighbouring words and characters of words are hashed, weighted by their rarity in the log and projected to the
    leading directions of the log's texts.

    Parameters
    ----------
    keep : int, optional
        Number of directions that become features, besides the length; 32 by default, at most 256.
    ngrams : int, optional
        Neighbouring words that are taken together, at most: 1, 2 or 3; 2 by default.

    Returns
    -------
    ColumnSpec

    Examples
    --------
    >>> import sparing
    >>> sparing.features(prompt=sparing.text(keep=16)).columns([])
    ('prompt',)
    """
    if keep is not None:
        integer("keep", keep, least=1, most=texts.MOST_DIRECTIONS)
    if ngrams is not None:
        integer("ngrams", ngrams, least=1, most=texts.MOST_NGRAMS)
    return ColumnSpec("text", None, keep, ngrams)


def vector(size: int, *, keep: int | None = None) -> ColumnSpec:
    """Declare a column of lists of numbers, for `sparing.features`.

    Parameters
    ----------
    size : int
        Length of the lists.
    keep : int, optional
        Number of principal components that become features; 24 by default.

    Returns
    -------
    ColumnSpec

    Examples
    --------
    >>> import sparing
    >>> sparing.features(embedding=sparing.vector(384, keep=16)).columns([])
    ('embedding',)
    """
    integer("size", size, least=1)
    if keep is not None:
        integer("keep", keep, least=1)
    return ColumnSpec("vector", size, keep)


def hashed(size: int = 64) -> ColumnSpec:
    """Declare a column of very many categories, for `sparing.features`.

    Parameters
    ----------
    size : int
        Number of one-hot features; a checksum of a value chooses one of them.

    Returns
    -------
    ColumnSpec

    Examples
    --------
    >>> import sparing
    >>> sparing.features(city=sparing.hashed(32)).columns([])
    ('city',)
    """
    integer("size", size, least=1)
    return ColumnSpec("hashed", size)
