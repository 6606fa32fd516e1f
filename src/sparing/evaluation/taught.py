"""Rows that taught a policy cannot judge it: those that may, and what is to be said of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sparing.errors import SettingError
from sparing.evaluation.rewards import Rewards, RewardsSeen
from sparing.log import Log
from sparing.log.blocks import Cut
from sparing.log.scanning import AnyLog, Memory, Rows, rows_of
from sparing.log.walking import Statistic, Together
from sparing.policies.fingerprint import Fingerprint, Meeting, Split
from sparing.policies.policy import ConstantPolicy, Policy, UniformPolicy

TAUGHT = ("refuse", "allow")
"""What to do with rows that taught the policy: judge by those held out or refuse, or take them all and say so."""

UNKNOWN = "it cannot be told whether these rows taught the policy; if they did, the estimate is too high"

State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Judging:
    """The rows that a policy is judged by; `rewards` are those of all rows, where they were looked at."""

    log: AnyLog
    notes: tuple[str, ...] = ()
    held_out: bool = False
    in_sample: bool = False
    rewards: Rewards | None = None


class HeldOut(Rows):
    """Those rows of a log that a split holds out; they are walked as the log is, in its blocks."""

    def __init__(self, rows: Rows, split: Split, n_rows: int) -> None:
        self.rows, self.split, self.n_rows = rows, split, n_rows
        self.header, self.progress = rows.header, rows.progress

    @property
    def cut(self) -> Cut:
        """The whole log's."""
        return self.rows.cut

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """As the whole log is."""
        return self.rows.fold(HeldOutOf(statistic, self.split))

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Those of the whole log, without the rows that are not held out."""
        for first, block in self.rows.blocks():
            yield first, block.take(self.split.held_out(block))


class HeldOutOf(Statistic[Log, State]):
    """What another statistic gathers, of the rows held out alone."""

    def __init__(self, statistic: Statistic[Log, State], split: Split) -> None:
        self.statistic, self.split = statistic, split

    def zero(self) -> State:
        """No rows."""
        return self.statistic.zero()

    def update(self, state: State, block: Log, first_row: int) -> State:
        """Nothing where the block has none of them."""
        held = block.take(self.split.held_out(block))
        return self.statistic.update(state, held, first_row) if held.n_rows else state

    def finish(self, state: State) -> State:
        """As the other does."""
        return self.statistic.finish(state)

    def merge(self, one: State, other: State) -> State:
        """As the other does."""
        return self.statistic.merge(one, other)


class _Count(Statistic[Log, int]):
    """How many rows there are."""

    def zero(self) -> int:
        return 0

    def update(self, state: int, block: Log, first_row: int) -> int:
        return state + block.n_rows

    def merge(self, one: int, other: int) -> int:
        return one + other


def judging_rows(log: AnyLog, policy: Policy | np.ndarray, taught: str) -> Judging:
    """All rows where none of them taught the policy, those held out where some did, else none: an error."""
    known: Fingerprint | None = getattr(policy, "taught", None)
    if known is None:
        untaught = isinstance(policy, UniformPolicy | ConstantPolicy)
        return Judging(log, () if untaught else (UNKNOWN,))
    met, many, rewards = rows_of(log).fold(Together(Meeting(known), _counted(log, known), RewardsSeen()))
    overlap = known.overlap_of(met)
    if overlap == "none":
        return Judging(log, rewards=rewards)
    if taught == "allow":
        sure = overlap == "some"
        note = "these rows taught the policy" if sure else UNKNOWN
        return Judging(log, (note,), in_sample=sure, rewards=rewards)
    held, reason = _held_out(log, known, many)
    if held is not None:
        note = f"judged on the {held.n_rows:,} of {log.n_rows:,} rows that were held out when it was learnt"
        return Judging(held, (note,), held_out=True, rewards=rewards)
    if overlap == "unclear":
        return Judging(log, (UNKNOWN,), rewards=rewards)
    raise SettingError(
        f"rows of this log are among the {known.rows:,} that taught the policy ({reason}): on them it looks "
        "better than it is. Learn it again with a part held out (holdout=0.3), or evaluate it on another log; "
        "taught='allow' evaluates all the same, and marks every estimate as in-sample"
    )


def _counted(log: AnyLog, known: Fingerprint) -> Statistic[Log, int]:
    """Counts the rows held out, where a row tells by itself whether it is one of them."""
    split = known.split
    ids = (log.header if isinstance(log, Rows) else log).context_ids
    if (
        isinstance(log, Log)
        or split is None
        or split.by == "row"
        or (split.by == "context_id" and ids is None)
    ):
        return _Count()
    return HeldOutOf(_Count(), split)


def _held_out(log: AnyLog, known: Fingerprint, many: int) -> tuple[AnyLog | None, str]:
    """The rows held out; None where there are none, or where it cannot be told which they were, and why."""
    try:
        held = _part(log, known, many)
    except SettingError as error:
        return None, str(error)
    return (held, "") if held.n_rows else (None, "none of those held out is here")


def _part(log: AnyLog, known: Fingerprint, many: int) -> AnyLog:
    if isinstance(log, Log):
        return known.held_out(log)
    split = known.split
    if split is None or (split.by == "context_id" and log.header.context_ids is None):
        return known.held_out(log.header)  # says why not
    if split.by != "row":
        return HeldOut(log, split, many)
    if isinstance(log, Memory):
        return known.held_out(log.log)
    raise SettingError(
        "single rows were held out when this policy was learnt, because the log has few contexts, and which they were "
        "can only be told from all rows at once: evaluate it on read_log(...)"
    )
