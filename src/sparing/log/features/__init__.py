"""What a context is: raw columns of any kind → numbers, fitted on a log, kept as JSON, matched by name."""

from collections.abc import Mapping
from typing import Any

from sparing.log.features.encoder import Encoder as Encoder
from sparing.log.features.fitting import Features as Features
from sparing.log.features.fitting import hashed as hashed
from sparing.log.features.fitting import parse_specs
from sparing.log.features.fitting import vector as vector
from sparing.log.features.kernel import Nystroem
from sparing.log.features.kernel import nystroem as nystroem


class _Make:
    """`features(age="number", country="category", …)`: what raw columns are to become."""

    def __call__(
        self,
        others: str | Mapping[str, Any] | None = None,
        /,
        *,
        kernel: Nystroem | int | None = None,
        constant: bool = True,
        **columns: Any,
    ) -> Features:
        """Say what each column is: `number`, `category`, `bool`, `time`, `hashed`, `raw`, `auto`, or vector(size).

        `time-day-first` and `time-month-first` are times whose dates 03/04/2026 do not tell their order.

        Only the columns named are taken, unless the first argument is "auto"; names that are no Python words go
        into a mapping. `kernel` = nystroem(128) adds kernel features; `constant` is the intercept. Nothing is
        fitted yet: read_log(..., features=...) does that.
        """
        return parse_specs(others, kernel=kernel, constant=constant, **columns)

    def from_sklearn(self, transformer: Any, *, constant: bool = False) -> Encoder:
        """The encoder that does exactly what a fitted scikit-learn ColumnTransformer does."""
        from sparing.log.features.sklearn import translate

        return translate(transformer, constant=constant)


features = _Make()

__all__ = ["Encoder", "Features", "features", "hashed", "nystroem", "vector"]
