"""A description of an experiment's log for the dashboard: the gap map, and live calls in its segments."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from sparing.errors import LogError, SparingError
from sparing.log.log import Log
from sparing.log.passes import Blocks
from sparing.service.experiment import ExperimentState
from sparing.service.messages import GapRow, Gaps
from sparing.service.store import Store

if TYPE_CHECKING:
    from sparing.auditing.gaps import Gap
    from sparing.auditing.segments import Segment

MAX_SEGMENTS, MAX_ACTIONS_SHOWN = 8, 16
# Rows for estimating the support, and rows × actions for the search of gaps; with more actions there is no map.
MAX_ROWS, MAX_CELLS, MAX_ACTIONS = 20_000, 300_000, 500
FOUND = 300  # gaps searched for
# Events read and calls counted for one request; the next requests continue.
EVENTS, CALLS = 20_000, 2_000


def describe_log(log: Log) -> dict[str, Any]:
    """Return JSON values that describe a log: rows, mean context, largest sizes, gap map, and actions logged in some contexts only.

    The latter are bits over the action numbers, in hexadecimal.
    """
    gaps, partly = _mapped(log)
    return {
        "rows": log.n_rows,
        "center": log.contexts.mean(axis=0).tolist() if log.n_rows else None,
        "reach": np.maximum(log.contexts.max(axis=0), -log.contexts.min(axis=0)).tolist()
        if log.n_rows
        else None,
        "gaps": gaps,
        "partly": np.packbits(partly).tobytes().hex() if partly.any() else "",
    }


def partly_logged(about: dict[str, Any], n_actions: int) -> np.ndarray:
    """Return which actions were logged in some contexts only, (K,); actions added later are not among them."""
    bits = np.frombuffer(bytes.fromhex(about.get("partly", "")), dtype=np.uint8)
    found = np.zeros(n_actions, dtype=np.bool_)
    known = np.unpackbits(bits)[:n_actions]
    found[: len(known)] = known
    return found


def _mapped(log: Log) -> tuple[dict[str, Any] | None, np.ndarray]:
    """Return the gap map as JSON values, and which actions some segment has never or rarely logged, (K,).

    The map is None without gaps, or with too many actions. Segments are found in a sample of rows and counted in all rows.
    """
    partly = np.zeros(log.n_actions, dtype=np.bool_)
    if not log.n_rows or log.n_actions > MAX_ACTIONS:
        return None, partly
    gaps = _gaps(log)
    index = {name: number for number, name in enumerate(log.action_names)}
    often = np.where(log.counts == 0, len(gaps) + 1, 0)
    for gap in gaps:
        actions = [index[name] for name in gap.actions]
        often[actions] += log.counts[actions] > 0
        partly[actions] |= log.counts[actions] > 0
    if not often.any():
        return None, partly
    segments = list(dict.fromkeys(gap.segment for gap in gaps))[:MAX_SEGMENTS]
    if (log.counts == 0).any():
        from sparing.auditing.segments import Segment

        segments = [Segment(), *segments[: MAX_SEGMENTS - 1]]
    order = np.lexsort((log.counts, -often))[: min(MAX_ACTIONS_SHOWN, int((often > 0).sum()))]
    tried = _tried(log, segments)[:, order]
    rows = [
        {
            "where": segment.words(log.encoder),
            "bounds": _bounds(segment),
            "logged": counts.tolist(),
            "never": (counts == 0).tolist(),
        }
        for segment, counts in zip(segments, tried, strict=True)
    ]
    left_out = int((often > 0).sum()) - len(order)
    return {"actions": order.tolist(), "rows": rows, "left_out": left_out}, partly


def _gaps(log: Log) -> "list[Gap]":
    """Find gaps with bounds; actions without a row are gaps everywhere and need no search."""
    from sparing.auditing.gaps import find_gaps
    from sparing.auditing.support import estimate_support

    rng = np.random.default_rng([0, 22])
    sampled, tested = _sampled(log, MAX_ROWS, rng), None
    if not sampled.support.known:
        try:
            sampled, estimate = estimate_support(sampled)
        except LogError:
            return []  # too few rows to distinguish a gap from chance
        tested = estimate.gaps
    sampled = _sampled(sampled, MAX_CELLS // log.n_actions, rng)
    found = find_gaps(sampled, None, tested=tested, limit=FOUND)
    return [gap for gap in found.gaps if gap.segment.bounds]


def _sampled(log: Log, most: int, rng: np.random.Generator) -> Log:
    return log if log.n_rows <= most else log.take(np.sort(rng.permutation(log.n_rows)[:most]))


def _tried(log: Log, segments: "Sequence[Segment]") -> np.ndarray:
    """Count the rows of each segment and action, (G, K)."""
    tried = np.zeros((len(segments), log.n_actions), dtype=np.int64)
    for rows in Blocks.of(log.n_rows, log.n_features):
        contexts, actions = log.contexts[rows], log.actions[rows]
        for place, segment in enumerate(segments):
            tried[place] += np.bincount(actions[segment.contains(contexts)], minlength=log.n_actions)
    return tried


def _bounds(segment: "Segment") -> list[dict[str, Any]]:
    return [
        {
            "terms": [list(term) for term in bound.terms],
            "above": bound.low if np.isfinite(bound.low) else None,
            "up_to": bound.high if np.isfinite(bound.high) else None,
        }
        for bound in segment.bounds
    ]


def _segment(bounds: Sequence[dict[str, Any]]) -> "Segment":
    from sparing.auditing.segments import Bound, Segment

    return Segment(
        tuple(
            Bound(
                tuple((int(j), float(weight)) for j, weight in bound["terms"]),
                -np.inf if bound["above"] is None else bound["above"],
                np.inf if bound["up_to"] is None else bound["up_to"],
            )
            for bound in bounds
        )
    )


def _hash(kept: dict[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(kept, order="sorted")).hexdigest()


@dataclass
class LiveCalls:
    """Live calls in the segments of a map, counted from the event that `made` the experiment up to `reached`."""

    made: int = 0
    kept: dict[str, Any] | None = None
    segments: "list[Segment]" = field(default_factory=list)
    counts: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    reached: int = 0
    stored: tuple[str, int, list[list[int]]] | None = None  # of a map: its hash, `reached` and `counts`

    async def restore(self, store: Store, experiment: int) -> None:
        """Read the counts that `keep` stored."""
        for (body,) in await store.driver.read(
            "select body from live_counts where experiment = $1", experiment
        ):
            self.stored = msgspec.json.decode(body, type=tuple[str, int, list[list[int]]])

    async def keep(self, store: Store, experiment: int) -> None:
        """Store the counts if they are of many more events than those stored."""
        if self.kept is None:
            return
        which = _hash(self.kept)
        known = self.stored[1] if self.stored is not None and self.stored[0] == which else 0
        if self.reached - known < EVENTS:
            return
        self.stored = (which, self.reached, self.counts.tolist())
        await store.exclusive(
            (
                "insert into live_counts values ($1, $2, $3) on conflict (experiment) do update set "
                "reached = excluded.reached, body = excluded.body",
                [(experiment, self.reached, msgspec.json.encode(self.stored))],
            )
        )

    async def shown(
        self, kept: dict[str, Any] | None, store: Store, model: ExperimentState, upto: int
    ) -> Gaps | None:
        """Return the map with the calls up to an event, or as many as one request may count."""
        if kept is None:
            return None
        if kept != self.kept:
            self.kept, self.reached = kept, self.made
            self.segments = [_segment(row["bounds"]) for row in kept["rows"]]
            self.counts = np.zeros((len(self.segments), len(kept["actions"])), dtype=np.int64)
            if self.stored is not None and self.stored[0] == _hash(kept):
                self.reached, self.counts = self.stored[1], np.array(self.stored[2], dtype=np.int64)
        await self._count(store, model, upto)
        rows = [
            GapRow(row["where"], row["logged"], live, row["never"])
            for row, live in zip(kept["rows"], self.counts.tolist(), strict=True)
        ]
        return Gaps([model.labels[action] for action in kept["actions"]], rows, kept["left_out"])

    async def _count(self, store: Store, model: ExperimentState, upto: int) -> None:
        assert self.kept is not None
        end = min(self.reached + EVENTS, upto)
        shown = {action: place for place, action in enumerate(self.kept["actions"])}
        found = await store.driver.read(
            f"select seq, action, context from decisions where experiment = $1 and seq > $2 and seq <= $3 and needs_reward = 1 "
            f"and context is not null and action in ({', '.join(map(str, shown))}) order by seq limit $4",
            *(model.experiment, self.reached, end, CALLS),
        )
        self.reached = int(found[-1][0]) if len(found) == CALLS else max(end, self.reached)
        contexts, known = contexts_of(model, [bytes(row[2]) for row in found])
        contexts = contexts[:, model.learner.encoder.logged]  # as the segments of the log
        places = np.array([shown[row[1]] for row in found], dtype=np.int64)[known]
        for place, segment in enumerate(self.segments):
            inside = places[segment.contains(contexts)]
            self.counts[place] += np.bincount(inside, minlength=len(shown))


def contexts_of(model: ExperimentState, stored: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Decode stored contexts, (m, d); also return which of them (n,) the learner can still read."""
    known = np.ones(len(stored), dtype=np.bool_)
    d = model.learner.n_features
    if stored and len({len(one) for one in stored}) == 1 and all(one[:1] == b"v" for one in stored):
        numbers = np.frombuffer(b"".join(one[1:] for one in stored), dtype="<f8").astype(np.float64)
        contexts = model.learner.encoder.completed(numbers.reshape(len(stored), -1))
        if contexts.shape[1] == d:
            return contexts, known
    read: list[np.ndarray] = []
    for place, one in enumerate(stored):
        try:
            read.append(model.context(one))
        except SparingError:
            known[place] = False
    return np.array(read).reshape(len(read), d), known
