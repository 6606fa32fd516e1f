"""A fitted ColumnTransformer of scikit-learn as an encoder: what is known exactly is translated, the rest refused."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.log.features import cells
from sparing.log.features.columns import CategoryColumn, Column, NumberColumn, RawColumn
from sparing.log.features.encoder import Encoder


def _min_max(names: Sequence[str], fitted: Any) -> list[Column]:
    if fitted.clip:
        raise SettingError("MinMaxScaler(clip=True) cannot be translated; leave clip out")
    return _numbers(names, -fitted.min_ / fitted.scale_, 1 / fitted.scale_)


def _scaled(names: Sequence[str], fitted: Any) -> list[Column]:
    """StandardScaler, RobustScaler and MaxAbsScaler: a mean or a centre, and a scale, each None where it is left out."""
    center = getattr(fitted, "mean_", getattr(fitted, "center_", None))
    return _numbers(
        names,
        np.zeros(len(names)) if center is None else center,
        np.ones(len(names)) if fitted.scale_ is None else fitted.scale_,
    )


def _numbers(names: Sequence[str], mean: np.ndarray, scale: np.ndarray) -> list[Column]:
    pairs = zip(names, np.asarray(mean).tolist(), np.asarray(scale).tolist(), strict=True)
    return [NumberColumn(name, False, float(middle), float(size)) for name, middle, size in pairs]


def _one_hot(names: Sequence[str], fitted: Any) -> list[Column]:
    if fitted.drop is not None or getattr(fitted, "_infrequent_enabled", False):
        raise SettingError("OneHotEncoder with drop, min_frequency or max_categories cannot be translated")
    if fitted.handle_unknown != "ignore":
        raise SettingError(
            f"OneHotEncoder(handle_unknown={fitted.handle_unknown!r}) cannot be translated; use 'ignore'"
        )
    words = [tuple(cells.as_word(value) for value in values.tolist()) for values in fitted.categories_]
    return [CategoryColumn(name, False, values) for name, values in zip(names, words, strict=True)]


KNOWN: dict[str, Callable[[Sequence[str], Any], list[Column]]] = {
    "StandardScaler": _scaled,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _scaled,
    "RobustScaler": _scaled,
    "OneHotEncoder": _one_hot,
}


def translate(transformer: Any, *, constant: bool) -> Encoder:
    """The encoder of a ColumnTransformer that was fitted on a frame, coordinate for coordinate."""
    if type(transformer).__name__ != "ColumnTransformer" or not hasattr(transformer, "transformers_"):
        raise SettingError(f"got a {type(transformer).__name__}; expected a fitted ColumnTransformer")
    seen = list(getattr(transformer, "feature_names_in_", ()))
    columns: list[Column] = []
    for name, fitted, chosen in transformer.transformers_:
        if isinstance(fitted, str) and fitted == "drop":
            continue
        kind = fitted if isinstance(fitted, str) else type(fitted).__name__
        places = np.atleast_1d(chosen).tolist()
        names = [each if isinstance(each, str) else _named(seen, each) for each in places]
        if kind in ("passthrough", "FunctionTransformer") and getattr(fitted, "func", None) is None:
            columns += [RawColumn(each, gap=False) for each in names]
        elif kind in KNOWN:
            columns += KNOWN[kind](names, fitted)
        else:
            raise SettingError(
                f"{name!r} is a {kind}, which is not translated; known are {', '.join(KNOWN)} and 'passthrough'"
            )
    return Encoder(tuple(columns), constant)


def _named(names: list[Any], place: Any) -> str:
    if not names or not isinstance(place, int) or not all(isinstance(name, str) for name in names):
        raise SettingError("the ColumnTransformer was fitted without column names; fit it on a frame")
    return str(names[place])
