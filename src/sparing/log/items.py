"""Features of the actions: a table with one row per item, matched to the log's actions by label."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.log import labels
from sparing.log.features import Encoder, Features
from sparing.log.labels import shorten


@dataclass(frozen=True, eq=False)
class Items:
    """Features (K, q) of the actions, in the log's order, and their encoder."""

    encoder: Encoder
    features: np.ndarray

    def header(self) -> dict[str, Any]:
        return {"encoder": self.encoder.header(), "features": self.features.tolist()}

    @classmethod
    def from_header(cls, saved: Any, n_actions: int) -> "Items":
        """The items from JSON; a ValueError if they do not fit the number of actions."""
        encoder = Encoder.from_header(saved["encoder"])
        features = np.array(saved["features"], dtype=np.float64)
        if features.shape != (n_actions, encoder.size) or not np.isfinite(features).all():
            raise ValueError(f"item features of shape {features.shape} for {n_actions} actions")
        return cls(encoder, features)


class ItemTable:
    """A table of items; `column` holds their labels."""

    def __init__(
        self,
        source: Any,
        column: str,
        wanted: Features | Encoder | str | None,
        *,
        decimal: str | None = None,
        dates: str | None = None,
    ) -> None:
        from sparing.log.tables import open_table
        from sparing.log.text_files import Dialect

        self.source, self.column = open_table(source, Dialect(decimal=decimal, dates=dates)), column
        names = self.source.schema.names
        if column not in names:
            near = labels.suggest(column, names)
            guess = "" if near is None else f"Did you mean {shorten(near)}? "
            raise LogError(
                f"the items in {self.source.name} have no column {shorten(column)} with the action labels; "
                f"there are {', '.join(map(shorten, names[:12]))}. {guess}Name it as the log's action column is named"
            )
        if not isinstance(wanted, Features | Encoder | None) and wanted != "auto":
            raise SettingError(
                f"item_features={wanted!r}; must be 'auto', sparing.features(...) or an encoder"
            )
        self.wanted = wanted if isinstance(wanted, Features | Encoder) else Features(others="auto")
        batches = (batch for _, batch in self.source.blocks([column]))
        self.cells = [cell for batch in batches for cell in batch.column(0).to_pylist()]

    def labels(self, known: Sequence[Hashable]) -> list[Hashable]:
        """Each row's label, converted to the log's label if `known` has one with the same text."""
        by_text = {labels.label_text(name): name for name in known}
        found: list[Hashable] = []
        for row, cell in enumerate(self.cells):
            if labels.missing(cell) or cell == "":
                raise LogError(
                    f"{shorten(self.column)} at row {row} of the items is missing; name the item, or drop the row"
                )
            plain = labels.normalize_label(cell)
            found.append(by_text.get(labels.label_text(plain), plain))
        if self.source.text and all(isinstance(name, int) for name in known):
            there = set(known)
            found = [each if each in there else labels.whole_numbers([str(each)])[0] for each in found]
        twice = labels.first_repeated(found)
        if twice is not None:
            raise LogError(f"the item {shorten(twice)} is in two rows of the items; keep one of them")
        return found

    def actions(self, known: Sequence[Hashable]) -> list[Hashable]:
        """The known actions, then those that only the items name."""
        there = set(known)
        return [*known, *labels.in_order(label for label in self.labels(known) if label not in there)]

    def items(self, names: Sequence[Hashable]) -> Items:
        """The features of these actions; an error if one has no row."""
        place = {label: row for row, label in enumerate(self.labels(names))}
        absent = [name for name in names if name not in place]
        if absent:
            shown = ", ".join(shorten(name) for name in absent[:8]) + (", …" if len(absent) > 8 else "")
            raise LogError(
                f"{len(absent)} of {len(names)} actions have no row in {self.source.name}: {shown}. Add them, or leave "
                "items out"
            )
        encoder = self.wanted
        if isinstance(encoder, Features):
            free = [name for name in self.source.schema.names if name != self.column]
            plan = replace(encoder, constant=False)
            # New items may be beyond all others.
            encoder = plan.fit(self.source, plan.columns(free)).without_limits()
        columns = [column.column for column in encoder.columns]
        parts = [encoder.encode_batch(batch, first_row=row) for row, batch in self.source.blocks(columns)]
        rows = np.concatenate(parts)[[place[name] for name in names]]
        rows.setflags(write=False)
        return Items(encoder, rows)
