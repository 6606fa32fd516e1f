"""What a learner does about a world that moves: reviews of the shift between log and live, and forgetting."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparing.errors import SettingError
from sparing.online.decision import check_sizes
from sparing.online.engine import runs, updates
from sparing.online.engine.shift import SHIFTS
from sparing.online.engine.state import CONSTANT, NEVER
from sparing.validation import integer, number

if TYPE_CHECKING:
    from sparing.online.confidence_sets import ConfidenceSets
    from sparing.online.core import Core

AUTO, NONE = "auto", "none"
ShiftOption = str | float | None
"""`"auto"`, `"none"` (or None), or a number τ."""

CERTAIN = math.log(100.0)
"""Least log Bayes factor at which live rewards count as shifted. If they are not, one sequence of reviews in a hundred exceeds it."""

SKEWED = 20.0
"""Live rewards that must have come, per squared skewness: with fewer, some rare ones more than expected would look like a shift."""

SUSPICIOUS = math.log(3.0)
"""Log Bayes factor from which more rewards are requested, to be certain soon."""

FIRST, LATER = 8, 8
"""Reviews are at least so many rounds apart, and at least one part in so many of the rounds so far."""

AGAIN = 4
"""A reward is requested in any case when the rounds have grown by this factor since one was."""

LEANING, FOLLOWING = 4, 8
"""Rewards that `economical` requests in any case after a review that leans towards a shift, and after a suspicious one."""

SHORTEST, LONGEST = updates.FADES, 10**12
"""Least and largest half-life, in rounds."""

LARGEST_SHIFT = 100.0
"""Largest shift that may be set: the log then says next to nothing."""


class ShiftEstimate(NamedTuple):
    """What live rewards say about a shift between log and live.

    Attributes
    ----------
    size : float
        Deviation of the shift of the parameters, in units of the prior's deviation between actions; 0 if none is assumed.
    evidence : float
        Logarithm of the Bayes factor of a shift against none, at the last review.
    estimated : bool
        Whether the size is estimated from live rewards; otherwise it was set.
    """

    size: float
    evidence: float
    estimated: bool


def resolve_shift(shift: ShiftOption) -> str | float | None:
    """Check the option: `auto`, a number above 0, or None for `none` and 0."""
    if shift is None or shift == NONE:
        return None
    if isinstance(shift, str):
        if shift != AUTO:
            raise SettingError(f"shift={shift!r}; must be 'auto', 'none' or a number, such as 1")
        return AUTO
    return number("shift", shift, least=0, most=LARGEST_SHIFT) or None


def allowance(shift: str | float | None) -> float:
    """The largest τ that sets with this option may have to allow for; 0 for none."""
    return SHIFTS[-1] if shift == AUTO else float(shift or 0.0)


def begin_shift(sets: "ConfidenceSets", shift: str | float | None, *, ones: float | None = None) -> None:
    """Assume a shift τ from the start, or review it by live rewards, the first of which are requested.

    A shift that is found early costs few rounds, and a call costs the same in all of them. But the evidence takes rewards for normal;
    those of 0 and 1, of which `ones` is the share of 1, have the squared skewness 1/(p(1 − p)) − 4, and many must have come if p is small.
    """
    if shift == AUTO:
        a = sets.arrays
        if ones is not None:
            a.review_rows = math.ceil(SKEWED * (1 / (ones * (1 - ones)) - 4))
        a.next_review = a.next_tick = a.check_to = a.checked_at = FIRST
    elif shift is not None:
        sets.apply_shift(float(shift))


def shift_of(sets: "ConfidenceSets") -> ShiftEstimate | None:
    """The present estimate; None if live rounds are taken to be like the log."""
    a = sets.arrays
    return ShiftEstimate(a.shift, a.shift_evidence, a.next_review != NEVER) if len(a.start_gram) else None


def largest_shift(sets: "ConfidenceSets") -> float:
    """The largest τ that sets may have to allow for; 0 for none."""
    found = shift_of(sets)
    return 0.0 if found is None else allowance(AUTO if found.estimated else found.size)


def resolve_half_life(half_life: int | None) -> int:
    """Check a half-life in rounds; 0 for none."""
    return (
        0
        if half_life is None
        else integer(
            "half_life", half_life, least=SHORTEST, most=LONGEST, hint=" rounds, or None to forget nothing"
        )
    )


def check_forgets(core: "Core") -> None:
    """Refuse learners whose guarantee assumes that rewards never change."""
    if core.sets.arrays.kind != CONSTANT:
        raise SettingError(
            "half_life with confidence sets that have a proof: it assumes that rewards never change. Use economical, confident, "
            "linucb or lints"
        )


def set_half_life(core: "Core", half_life: int, *, timed: bool = False, started: bool = True) -> None:
    """Let rows lose half of their weight in so many rounds (microseconds if `timed`) from now on; 0 stops it.

    If it has not `started`, it begins with the next round.
    """
    core.sets.begin_forgetting(half_life, core.rounds if started and not timed else NEVER, timed=timed)
    core.set_counters(rounds=core.rounds, calls=core.calls)  # a call is worth less if its reward is forgotten
    schedule(core)


def resume(core: "Core") -> None:
    """Go on after loading: what is due next follows from what was saved."""
    a = core.sets.arrays
    if a.half_life and a.fades_from != NEVER:
        core.sets.advance(a.clock)
    schedule(core)


def condition(core: "Core") -> str:
    """What a guarantee says of a world that moves."""
    a, parts = core.sets.arrays, []
    if len(a.start_gram):
        how = "as estimated from live rewards" if a.next_review != NEVER else "as set"
        parts.append(
            f"parameters may have moved between log and live, by {a.shift:g} deviations between actions, {how}"
        )
    if a.half_life:
        length = f"{a.half_life / 86400e6:.3g} days" if a.timed else f"{a.half_life:,} rounds"
        parts.append(
            f"rows lose half of their weight in {length}, so that it holds while parameters hardly move meanwhile"
        )
    return "; ".join(parts)


def restart(core: "Core") -> None:
    """Let forgetting begin with the next round: for a learner that goes on at another round than it was made for."""
    a = core.sets.arrays
    if a.half_life:
        set_half_life(core, a.half_life, timed=bool(a.timed), started=False)


def schedule(core: "Core") -> None:
    """Find the next round before which something is due."""
    a = core.sets.arrays
    a.next_tick = min(a.next_review, NEVER if a.timed or not a.half_life else a.next_fade)
    core.plan_tick(a.next_tick)
    core.check_to = a.check_to
    core.follows_rounds = bool(a.half_life) or a.next_review != NEVER


def tick(core: "Core", rounds: int, *, clock: int | None = None, x: np.ndarray | None = None) -> None:
    """Fade and review what is due before round number `rounds`, whose context is x (d,) if it is known.

    The clock is the number of the round, unless it is given.
    """
    if x is not None:
        check_sizes(x)  # a round that is refused changes nothing
    a, table = core.sets.arrays, core.sets.scratch.observed
    shifted = faded = False
    if a.half_life and (clock is not None or not a.timed):
        faded = core.sets.advance(rounds if clock is None else clock)
    if rounds >= a.next_review:
        size = runs.REVIEW.call(table)
        shifted = a.shift_evidence >= CERTAIN and size > a.shift  # never less than before
        shifted = shifted and core.sets.live_rewards >= a.review_rows
        if shifted:
            core.sets.apply_shift(size)
        _plan_reviews(core, rounds)
    if faded or shifted:
        core.sets.rebuild_pending(core.pending_calls(), every=shifted)
        core.forget_estimates()
    schedule(core)


def _plan_reviews(core: "Core", rounds: int) -> None:
    """Set the round of the next review; `economical` requests rewards from now on that say more about a shift.

    It requests the first ones (`begin_shift`), one whenever the number of rounds has quadrupled, and some after a review that leans
    towards a shift.
    """
    a = core.sets.arrays
    a.next_review = rounds + max(FIRST, rounds // LATER)
    if not core.uses_voi or a.shift:
        return
    wanted = 1 if rounds >= AGAIN * a.checked_at else 0
    if a.shift_evidence > 0:
        wanted = FOLLOWING if a.shift_evidence >= SUSPICIOUS else LEANING
    if wanted:
        a.check_to, a.checked_at = rounds + wanted, rounds


def pass_round(core: "Core", ts: int) -> None:
    """After a round of the service at a time (µs): fade and review what is due."""
    a = core.sets.arrays
    if a.timed and a.half_life:
        if ts >= a.next_fade or core.rounds >= a.next_review:
            tick(core, core.rounds, clock=ts)
        else:
            a.clock = ts
    elif core.rounds >= core.next_tick:
        tick(core, core.rounds)
