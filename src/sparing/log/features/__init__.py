"""Features of contexts: raw columns become numbers by an encoder that is fitted to a log and saved as JSON."""

from collections.abc import Mapping
from typing import Any

from sparing.errors import SettingError
from sparing.log.features.encoder import Encoder as Encoder
from sparing.log.features.fitting import Features as Features
from sparing.log.features.kernel import Nystroem
from sparing.log.features.kernel import nystroem as nystroem
from sparing.log.features.specs import hashed as hashed
from sparing.log.features.specs import parse_spec
from sparing.log.features.specs import text as text
from sparing.log.features.specs import vector as vector


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
            A kind for each column: `number`, `category`, `bool`, `time`, `hashed`, `raw`, `text`, `auto` or `vector(size)`.
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
        named: dict[str, Any] = dict(columns)
        if isinstance(others, Mapping):
            named, others = {**others, **columns}, None
        if others not in (None, "auto"):
            raise SettingError(
                f"features({others!r}); the first argument must be 'auto' or a mapping of columns"
            )
        if not named and others is None:
            raise SettingError("features() names no column. Name some, or use features('auto')")
        if isinstance(kernel, int):
            kernel = Nystroem(kernel)
        if not isinstance(kernel, Nystroem | None):
            raise SettingError(
                f"kernel={kernel!r}; must be nystroem(LANDMARKS) or a number of landmarks, such as 128"
            )
        if not isinstance(constant, bool):
            raise SettingError(f"constant={constant!r}; must be true or false")
        return Features(
            tuple((name, parse_spec(name, kind)) for name, kind in named.items()), others, kernel, constant
        )

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

__all__ = ["Encoder", "Features", "features", "hashed", "nystroem", "text", "vector"]
