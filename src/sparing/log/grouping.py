"""Which rows of a large log are the same context: by exact hashing, compiled. The plain twin is np.unique."""

import numpy as np

from sparing.native.compiling import compiled

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Odd, its bits spread evenly: 2⁶⁴ divided by the golden ratio."""

_START, _AHEAD, _FEW = 1024, 64, 64
_FOLD = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@compiled
def hash_row(words: np.ndarray, row: int, multiplier: np.uint64) -> np.uint64:
    """h ← fold((h ⊕ word)·multiplier) over the words of a row, 64 bits."""
    state = np.uint64(0)
    for column in range(words.shape[1]):
        state = (state ^ words[row, column]) * multiplier
        state ^= state >> _FOLD
    return state


@compiled
def same_rows(words: np.ndarray, one: int, other: int) -> bool:
    """Whether two rows are equal, word by word."""
    for column in range(words.shape[1]):  # noqa: SIM110
        if words[one, column] != words[other, column]:
            return False
    return True


@compiled
def grown_table(hashes: np.ndarray, size: int) -> np.ndarray:
    """An open-addressed table for these hashes: the upper half of a hash beside the number after its index."""
    table = np.zeros(size, dtype=np.uint64)
    mask = np.uint64(size - 1)
    for group in range(len(hashes)):
        place = hashes[group] & mask
        while table[place] != 0:
            place = (place + np.uint64(1)) & mask
        table[place] = (hashes[group] & ~_LOW) | np.uint64(group + 1)
    return table


@compiled
def distinct_rows(words: np.ndarray, multiplier: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each distinct row, in order of appearance (m,), and which of them each row is (n,).

    A hash only says where to look: rows are one only if all their words are equal. The table grows with
    the distinct rows, so that few of them stay in the cache.
    """
    n = len(words)
    groups, first, hashes = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.uint64)
    table = np.zeros(_START, dtype=np.uint64)
    mask = np.uint64(_START - 1)
    ahead, touched = np.empty(_AHEAD, np.uint64), np.uint64(0)
    found = 0
    for start in range(0, n, _AHEAD):
        stop = min(start + _AHEAD, n)
        for row in range(start, stop):  # misses of the cache that do not wait for each other
            ahead[row - start] = hash_row(words, row, multiplier)
            touched |= table[ahead[row - start] & mask]
        for row in range(start, stop):
            key = ahead[row - start]
            place = key & mask
            group = np.int64(-1)
            while table[place] != 0:
                if (table[place] ^ key) & ~_LOW == 0:
                    seen = np.int64(table[place] & _LOW) - 1
                    if same_rows(words, first[seen], row):
                        group = seen
                        break
                place = (place + np.uint64(1)) & mask
            if group < 0:
                group = np.int64(found)
                first[found], hashes[found] = row, key
                found += 1
                table[place] = (key & ~_LOW) | np.uint64(found)
                if 2 * found > len(table):
                    table = grown_table(hashes[:found], 4 * len(table))
                    mask = np.uint64(len(table) - 1)
            groups[row] = group
    ahead[0] = touched
    return first[:found].copy(), groups


@compiled
def before(words: np.ndarray, one: int, other: int, start: int) -> bool:
    """Whether a row comes before another, by its words from column `start` on."""
    for column in range(start, words.shape[1]):
        if words[one, column] != words[other, column]:
            return words[one, column] < words[other, column]
    return False


@compiled
def sort_rows(words: np.ndarray, rows: np.ndarray, start: int, spare: np.ndarray) -> None:
    """Sort row indices in place by their words from column `start` on: merging runs of doubling length."""
    n = len(rows)
    run = 1
    while run < n:
        for low in range(0, n, 2 * run):
            middle, high = min(low + run, n), min(low + 2 * run, n)
            left, right = low, middle
            for place in range(low, high):
                if left < middle and (right >= high or not before(words, rows[right], rows[left], start)):
                    spare[place] = rows[left]
                    left += 1
                else:
                    spare[place] = rows[right]
                    right += 1
        for place in range(n):
            rows[place] = spare[place]
        run *= 2


@compiled
def place_among(values: np.ndarray, count: int, word: np.uint64) -> int:
    """How many of the first `count` sorted values are smaller than a word."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def few_values(words: np.ndarray, column: int) -> np.ndarray:
    """The distinct words of a column, sorted; empty if there are more than `_FEW`."""
    values, count = np.empty(_FEW, np.uint64), 0
    for row in range(len(words)):
        word = words[row, column]
        place = place_among(values, count, word)
        if place == count or values[place] != word:
            if count == _FEW:
                return values[:0]
            for later in range(count, place, -1):
                values[later] = values[later - 1]
            values[place] = word
            count += 1
    return values[:count]


@compiled
def leading_keys(words: np.ndarray) -> tuple[np.ndarray, int]:
    """One number a row (n,) that orders rows as their first columns do, and the first column not all in it.

    Columns of few values enter as a digit each; of the first other column, the bits that there is room for.
    """
    keys = np.zeros(len(words), dtype=np.uint64)
    room = 64
    for column in range(words.shape[1]):
        values = few_values(words, column)
        bits = 0
        while (1 << bits) < len(values):
            bits += 1
        if len(values) == 0 or bits > room:
            for row in range(len(words) if room else 0):
                keys[row] |= words[row, column] >> np.uint64(64 - room)
            return keys, column
        room -= bits
        for row in range(len(words) if bits else 0):
            keys[row] |= np.uint64(place_among(values, len(values), words[row, column])) << np.uint64(room)
    return keys, words.shape[1]


@compiled
def settle_ties(words: np.ndarray, keys: np.ndarray, order: np.ndarray, column: int) -> None:
    """Finish an order that is sorted by `keys`: sort each run of equal ones by the words from `column` on."""
    spare = np.empty(len(order), dtype=np.int64)
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or keys[order[stop]] != keys[order[start]]:
            if stop - start > 1:
                sort_rows(words, order[start:stop], column, spare)
            start = stop


def groups_of_rows(words: np.ndarray) -> np.ndarray:
    """The place of each row among the distinct ones, sorted by their bytes, (n,); words (n, d) are 64 bits each."""
    first, groups = distinct_rows(words, MULTIPLIER)
    # The bytes of a little-endian number in their order are a big-endian number.
    ordered = words[first].astype("<u8").view(">u8").astype(np.uint64)
    keys, column = leading_keys(ordered)
    order = np.argsort(keys)
    settle_ties(ordered, keys, order, column)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[groups]
