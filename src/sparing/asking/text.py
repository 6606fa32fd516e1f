"""A queue and a verdict as text and tables, and the segments of contexts that they speak of."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sparing.asking.ask import Queue, best_actions, known_costs
from sparing.asking.pool import cell_text
from sparing.auditing.segments import Binned, Segment, searched
from sparing.log.labels import label_text
from sparing.online.learner import Learner
from sparing.report.text import shortened

SHOWN = 12  # calls in the table for people; the file has them all
LONGEST = 60  # characters of the raw columns in a table
DEPTH = 2  # conditions of a segment on the page
SMALLEST = 0.05  # share of the rows in such a segment, at least
CERTAIN = 1.645
"""Deviations beyond which an action wins or loses: a probability of 95 %."""

RANDOM_ROWS = 4  # times as many random rows as calls, to find where the calls are


def described(queue: Queue, place: int, most: int = LONGEST) -> str:
    """The raw columns of a call in one line."""
    cells = zip(queue.columns, queue.calls[place].cells, strict=True)
    return _line("; ".join(f"{name}: {_line(cell_text(cell), most)}" for name, cell in cells), most)


def _line(text: str, most: int) -> str:
    return shortened(" ".join(text.split()), most)


def queue_table(queue: Queue) -> tuple[str, tuple[str, ...], list[list[str]]]:
    """Title, header and rows of the first calls."""
    count = len(queue.calls)
    title = "The queue" if count <= SHOWN else f"The first {SHOWN} of {count:,} calls; --out writes them all"
    rows = [
        [call.id, label_text(call.action), f"{call.worth:.3g}", described(queue, place)]
        for place, call in enumerate(queue.calls[:SHOWN])
    ]
    return title, ("id", "action", "worth", "row"), rows


@dataclass(frozen=True)
class Part:
    """A segment of the traffic: its words and its share, and other shares that belong to it."""

    words: str
    traffic: float
    shares: tuple[float, ...]


def queue_parts(queue: Queue) -> list[Part]:
    """Where the calls are: segments of contexts with their shares of the traffic and of the queue."""
    pool, asked = queue.request.pool, [call.row for call in queue.calls]
    if not asked:
        return []
    rows, place = np.unique(asked, return_inverse=True)
    called = pool.contexts_at(rows)[place]
    rng = np.random.default_rng(34)
    others = rng.permutation(len(pool.contexts))[: max(500, RANDOM_ROWS * len(called))]
    both = _linear(queue, np.concatenate([called, pool.contexts[others]]))
    hit = np.arange(len(both)) < len(called)
    segments = _segments(both, hit)
    traffic, queued = _linear(queue, pool.contexts), both[: len(called)]
    return [
        Part(
            segment.words(pool.encoder),
            float(segment.contains(traffic).mean()),
            (float(segment.contains(queued).mean()),),
        )
        for segment in segments
    ]


def outcome_parts(queue: Queue, action: Hashable) -> list[Part]:
    """Where an action wins, is unknown and loses against the best other one: shares of each segment's rows.

    It wins or loses where that has a probability of 95 % by the posterior, the two actions taken as independent.
    """
    learner, pool = queue.learner, queue.request.pool
    index = learner.index(action)
    part = searched(len(pool.contexts), pool.contexts.shape[1], np.random.default_rng(35))
    contexts = pool.contexts[part]
    others = np.arange(learner.n_actions) != index
    if not others.any():
        return []
    best = best_actions(learner, contexts, others)
    mean, variance = _moments(learner, contexts, np.full(len(contexts), index))
    rival, rival_variance = _moments(learner, contexts, best)
    ahead, sure = mean - rival, CERTAIN * np.sqrt(variance + rival_variance)
    kinds = np.stack([ahead > sure, np.abs(ahead) <= sure, ahead < -sure])
    rows = _linear(queue, contexts)
    parts = []
    for segment in _segments(rows, ahead > 0):
        inside = segment.contains(rows)
        shares = tuple(float(share) for share in kinds[:, inside].mean(axis=1))
        parts.append(Part(segment.words(pool.encoder), float(inside.mean()), shares))
    return parts


def _moments(learner: Learner, contexts: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and variance of an action's mean reward, less its cost, in each context, (n,) each."""
    mean, variance = np.empty(len(contexts)), np.empty(len(contexts))
    noise = float(learner.sets.arrays.common) ** 2
    theta, inverse, costs = learner.sets.theta, learner.sets.inverse, known_costs(learner)
    for action in np.unique(actions).tolist():
        rows = actions == action
        mean[rows] = contexts[rows] @ theta[action] - costs[action]
        product = contexts[rows] @ inverse[action]
        variance[rows] = noise * np.einsum("ij,ij->i", product, contexts[rows])
    return mean, np.maximum(variance, 0.0)


def _linear(queue: Queue, contexts: np.ndarray) -> np.ndarray:
    """The features that are made of raw columns, without kernel features."""
    return contexts[:, : queue.request.pool.encoder.linear.stop]


def _segments(rows: np.ndarray, hit: np.ndarray) -> list[Segment]:
    """Segments in which shares of hits differ, most rows first."""
    smallest = max(1, round(SMALLEST * len(rows)))
    leaves = Binned(rows).leaves(hit, smallest=smallest, max_share=0.0, depth=DEPTH)
    return [leaf.segment for leaf in sorted(leaves, key=lambda leaf: -leaf.size)]
