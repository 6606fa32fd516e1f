"""Which rows of a large log are the same context: by exact hashing, compiled. The plain twin is np.unique."""

import numpy as np

from sparing.log.hashing import MULTIPLIER
from sparing.native.compile import compiled

_START, _AHEAD, _FEW = 1024, 64, 2**16
_FOLD = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MINUS_ZERO = np.uint64(1 << 63)
_FIRST, _BUCKETS = np.uint64(48), 2**16
_PLACES = 4096
_TOP = np.uint64(64 - 12)  # the twelve bits that every bit of a word moves


@compiled
def hash_row(words: np.ndarray, row: int, multiplier: np.uint64) -> np.uint64:
    """h ← fold((h ⊕ word)·multiplier) over the words of a row, 64 bits."""
    state = np.uint64(0)
    for column in range(words.shape[1]):
        state = (state ^ words[row, column]) * multiplier
        state ^= state >> _FOLD
    return state


@compiled
def folded_word(state: np.uint64, word: np.uint64, multiplier: np.uint64) -> np.uint64:
    """One more word in a hash, −0.0 taken as 0.0."""
    state = (state ^ (np.uint64(0) if word == _MINUS_ZERO else word)) * multiplier
    return state ^ (state >> _FOLD)


@compiled
def hash_rows(words: np.ndarray, multiplier: np.uint64) -> np.ndarray:
    """The hash of each row of numbers, given as words of 64 bits, −0.0 taken as 0.0, (n,)."""
    hashes = np.empty(len(words), dtype=np.uint64)
    whole = len(words) // 4 * 4
    for row in range(0, whole, 4):  # four products that do not wait for each other
        a = b = c = d = np.uint64(0)
        for column in range(words.shape[1]):
            a = folded_word(a, words[row, column], multiplier)
            b = folded_word(b, words[row + 1, column], multiplier)
            c = folded_word(c, words[row + 2, column], multiplier)
            d = folded_word(d, words[row + 3, column], multiplier)
        hashes[row], hashes[row + 1], hashes[row + 2], hashes[row + 3] = a, b, c, d
    for row in range(whole, len(words)):
        state = np.uint64(0)
        for column in range(words.shape[1]):
            state = folded_word(state, words[row, column], multiplier)
        hashes[row] = state
    return hashes


@compiled
def sorted_hashes(hashes: np.ndarray) -> np.ndarray:
    """Hashes in order, (n,): by their first 16 bits into buckets, which are small, then each past its larger neighbours."""
    starts = np.zeros(_BUCKETS + 1, dtype=np.int64)
    for row in range(len(hashes)):
        starts[np.int64(hashes[row] >> _FIRST) + 1] += 1
    for bucket in range(_BUCKETS):
        starts[bucket + 1] += starts[bucket]
    ordered = np.empty(len(hashes), dtype=np.uint64)
    for row in range(len(hashes)):
        first = np.int64(hashes[row] >> _FIRST)
        ordered[starts[first]] = hashes[row]
        starts[first] += 1
    for row in range(1, len(ordered)):
        value, place = ordered[row], row
        while place > 0 and ordered[place - 1] > value:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = value
    return ordered


@compiled
def joined_hashes(one: np.ndarray, two: np.ndarray, most: int) -> np.ndarray:
    """The smallest different ones, so many at most, of two arrays of different hashes in order."""
    found = np.empty(min(most, len(one) + len(two)), dtype=np.uint64)
    i, j, many = 0, 0, 0
    while many < most and i < len(one) and j < len(two):  # no branch that a processor would have to guess
        left, right = one[i], two[j]
        found[many] = min(left, right)
        i += left <= right
        j += right <= left
        many += 1
    while many < most and i < len(one):
        found[many] = one[i]
        i, many = i + 1, many + 1
    while many < most and j < len(two):
        found[many] = two[j]
        j, many = j + 1, many + 1
    return found[:many].copy()


@compiled
def few_words(words: np.ndarray, multiplier: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """The different words of an array (n,), in no order, and how often each occurs; none where they are not few."""
    keys, counts = np.zeros(_PLACES, dtype=np.uint64), np.zeros(_PLACES, dtype=np.int64)
    mask, found = np.uint64(_PLACES - 1), 0
    for row in range(len(words)):
        word = words[row]
        place = (word * multiplier) >> _TOP
        while counts[place] != 0 and keys[place] != word:
            place = (place + np.uint64(1)) & mask
        if counts[place] == 0:
            if 2 * found == _PLACES:
                return keys[:0], counts[:0]
            keys[place] = word
            found += 1
        counts[place] += 1
    there = np.flatnonzero(counts)
    return keys[there], counts[there]


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


def groups_of_rows(words: np.ndarray) -> np.ndarray:
    """The place of each row among the distinct ones, sorted by their bytes, (n,); words (n, d) are 64 bits each."""
    first, groups = distinct_rows(words, MULTIPLIER)
    # The bytes of a little-endian number in their order are a big-endian number.
    order = sorting_order(words[first].astype("<u8").view(">u8").astype(np.uint64))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[groups]


def sorting_order(words: np.ndarray) -> np.ndarray:
    """The order (m,) that sorts distinct rows (m, d) by their words, the first column first.

    One number a row does it, but for ties: columns of few values enter as a digit each; of the first other
    column, the bits that there is room for.
    """
    keys, room = np.zeros(len(words), dtype=np.uint64), 64
    for place in range(words.shape[1]):
        column = np.ascontiguousarray(words[:, place])
        values = np.sort(column)
        values = np.append(values[:1], values[1:][values[1:] != values[:-1]])
        bits = (len(values) - 1).bit_length()
        if len(values) > _FEW or bits > room:
            keys |= column >> np.uint64(64 - room)
            break
        room -= bits
        keys |= np.searchsorted(values, column).astype(np.uint64) << np.uint64(room)
    order = np.argsort(keys)
    same = np.diff(keys[order]) == 0
    tied = np.flatnonzero(np.append(False, same) | np.append(same, False))
    rows = order[tied]
    order[tied] = rows[np.lexsort((*words[rows, place:].T[::-1], keys[rows]))]
    return order
