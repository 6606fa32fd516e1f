"""Compiled hashing of texts: words, neighbouring words and characters of words become numbers, in a fixed order."""

from typing import Any

import numpy as np

from sparing import hashing
from sparing.native.compile import compiled, compiled_inner

SPACE, WORD, SYMBOL, SINGLE = range(4)
"""Classes of characters: between words; part of a word; a symbol, which is a word of its own; a word of one character."""

BITS = 17
"""Bits of a hash: words have the places below 2**BITS, characters of words as many above."""

PLACES = 2 ** (BITS + 1)

SHORTEST, LONGEST = 3, 4
"""Characters of a word that are taken together, with a mark before and after the word."""

FIRST_MARK, LAST_MARK = 2, 3  # code points that no text has in a word

# With the code for Python: the engine compiles it too, and both share one file of machine code.
mix64: Any = compiled(hashing.mix64)


@compiled_inner
def fold(state: np.uint64, word: np.uint64) -> np.uint64:
    """A hash extended by one word, as `hashing.fold_word` does."""
    state = (state ^ word) * hashing.GAMMA
    return state ^ (state >> np.uint64(32))


@compiled_inner
def place_of(state: np.uint64) -> np.int64:
    """The place of a gram among 2**BITS, and in the next bit its sign."""
    return np.int64(mix64(state) >> np.uint64(63 - BITS))


@compiled
def grams_of(
    points: np.ndarray,
    start: int,
    stop: int,
    classes: np.ndarray,
    ngrams: int,
    found: np.ndarray,
    words: np.ndarray,
    spans: np.ndarray,
) -> tuple[int, int]:
    """List the grams of a text, and return how many grams and words there are.

    Parameters
    ----------
    points : array of uint32
        Code points; the text is from `start` to before `stop`.
    classes : array of uint8
        Class of every code point.
    ngrams : int
        Neighbouring words that are taken together, at most (1 to 3).
    found : array of int64 (m, 2)
        Out: the place of each gram with its sign as the lowest bit, and its number of words.
    words : array of int64 (m,)
        Out: the last word of each gram.
    spans : array of int64 (w, 2)
        Out: the first character of each word, and the one after its last.
    """
    many = n_words = 0
    before, before_that = np.uint64(0), np.uint64(0)
    i = start
    while i < stop:
        kind = classes[points[i]]
        if kind == SPACE:
            i += 1
            continue
        first, state = i, np.uint64(0)
        state = fold(state, np.uint64(points[i]))
        i += 1
        while kind == WORD and i < stop and classes[points[i]] == WORD:
            state = fold(state, np.uint64(points[i]))
            i += 1
        spans[n_words, 0], spans[n_words, 1] = first, i
        found[many, 0], found[many, 1], words[many] = place_of(state), 1, n_words
        many += 1
        if ngrams > 1 and n_words > 0:
            found[many, 0], found[many, 1], words[many] = place_of(fold(before, state)), 2, n_words
            many += 1
        if ngrams > 2 and n_words > 1:
            pair = fold(before_that, before)
            found[many, 0], found[many, 1], words[many] = place_of(fold(pair, state)), 3, n_words
            many += 1
        before_that, before = before, state
        if kind == WORD:
            for j in range(first - 1, i + 2 - SHORTEST):
                part = np.uint64(0)
                for size in range(LONGEST):
                    k = j + size
                    if k > i:
                        break
                    point = points[k] if first <= k < i else (FIRST_MARK if k < first else LAST_MARK)
                    part = fold(part, np.uint64(point))
                    if size + 1 >= SHORTEST:
                        found[many, 0], found[many, 1] = place_of(part) + 2 * 2**BITS, 1
                        words[many] = n_words
                        many += 1
        n_words += 1
    return many, n_words


@compiled
def shares_word(points: np.ndarray, classes: np.ndarray, slots: np.ndarray) -> bool:
    """Whether a text has a word, not only a symbol, that texts of the log share."""
    i = 0
    while i < len(points):
        kind = classes[points[i]]
        state = fold(np.uint64(0), np.uint64(points[i]))
        i += 1
        while kind == WORD and i < len(points) and classes[points[i]] == WORD:
            state = fold(state, np.uint64(points[i]))
            i += 1
        if kind in (WORD, SINGLE) and slots[place_of(state) >> 1] >= 0:
            return True
    return False


@compiled
def most_grams(points: int) -> int:
    """A bound on the grams of a text of so many code points: three of words for each, and those of characters."""
    return (3 + LONGEST - SHORTEST + 1) * points + 2 * LONGEST


@compiled
def count_rows(
    points: np.ndarray, ends: np.ndarray, classes: np.ndarray, ngrams: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the grams of texts: ends (n,) of each in the result, and the place and signed count of each distinct one."""
    longest = start = 0
    for stop in ends:
        longest, start = max(longest, stop - start), stop
    most = most_grams(longest)
    found, words = np.empty((most, 2), np.int64), np.empty(most, np.int64)
    spans, counts = np.empty((longest, 2), np.int64), np.zeros(PLACES, np.int32)
    seen = np.zeros(PLACES, np.bool_)
    size = 1024
    places, values, stops = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(len(ends), np.int64)
    total = start = 0
    for row in range(len(ends)):
        many, _ = grams_of(points, start, ends[row], classes, ngrams, found, words, spans)
        start, first = ends[row], total
        if total + many > size:
            size = 2 * (total + many)
            more = np.empty(size, np.int32)
            more[:total] = places[:total]
            places = more
            more = np.empty(size, np.int32)
            more[:total] = values[:total]
            values = more
        for g in range(many):
            place = found[g, 0] >> 1
            counts[place] += 1 - 2 * (found[g, 0] & 1)
            if not seen[place]:
                seen[place] = True
                places[total] = place
                total += 1
        for j in range(first, total):
            values[j] = counts[places[j]]
            counts[places[j]], seen[places[j]] = 0, False
        stops[row] = total
    return stops, places[:total], values[:total]


@compiled
def project_rows(
    points: np.ndarray,
    ends: np.ndarray,
    classes: np.ndarray,
    ngrams: int,
    slots: np.ndarray,
    idf: np.ndarray,
    axes: np.ndarray,
    damped: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add the projections of texts to `out` (n, keep): Σ_g v_g·axes_g with v = ±damped[|count|]·idf, of unit norm for words and for characters.

    `slots` (PLACES,) is the row of each gram in `idf` (m,) and `axes` (m, keep), −1 for one that the log does not share; rows of
    words come first. Sums run over grams in the order of the text, so that a text has the same bits alone and among others.
    """
    longest = start = 0
    for stop in ends:
        longest, start = max(longest, stop - start), stop
    most, keep = most_grams(longest), axes.shape[1]
    found, words = np.empty((most, 2), np.int64), np.empty(most, np.int64)
    spans, counts = np.empty((longest, 2), np.int64), np.zeros(len(idf), np.int32)
    seen, listed = np.zeros(len(idf), np.bool_), np.empty(len(idf), np.int32)
    group, sums = np.empty(len(idf), np.bool_), np.empty((2, keep))
    start = 0
    for row in range(len(ends)):
        many, _ = grams_of(points, start, ends[row], classes, ngrams, found, words, spans)
        start, distinct = ends[row], 0
        for g in range(many):
            place = found[g, 0] >> 1
            slot = slots[place]
            if slot >= 0:
                counts[slot] += 1 - 2 * (found[g, 0] & 1)
                if not seen[slot]:
                    seen[slot], listed[distinct], group[distinct] = True, slot, place >= 2**BITS
                    distinct += 1
        norms = [0.0, 0.0]
        sums[:] = 0.0
        for j in range(distinct):
            slot = listed[j]
            count, of = counts[slot], 1 if group[j] else 0
            counts[slot], seen[slot] = 0, False
            if count != 0:
                size = damped[min(abs(count), len(damped) - 1)] * idf[slot]
                norms[of] += size * size
                signed, line, total = size if count > 0 else -size, axes[slot], sums[of]
                for k in range(keep):
                    total[k] += signed * line[k]
        for of in range(2):
            if norms[of] > 0.0:
                norm = np.sqrt(norms[of])
                for k in range(keep):
                    out[row, k] += sums[of, k] / norm
