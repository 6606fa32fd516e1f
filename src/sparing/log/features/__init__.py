"""Features of contexts: raw columns become numbers by an encoder that is fitted to a log and saved as JSON."""

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
    """`features(age="number", country="category", …)` declares what raw columns become."""

    def __call__(
        self,
        others: str | Mapping[str, Any] | None = None,
        /,
        *,
        kernel: Nystroem | int | None = None,
        constant: bool = True,
        **columns: Any,
    ) -> Features:
        """Declare the kind of each column; `read_log(..., features=...)` fits the encoder.

        Parameters
        ----------
        others : "auto" or mapping, optional
            `auto` also takes the columns that are not named. A mapping names columns that are no Python words.
        kernel : Nystroem or int, optional
            Kernel features to add, such as `nystroem(128)`.
        constant : bool
            Whether to add a feature that is always 1 (the intercept).
        **columns
            A kind for each column: `number`, `category`, `bool`, `time`, `hashed`, `raw`, `auto` or `vector(size)`.
            `time-day-first` and `time-month-first` read dates such as 03/04/2026.

        Returns
        -------
        Features

        Examples
        --------
        >>> import sparing
        >>> sparing.features(age="number", country="category").columns([])
        ('age', 'country')
        """
        return parse_specs(others, kernel=kernel, constant=constant, **columns)

    def from_sklearn(self, transformer: Any, *, constant: bool = False) -> Encoder:
        """Return the encoder that equals a fitted scikit-learn ColumnTransformer.

        Parameters
        ----------
        transformer : sklearn.compose.ColumnTransformer
            A fitted transformer.
        constant : bool
            Whether to add a feature that is always 1.

        Returns
        -------
        Encoder
        """
        from sparing.log.features.sklearn import translate

        return translate(transformer, constant=constant)


features = _Make()

__all__ = ["Encoder", "Features", "features", "hashed", "nystroem", "vector"]
