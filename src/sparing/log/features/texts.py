"""Columns of text: hashed words and characters, weighted by rarity and projected to a few directions of the log.

A text becomes grams: words, neighbouring words, and three or four neighbouring characters of a word. Grams that texts of
the log share have a weight (inverse document frequency) and a row of `axes`, the leading directions of the log's texts.
"""

import base64
import functools
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparing.errors import SettingError
from sparing.log.features import cells
from sparing.log.features.columns import MARGIN, Column

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CHARACTERS = 32_768
"""Characters of a text that count, so that no text takes longer than some milliseconds."""

DIRECTIONS = 32
MOST_DIRECTIONS = 256
NGRAMS = 2
MOST_NGRAMS = 3

MOST_GRAMS = 4096
"""Grams of words that a column keeps, and as many of characters: those in most texts."""

SHARED = 100  # texts from which on a gram must be in two of them
DAMPED = np.array([0.0, *(1 + math.log(count) for count in range(1, 1024))])
"""The weight of a gram that occurs so often in a text."""

EXTRA, POWERS = 16, 4
"""More directions than are kept, and iterations, of the randomised singular value decomposition."""

BLOCK = 1024  # texts that are encoded at a time

SINGLES = ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))
"""Kana and Han characters, which are words of one character; other Han characters are those of the planes 2 and 3."""

SINGLE = re.compile(f"[{''.join(f'{chr(low)}-{chr(high)}' for low, high in SINGLES)}]")


@functools.cache
def character_classes() -> np.ndarray:
    """The class of every code point (0x110000,): letters, digits, marks and connectors make words, the rest are symbols or spaces."""
    from sparing.log.features import grams

    classes = np.full(0x110000, grams.SYMBOL, dtype=np.uint8)
    by_category = {**dict.fromkeys("LNM", grams.WORD), "Z": grams.SPACE}
    for start, stop in ((0, 0x20000), (0xE0000, 0xE0200)):
        for point in range(start, stop):
            category = unicodedata.category(chr(point))
            of = grams.WORD if category == "Pc" else by_category.get(category[0], grams.SYMBOL)
            classes[point] = grams.SPACE if category in ("Cc", "Cf") else of
    for start, stop in (*SINGLES, (0x20000, 0x3FFFF)):
        part = classes[start : stop + 1]
        part[(part == grams.WORD) | (start >= 0x20000)] = grams.SINGLE
    classes.setflags(write=False)
    return classes


def normalized(text: str) -> str:
    """The text that is hashed: its first `MOST_CHARACTERS`, in Unicode's form NFKC, without the difference of cases."""
    text = text[:MOST_CHARACTERS]
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def code_points(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The code points of normalised texts one after the other, and the end of each (n,)."""
    whole = "".join(texts).encode("utf-32-le", "surrogatepass")
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    return np.frombuffer(whole, dtype=np.uint32), ends


def count_words(text: str) -> int:
    """The number of words between spaces, at least that of Kana and Han characters."""
    return max(len(text.split()), 0 if text.isascii() else len(SINGLE.findall(text)))


class _Fitted(NamedTuple):
    """Arrays for the kernel: the row of each gram, −1 for none; idf (m,); axes (m, keep)."""

    slots: np.ndarray
    idf: np.ndarray
    axes: np.ndarray


@dataclass(frozen=True)
class TextColumn(Column):
    """Projections of a text's hashed grams to `keep` directions of the log's texts, and its length, standardised.

    places (m,), idf (m,) and axes (m, keep), over the deviation of the first, are base64 of little-endian uint32, float32 and float16:
    that is all there is, so that a loaded column gives the same bits. `mean` (keep,) is subtracted. `share` is the variance
    of the texts that the directions have.
    """

    kind = "text"
    wants = "a text"
    ngrams: int = NGRAMS
    keep: int = 0
    places: str = ""
    idf: str = ""
    axes: str = ""
    mean: tuple[float, ...] = ()
    share: float = 0.0
    length_mean: float = 0.0
    length_scale: float = 1.0
    length_low: float = 0.0
    length_high: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))
        places, idf, axes = self._decoded
        if (
            not 1 <= self.ngrams <= MOST_NGRAMS
            or not 0 <= self.keep <= MOST_DIRECTIONS
            or len(self.mean) != self.keep
            or len(idf) != len(places)
            or axes.size != len(places) * self.keep
            or not (np.diff(places.astype(np.int64)) > 0).all()
            or not (np.isfinite(idf).all() and np.isfinite(axes).all())
            or not self.length_scale > 0
        ):
            raise ValueError(f"a text of {len(places)} grams in {self.keep} directions")

    @property
    def _decoded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = ((self.places, "<u4"), (self.idf, "<f4"), (self.axes, "<f2"))
        places, idf, axes = (
            np.frombuffer(base64.b64decode(part, validate=True), kind) for part, kind in parts
        )
        return places, idf, axes

    @cached_property
    def _fitted(self) -> _Fitted:
        from sparing.log.features.grams import PLACES

        places, idf, axes = self._decoded
        slots = np.full(PLACES, -1, dtype=np.int32)
        slots[places] = np.arange(len(places))
        return _Fitted(slots, idf.astype(np.float64), axes.reshape(-1, self.keep).astype(np.float32))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed on demand."""
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    @property
    def parts(self) -> tuple[str, ...]:
        directions = (f"{self.column} direction {i + 1}" for i in range(self.keep))
        return (*directions, f"{self.column} length")

    def unseen(self, value: Any) -> bool:
        """Whether a text has no word that texts of the log share, such as one in another language."""
        if not self.keep or self.is_missing(value):
            return False
        from sparing.log.features import grams

        points, _ = code_points([normalized(cells.as_word(value))])
        return not grams.shares_word(points, character_classes(), self._fitted.slots)

    def fill(self, column: "pa.Array", out: np.ndarray, *, first_row: int) -> None:
        width = len(self.parts)
        for start in range(0, len(column), BLOCK):
            values = column.slice(start, BLOCK).to_pylist()
            there = np.array([not self.is_missing(value) for value in values], dtype=np.bool_)
            rows = np.flatnonzero(there)
            texts = [self._text(values[row], first_row + start + row) for row in rows.tolist()]
            part = out[start : start + BLOCK]
            if texts:
                part[rows, :width] = self._coordinates(texts)
            self._fill_gap(there, part)

    def _text(self, value: Any, row: int) -> str:
        try:
            return cells.as_word(value)
        except ValueError:
            raise self.unfit_row(value, row) from None

    def write(self, value: Any, place: int, out: "memoryview[float]") -> None:
        found = self._coordinates([cells.as_word(value)])[0]
        out[place : place + len(found)] = memoryview(found)

    def _coordinates(self, texts: Sequence[str]) -> np.ndarray:
        """The coordinates (n, keep + 1) of texts."""
        out = np.empty((len(texts), self.keep + 1))
        out[:, : self.keep] = self._projected([normalized(text) for text in texts])
        lengths = np.array([_length(text) for text in texts])
        lengths = np.minimum(np.maximum(lengths, self.length_low), self.length_high)
        out[:, self.keep] = (lengths - self.length_mean) * (1 / self.length_scale)
        return out

    def _projected(self, texts: Sequence[str]) -> np.ndarray:
        """The projections (n, keep) of normalised texts."""
        from sparing.log.features import grams

        found, classes = np.zeros((len(texts), self.keep)), character_classes()
        grams.project_rows(*code_points(texts), classes, self.ngrams, *self._fitted, DAMPED, found)
        return found - np.array(self.mean)

    def contributions(self, value: Any, weights: np.ndarray) -> tuple[dict[str, float], float]:
        """Split weights·coordinates of a text into one part per word and a remainder; they sum to it up to rounding.

        The part of a gram goes to its words in equal shares: neighbouring words to each, characters to the word that they
        are from. Words are as they are hashed, in small letters; equal ones are added up. Symbols, and Kana and Han
        characters, are words too. The remainder is what the length, the means and a missing value contribute.

        Parameters
        ----------
        value : str or None
            The cell of the column.
        weights : array of shape (len(names),)
            A weight for each coordinate of the column, such as a part of θ.

        Returns
        -------
        words : dict of str to float
            The contribution of each word, in the order of the text.
        remainder : float
            The rest of the sum.

        Examples
        --------
        >>> import sparing
        >>> table = {"prompt": ["add two numbers", "write a poem"], "action": ["a", "b"], "reward": [0.0, 1.0]}
        >>> log = sparing.read_log(table, features=sparing.features(prompt="text"))
        >>> column = log.encoder.columns[0]
        >>> words, rest = column.contributions("write two poems", [1.0, 0.0])
        >>> x = log.encoder.encode({"prompt": "write two poems"})
        >>> list(words), abs(sum(words.values()) + rest - x[1]) < 1e-12
        (['write', 'two', 'poems'], True)
        """
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (len(self.names),):
            raise SettingError(
                f"weights of shape {weights.shape}; expected one for each coordinate, ({len(self.names)},)"
            )
        if self.is_missing(value):
            return {}, float(weights[-1]) if self.gap else 0.0
        try:
            text = cells.as_word(value)
        except ValueError:
            raise self._unfit(value) from None
        total = float(self._coordinates([text])[0] @ weights[: self.keep + 1])
        parts = self._word_parts(normalized(text), weights[: self.keep])
        return parts, total - math.fsum(parts.values())

    def _word_parts(self, text: str, weights: np.ndarray) -> dict[str, float]:
        from sparing.log.features import grams

        points, _ = code_points([text])
        most = grams.most_grams(len(text))
        found, words = np.empty((most, 2), np.int64), np.empty(most, np.int64)
        spans, classes = np.empty((len(text), 2), np.int64), character_classes()
        many, n_words = grams.grams_of(points, 0, len(text), classes, self.ngrams, found, words, spans)
        slots, idf, axes = self._fitted
        places, signs = found[:many, 0] >> 1, 1 - 2 * (found[:many, 0] & 1)
        slot = slots[places]
        known = slot >= 0
        counts = np.bincount(slot[known], signs[known], len(idf))
        hits = np.bincount(slot[known], minlength=len(idf))
        sizes = np.sign(counts) * DAMPED[np.minimum(np.abs(counts), len(DAMPED) - 1).astype(np.int64)] * idf
        characters = np.zeros(len(idf), dtype=np.bool_)
        characters[slot[known]] = places[known] >= 2**grams.BITS
        for group in (characters, ~characters):
            norm = np.sqrt((sizes[group] ** 2).sum())
            sizes[group] /= norm if norm > 0 else 1.0
        values = sizes * (axes @ weights) / np.maximum(hits, 1)
        parts = np.zeros(n_words)
        width, last, value = found[:many, 1][known], words[:many][known], values[slot[known]]
        for wide in np.unique(width).tolist():
            of = width == wide
            for back in range(wide):
                parts += np.bincount(last[of] - back, value[of] / wide, n_words)
        whole: dict[str, float] = {}
        for (first, stop), part in zip(spans[:n_words].tolist(), parts.tolist(), strict=True):
            whole[text[first:stop]] = whole.get(text[first:stop], 0.0) + part
        return whole

    def _words(self, part: int, low: float, high: float) -> str:
        def show(end: float) -> str:
            if part < self.keep:
                return f"{end:.3g}"
            return f"{math.expm1(end * self.length_scale + self.length_mean):,.0f} characters"

        return self._bounded(part, low, high, show)

    @property
    def summary(self) -> str:
        if not self.keep:
            return "text of which only the length is kept, because its words are not shared between rows"
        return f"text, {self.keep} directions of its words kept ({self.share:.0%} of their variance) and its length"


def warm_up() -> None:
    """Compile what columns of text need."""
    column = fit_text("text", ["one two", "three"], gap=False, keep=1, ngrams=NGRAMS)
    column.contributions("one", np.zeros(2))
    column.unseen("one")


def _length(text: str) -> float:
    return math.log1p(min(len(text), MOST_CHARACTERS))


def fit_text(column: str, texts: Sequence[str], *, gap: bool, keep: int, ngrams: int) -> TextColumn:
    """Fit a column to some texts of the log: grams in most texts, their rarity, and the leading directions."""
    from sparing.log.features import grams

    plain = [normalized(text) for text in texts]
    stops, places, counts = grams.count_rows(*code_points(plain), character_classes(), ngrams)
    chosen, frequency = _shared(places, len(texts))
    idf = (np.log((1 + len(texts)) / (1 + frequency)) + 1).astype("<f4")
    lengths = np.array([_length(text) for text in texts])
    margin = MARGIN * (lengths.max() - lengths.min())
    scale = float(lengths.std())
    settings: dict[str, Any] = {
        "ngrams": ngrams,
        "length_mean": float(lengths.mean()),
        "length_scale": scale if scale > 1e-9 else 1.0,
        "length_low": float(lengths.min() - margin),
        "length_high": float(lengths.max() + margin),
    }
    axes, share = _directions(stops, places, counts, chosen, idf, keep)
    kept = axes.shape[1]
    if not kept:
        return TextColumn(column, gap, **settings)
    settings |= {"keep": kept, "places": _encoded(chosen, "<u4"), "idf": _encoded(idf, "<f4"), "share": share}
    trial = TextColumn(column, gap, **settings, axes=_encoded(axes, "<f2"), mean=(0.0,) * kept)
    parts = (plain[start : start + BLOCK] for start in range(0, len(plain), BLOCK))
    mean = np.sum([trial._projected(part).sum(axis=0) for part in parts], axis=0) / len(plain)
    return replace(trial, mean=mean.tolist())


def _encoded(numbers: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode()


def _shared(places: np.ndarray, n_texts: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the grams that are kept, ascending, and the texts in which each is: the most common of words and of characters."""
    from sparing.log.features import grams

    frequency = np.bincount(places, minlength=grams.PLACES)
    chosen = []
    for start in (0, grams.PLACES // 2):
        part = frequency[start : start + grams.PLACES // 2]
        order = np.argsort(-part, kind="stable")[:MOST_GRAMS]
        order = order[part[order] >= (2 if n_texts >= SHARED else 1)]
        chosen.append(start + order)
    found = np.sort(np.concatenate(chosen))
    return found, frequency[found]


def _directions(
    stops: np.ndarray,
    places: np.ndarray,
    counts: np.ndarray,
    chosen: np.ndarray,
    idf: np.ndarray,
    keep: int,
) -> tuple[np.ndarray, float]:
    """The leading directions (m, keep) of the centred texts, over the deviation of the first, and their share of the variance.

    A randomised singular value decomposition with fixed random numbers; the largest weight of a direction is positive.
    """
    from scipy.sparse import csr_array

    from sparing.log.features import grams

    n, m = len(stops), len(chosen)
    slots = np.full(grams.PLACES, -1, dtype=np.int64)
    slots[chosen] = np.arange(m)
    rows = np.repeat(np.arange(n), np.diff(stops, prepend=0))
    known = (slots[places] >= 0) & (counts != 0)
    rows, slot, count = rows[known], slots[places[known]], counts[known]
    values = np.sign(count) * DAMPED[np.minimum(np.abs(count), len(DAMPED) - 1)] * idf[slot]
    group = 2 * rows + (places[known] >= grams.PLACES // 2)
    norms = np.sqrt(np.bincount(group, values * values, 2 * n))
    x = csr_array((values / norms[group], (rows, slot)), shape=(n, m))
    centre = np.asarray(x.sum(axis=0)).reshape(-1) / n
    variance = float((x.data**2).sum() - n * (centre**2).sum()) / n
    width = min(keep + EXTRA, n - 1, m)
    if width < 1 or variance < 1e-9:
        return np.zeros((m, 0)), 0.0
    basis = np.random.default_rng(0).standard_normal((m, width))
    for _ in range(POWERS):
        image = x @ basis - centre @ basis
        basis = _orthonormal(x.T @ image - np.outer(centre, image.sum(axis=0)))
    image = x @ basis - centre @ basis
    variances, rotation = np.linalg.eigh(image.T @ image / n)
    variances, rotation = variances[::-1], rotation[:, ::-1]
    kept = min(keep, int((variances > 1e-6 * variances[0]).sum()))
    axes = basis @ rotation[:, :kept]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(kept)])
    return axes / np.sqrt(variances[0]), float(variances[:kept].sum() / variance)


def _orthonormal(basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the same space as columns (m, k), with 0 for what they have in common; faster than QR."""
    squares, rotation = np.linalg.eigh(basis.T @ basis)
    kept = squares > 1e-12 * squares[-1]
    return basis @ (rotation * np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1.0)), 0.0))
