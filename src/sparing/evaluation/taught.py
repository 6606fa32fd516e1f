"""Rows that taught a policy cannot judge it: those that may, and what is to be said of them."""

from dataclasses import dataclass

import numpy as np

from sparing.errors import SettingError
from sparing.log.rows import AnyLog, Memory
from sparing.policies.fingerprint import TrainingFingerprint
from sparing.policies.policy import ConstantPolicy, Policy, UniformPolicy

TAUGHT = ("refuse", "allow")
"""What to do with rows that taught the policy: judge by those held out or refuse, or take them all and say so."""

UNKNOWN = "it cannot be told whether these rows taught the policy; if they did, the estimate is too high"


@dataclass(frozen=True, eq=False)
class Judging:
    """The rows that a policy is judged by."""

    log: AnyLog
    notes: tuple[str, ...] = ()
    held_out: bool = False
    in_sample: bool = False


def judging_rows(log: AnyLog, policy: Policy | np.ndarray, taught: str) -> Judging:
    """All rows where none of them taught the policy, those held out where some did, else none: an error."""
    known: TrainingFingerprint | None = getattr(policy, "taught", None)
    if known is None:
        untaught = isinstance(policy, UniformPolicy | ConstantPolicy)
        return Judging(log, () if untaught else (UNKNOWN,))
    overlap = known.overlap(log)
    if overlap == "none":
        return Judging(log)
    if taught == "allow":
        sure = overlap == "some"
        return Judging(log, ("these rows taught the policy" if sure else UNKNOWN,), in_sample=sure)
    held, reason = _held_out(log, known)
    if held is not None:
        note = f"judged on the {held.n_rows:,} of {log.n_rows:,} rows that were held out when it was learnt"
        return Judging(held, (note,), held_out=True)
    if overlap == "unclear":
        return Judging(log, (UNKNOWN,))
    raise SettingError(
        f"rows of this log are among the {known.rows:,} that taught the policy ({reason}): on them it looks "
        "better than it is. Learn it again with a part held out (holdout=0.3), or evaluate it on another log; "
        "taught='allow' evaluates all the same, and marks every estimate as in-sample"
    )


def _held_out(log: AnyLog, known: TrainingFingerprint) -> tuple[AnyLog | None, str]:
    """The rows held out; None where there are none, or where it cannot be told which they were, and why."""
    if isinstance(log, Memory) and known.split is not None and known.split.by == "row":
        log = log.log  # single rows are told apart by all of them
    try:
        held: AnyLog = known.held_out(log)
    except SettingError as error:
        return None, str(error)
    return (held, "") if held.n_rows else (None, "none of those held out is here")
