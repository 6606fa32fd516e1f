"""The contexts that stand for future ones: logged ones, and live ones (reservoir sampling) where the log has no others like them."""

import math

import numpy as np

from sparing.native.compile import compiled, compiled_inner
from sparing.native.vectors import dot
from sparing.online.engine.packed import invert, times
from sparing.online.engine.random_stream import CONTEXT, stream_key, uniform
from sparing.online.engine.state import NEVER, SetsStruct

LOG_ROUNDS = 200
"""Live rounds that the log counts as: after n of them, a share n/(n + LOG_ROUNDS) of the sample is live."""

RENEWALS = 4
"""The sample in use is renewed once one in this many of its contexts may have changed: O(log n) times in n rounds."""

UNLIKE = 2.0
"""A live context whose leverage is more than this many times the largest logged one is unlike the log's,"""

WELL_KNOWN = 0.23
"""unless the log knows it well: the standard error of its pooled estimate there is at most this many noise deviations, the
deviation that the prior expects between the slopes of actions."""

SHIFT_QUANTILE = 3.72
"""Normal quantile (99.99 %) beyond which a difference of means is not chance."""

LONGEST = 10.0
"""A live context longer than this many times the longest logged one is not used: it would outweigh all others."""


@compiled_inner
def slot_taken(t: SetsStruct, key: int, number: int) -> int:
    """The place of the sample that the context of a round takes; −1 if it does not enter."""
    place = int(uniform(stream_key(key, number), CONTEXT) * max(LOG_ROUNDS + number - t.sampled_from, 1))
    return place if place < len(t.next_sample) else -1


@compiled
def find_next_entry(t: SetsStruct, key: int, number: int) -> None:
    """Set `next_entry`: the first round from `number` on whose context enters."""
    t.next_entry = NEVER
    if t.sampled_from == NEVER or len(t.next_sample) == 0:
        return
    while slot_taken(t, key, number) < 0:
        number += 1
    t.next_entry = number


@compiled
def enter_context(t: SetsStruct, x: np.ndarray, key: int, number: int, identity: int) -> int:
    """Let the context of round `number`, which must be `next_entry`, stand for future ones; return the next one's round."""
    slot = slot_taken(t, key, number)
    for i in range(len(x)):
        t.next_sample[slot, i] = x[i]
    t.sample_ids[slot] = identity
    t.entered += 1
    if RENEWALS * t.entered >= len(t.next_sample):
        renew_sample(t)
    find_next_entry(t, key, number + 1)
    return t.next_entry


@compiled
def renew_sample(t: SetsStruct) -> None:
    """Use the live contexts that are unlike the logged ones, and all others too if their mean differs by more than chance.

    Logged contexts stand for live ones that are like them, or that the log knows well: new contexts in their places would add
    noise alone. Lookahead caches start anew if anything changes.
    """
    t.entered = 0
    if not logged_metric(t):
        return
    metric, z, reach, longest, changed = t.trial[1], t.vectors[0], WELL_KNOWN * WELL_KNOWN, 0.0, False
    for x in t.logged_sample:
        reach = max(reach, UNLIKE * leverage(metric, x, z))
        longest = max(longest, LONGEST * LONGEST * dot(x, x))
    everything = has_shifted(t, metric, reach)
    for j in range(len(t.next_sample)):
        live = t.sample_ids[j] >= 0 and dot(t.next_sample[j], t.next_sample[j]) <= longest
        live = live and (everything or t.move[j] > reach)
        x = t.next_sample[j] if live else t.logged_sample[j]
        for i in range(len(x)):
            changed = changed or t.context_sample[j, i] != x[i]
            t.context_sample[j, i] = x[i]
    if changed:
        t.changes += 1
        t.resampled = t.changes


@compiled_inner
def logged_metric(t: SetsStruct) -> bool:
    """Write (G + D)⁻¹ to `trial`, G = Σ xxᵀ of the log and D one row's mean square in each direction; False without rows."""
    gram, d, total, k = t.trial[0], t.logged_sample.shape[1], 0.0, 0
    for i in range(len(gram)):
        gram[i] = t.logged_gram[i]
    for i in range(d):
        total += gram[k]
        k += d - i
    k = 0
    for i in range(d):
        gram[k] += (gram[k] if gram[k] > 0.0 else total / d) / max(logged_rows(t), 1)
        k += d - i
    return total > 0.0 and not math.isnan(invert(gram, t.trial[1], t.square, 1.0))


@compiled
def logged_rows(t: SetsStruct) -> int:
    """Rows of the log."""
    rows = 0
    for slot in range(t.used):
        rows += t.logged[slot] if t.view_mask[slot] & 1 == 0 else 0
    return rows


@compiled_inner
def leverage(metric: np.ndarray, x: np.ndarray, z: np.ndarray) -> float:
    """Variance of the log's pooled estimate at a context, in noise variances: xᵀ(G + D)⁻¹x."""
    times(metric, x, z)
    return dot(x, z)


@compiled_inner
def has_shifted(t: SetsStruct, metric: np.ndarray, reach: float) -> bool:
    """Whether the mean of the live contexts of leverage up to `reach` differs from the logged one by more than chance (χ²),
    and the log does not know them well.

    Leverages are written to `move`.
    """
    d, m, live, variance = t.next_sample.shape[1], len(t.next_sample), 0, 0.0
    z, logged, mean = t.vectors[0], t.vectors[1], t.vectors[2]
    for i in range(d):
        logged[i] = mean[i] = 0.0
    for j in range(m):
        t.move[j] = leverage(metric, t.next_sample[j], z) if t.sample_ids[j] >= 0 else 0.0
        like = t.sample_ids[j] >= 0 and t.move[j] <= reach
        live += like
        variance += t.move[j] if like else 0.0
        for i in range(d):
            logged[i] += t.logged_sample[j, i]
            mean[i] += t.next_sample[j, i] if like else 0.0
    if variance <= live * WELL_KNOWN * WELL_KNOWN:
        return False
    for i in range(d):
        mean[i] = mean[i] / live - logged[i] / m
    square = leverage(metric, mean, z) * logged_rows(t) * live * m / (live + m)
    share = 2.0 / (9.0 * d)
    return square > d * (1.0 - share + SHIFT_QUANTILE * math.sqrt(share)) ** 3
