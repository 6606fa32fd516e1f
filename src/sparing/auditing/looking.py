"""The walks of an audit: one for facts and a sample of rows, one for the gaps and the policy where there are any."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sparing.auditing.facts import Facts, Propensities, Sets
from sparing.auditing.gaps import Found, GapMap
from sparing.auditing.measuring import Measures, Measuring
from sparing.auditing.overlap import Doing
from sparing.log import Log
from sparing.log.rows import Memory, Rows, Sample
from sparing.log.walking import Statistic, Together, Total
from sparing.model.statistics import Statistics
from sparing.model.streaming import Sums
from sparing.policies.policy import Policy

SAMPLED_ROWS, SAMPLED_CELLS = 2**18, 2**24
"""Rows of the sample, and numbers in it, at most; all rows of a log that has no more."""


@dataclass(frozen=True, eq=False)
class Look:
    """What the first walk brought: facts (None without rows) and sums of all rows, and a sample, by its rows' numbers (m,).

    The sample is the whole log where that is short; then `numbers` is None.
    """

    rows: Rows
    facts: Facts | None
    sums: Statistics
    sample: Log
    numbers: np.ndarray | None

    @property
    def whole(self) -> bool:
        """Whether all rows are in the sample."""
        return self.numbers is None

    def sets(self, looked: Log, rare: float) -> Sets | None:
        """What rows could have taken: as logged, or as estimated for those of the sample."""
        if self.facts is None or not looked.support.known:
            return None
        return self.facts.sets or Sets.of(looked.support, rare)

    def propensities(self, looked: Log) -> Propensities | None:
        """The propensities: as logged, or as estimated for the rows of the sample."""
        if self.facts is None or looked.propensities is None:
            return None
        return self.facts.propensities or Propensities.of(looked)


def look(rows: Rows, rare: float, seed: int) -> Look:
    """Walk a log once."""
    size = sample_rows(rows.header)
    short = rows.n_rows <= size
    wanted: list[Statistic[Log, Any]] = [
        Total(partial(Facts.of, rare=rare)),
        Sums(rows),
    ]
    if not (short and isinstance(rows, Memory)):
        wanted.append(Sample(rows.header, rows.n_rows, size, seed))
    facts, sums, *sampled = rows.fold(Together(*wanted))
    sums = replace(sums, encoder=rows.encoder.digest)
    if not sampled:
        assert isinstance(rows, Memory)
        return Look(rows, facts, sums, rows.log, None)
    (found,) = sampled
    return Look(rows, facts, sums, found.log(), None if short else found.numbers[found.kept])


def sample_rows(header: Log) -> int:
    """How many rows a sample may have: fewer where contexts, sets or distributions are long."""
    support = header.n_actions if header.support.from_probabilities else -(-header.n_actions // 8)
    return max(2**8, min(SAMPLED_ROWS, SAMPLED_CELLS // max(header.n_features, support)))


def measure(
    seen: Look, looked: Log, found: Found, policy: Policy | np.ndarray | None
) -> tuple[GapMap, Doing | None]:
    """Walk a log again, for what was found and for what a policy does; what rests on an estimate, in the sample alone."""
    estimated = looked.support.known and not seen.rows.header.support.known
    never = seen.sums.counts == 0
    if seen.whole:
        measures, doing = _walked(Memory(looked), found, policy, never)
        return found.measured(looked, measures, measures.shares), doing
    measures, doing = _walked(seen.rows, found, policy, never)
    shares = measures.shares
    if estimated:
        part = policy[seen.numbers] if isinstance(policy, np.ndarray) else policy
        near, here = _walked(Memory(looked), found, part, never)
        shares = near.shares
        if doing is not None and here is not None:
            doing = replace(doing, mass=here.mass, weights=doing.weights or here.weights)
    return found.measured(looked, measures, shares), doing


def _walked(
    rows: Rows, found: Found, policy: Policy | np.ndarray | None, never: np.ndarray
) -> tuple[Measures, Doing | None]:
    """What is asked for, in one walk; none where nothing is."""
    measuring = Measuring(found.segments, rows.n_actions)
    if policy is not None:
        measures, doing = rows.fold(Together(measuring, Total(partial(Doing.of, policy=policy, never=never))))
        return measures, doing
    if not found.segments:
        return replace(measuring.zero(), rows=rows.n_rows), None
    needed = rows if rows.header.support.known else rows.narrowed()
    return needed.focused(measuring.features).fold(measuring), None
