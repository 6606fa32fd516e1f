"""Fitting an encoder to a table, in one walk over its rows, or two where there is a kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.engines import Engine, local
from sparing.errors import LogError, SettingError
from sparing.log.blocks import Cut
from sparing.log.features.compound import KINDS
from sparing.log.features.encoder import CONSTANT, Encoder
from sparing.log.features.indexes import indexes
from sparing.log.features.kernel import SAMPLE, Kernel, Nystroem
from sparing.log.features.kinds import Column
from sparing.log.labels import brief
from sparing.log.reservoir import Reservoir
from sparing.log.tables import TableSource
from sparing.log.walking import Statistic, walk
from sparing.settings import whole

if TYPE_CHECKING:
    from sparing.log.features.surveying import Survey

WISHES = ("auto", *KINDS)


@dataclass(frozen=True)
class Wish:
    """What a column is asked to become: a kind, with its settings, if any."""

    kind: str
    size: int | None = None
    keep: int | None = None


@dataclass(frozen=True)
class Features:
    """What raw columns are to become, before a log has taught it: `sparing.features(...)` makes one.

    `others` says what becomes of columns that are not named: nothing (None), or what their cells tell (`auto`).
    """

    wishes: tuple[tuple[str, Wish], ...] = ()
    others: str | None = None
    kernel: Nystroem | None = None
    constant: bool = True

    def columns(self, free: Sequence[str]) -> tuple[str, ...]:
        """The columns that it takes, of those that play no other role in a table."""
        named = [name for name, _ in self.wishes]
        return (*named, *(name for name in free if name not in named)) if self.others else tuple(named)

    def fit(self, source: TableSource, columns: Sequence[str], engine: Engine | None = None) -> Encoder:
        """The encoder of these columns, fitted to all rows."""
        engine = engine or local(1)
        surveys = Surveys(self, tuple(columns))
        cut = None if source.rows is None else Cut.of_table(source.rows, len(columns))
        found = walk(source, columns, surveys, as_it_is, cut=cut, engine=engine)
        return self.fitted(source, found, engine)

    def fitted(self, source: TableSource, surveys: Sequence["Survey"], engine: Engine) -> Encoder:
        """The encoder of columns of which all rows are surveyed."""
        named = dict(self.wishes)
        free = [survey.column for survey in surveys if survey.column not in named]
        index = indexes(source.schema, free)
        fitted = [(survey.column, index.get(survey.column) or survey.fitted()) for survey in surveys]
        kept = tuple(found for _, found in fitted if isinstance(found, Column))
        left_out = tuple((name, found) for name, found in fitted if isinstance(found, str))
        if not kept and not self.constant:
            raise LogError(f"no column of {source.name} carries anything: {dict(left_out)}")
        encoder = Encoder(kept, self.constant, None, left_out)
        _check_names(encoder)
        return (
            encoder
            if self.kernel is None
            else with_kernel(encoder, _sample(source, encoder, engine), self.kernel)
        )


@dataclass(frozen=True)
class Surveys(Statistic[Any, "list[Survey]"]):
    """A statistic: what the cells of some columns are like, column by column."""

    plan: Features
    columns: tuple[str, ...]

    def zero(self) -> "list[Survey]":
        """No rows."""
        from sparing.log.features.surveying import Survey  # PyArrow: a log in memory does without

        wishes = dict(self.plan.wishes)
        return [Survey(name, wishes.get(name, Wish("auto"))) for name in self.columns]

    def update(self, state: "list[Survey]", block: Any, first_row: int) -> "list[Survey]":
        """One more batch."""
        for survey in state:
            survey.add(block.column(survey.column), first_row=first_row)
        return state

    def merge(self, one: "list[Survey]", other: "list[Survey]") -> "list[Survey]":
        """Column by column."""
        return [a.merged(b) for a, b in zip(one, other, strict=True)]


@dataclass(frozen=True)
class _Sampled(Statistic[np.ndarray, Reservoir]):
    """A statistic: contexts with the smallest keys, as an encoder makes them."""

    size: int

    def zero(self) -> Reservoir:
        return Reservoir(self.size, SAMPLE)

    def update(self, state: Reservoir, block: np.ndarray, first_row: int) -> Reservoir:
        state.offer(first_row, len(block), block.__getitem__)
        return state

    def merge(self, one: Reservoir, other: Reservoir) -> Reservoir:
        return one.merged(other)


def as_it_is(batch: Any, first_row: int) -> Any:
    """A batch of a table as the block of a walk."""
    return batch


def with_kernel(encoder: Encoder, contexts: np.ndarray, wish: Nystroem) -> Encoder:
    """The encoder with kernel features fitted to contexts (n, d) that it made."""
    linear = contexts[:, encoder.linear]
    return replace(encoder, kernel=Kernel.fit(linear, wish.landmarks))


def _sample(source: TableSource, encoder: Encoder, engine: Engine) -> np.ndarray:
    """Some rows as the encoder makes them, (n, d): a random part, whatever the batches."""
    columns = [column.column for column in encoder.columns]
    cut = None if source.rows is None else Cut.of_table(source.rows, encoder.size)
    found: Reservoir = walk(
        source, columns, _Sampled(encoder.size), _Encoding(encoder), cut=cut, engine=engine
    )
    return found.contexts


@dataclass(frozen=True)
class _Encoding:
    """Makes contexts (n, d) of a batch."""

    encoder: Encoder

    def __call__(self, batch: Any, first_row: int) -> np.ndarray:
        return self.encoder.encode_batch(batch, first_row=first_row)


def _check_names(encoder: Encoder) -> None:
    """Refuse columns whose coordinates would have one name."""
    if len(set(encoder.names)) == len(encoder.names):
        return
    seen: dict[str, str] = {CONSTANT: "the constant"}
    for column in encoder.columns:
        for name in column.names:
            if name in seen:
                raise LogError(
                    f"the columns {brief(seen[name])} and {brief(column.column)} would both make a feature "
                    f"{brief(name)}. Rename one of them"
                )
            seen[name] = column.column


def wished(
    others: str | Mapping[str, Any] | None = None,
    /,
    *,
    kernel: Nystroem | int | None = None,
    constant: bool = True,
    **columns: Any,
) -> Features:
    """`sparing.features(...)`: see there."""
    named: dict[str, Any] = dict(columns)
    if isinstance(others, Mapping):
        named, others = {**others, **columns}, None
    if others not in (None, "auto"):
        raise SettingError(f"features({others!r}); the first argument is 'auto', or a mapping of columns")
    if not named and others is None:
        raise SettingError("features() names no column; name some, or say features('auto')")
    if isinstance(kernel, int):
        kernel = Nystroem(kernel)
    if not isinstance(kernel, Nystroem | None):
        raise SettingError(f"kernel={kernel!r}; must be nystroem(128) or so, or a number of landmarks")
    if not isinstance(constant, bool):
        raise SettingError(f"constant={constant!r}; must be true or false")
    return Features(
        tuple((name, _wish(name, kind)) for name, kind in named.items()), others, kernel, constant
    )


def _wish(name: str, kind: Any) -> Wish:
    if isinstance(kind, Mapping):
        kind = Wish(**{key: value for key, value in kind.items() if key in ("kind", "size", "keep")})
    wish = kind if isinstance(kind, Wish) else Wish(kind)
    if wish.kind not in WISHES:
        raise SettingError(
            f"{name}={wish.kind!r}; must be one of {', '.join(WISHES)}, or vector(size, keep=...)"
        )
    return wish


def vector(size: int, *, keep: int | None = None) -> Wish:
    """A column of lists of `size` numbers, of which `keep` principal components are kept (24)."""
    whole("size", size, least=1)
    if keep is not None:
        whole("keep", keep, least=1)
    return Wish("vector", size, keep)


def hashed(size: int = 64) -> Wish:
    """A column of very many values, each at one of `size` places by its checksum."""
    whole("size", size, least=1)
    return Wish("hashed", size)
