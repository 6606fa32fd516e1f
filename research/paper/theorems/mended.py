"""The verdict on `log-beats` by lower confidence limits: beside C8, what a threshold with a guarantee does."""

from collections.abc import Mapping, Sequence

from research.learners import LIMIT
from research.paper.experiment import FAILS, HOLDS, Verdict
from research.paper.theorems.setting import Cell, Setting
from research.paper.theorems.summary import Knowing, Summary
from research.paper.theorems.verdicts import shown


def mended(
    setting: Setting,
    runs: Mapping[Cell, Mapping[str, Summary]],
    by_limits: Sequence[Knowing],
    by_samples: Sequence[Knowing],
) -> Verdict:
    """It holds if, with every θ* known, no seed loses anything by limits, and if at radius_scale 1 runs stay below their bound,
    and their `log-beats` rounds within εS_x, as often as guaranteed."""
    proved = [named[LIMIT] for cell, named in runs.items() if cell.guaranteed]
    kept = all(
        found is None or found.high >= 1 - setting.delta
        for one in proved
        for found in (one.below, one.beaten_kept)
    )
    free = all(row.largest == 0 for row in by_limits)
    known = {row.noise: row for row in by_limits if row.features == setting.main.features}
    at, before = (
        known[setting.noise],
        [
            row.rate
            for row in by_samples
            if (row.features, row.noise) == (setting.main.features, setting.noise)
        ],
    )
    measured = (
        f"with every θ* known, d={at.features}, σ={setting.noise:g}: costs {shown(at.rate)} a round (by one sample "
        f"{' and '.join(shown(rate) for rate in before)}) and skips {shown(at.share)} of rounds, out of {shown(at.most)} whose "
        f"logged action is the best; had the limit to reach the leader's own top, {shown(at.leader)}. "
        f"{'. '.join(_run(cell, named[LIMIT]) for cell, named in runs.items())}"
    )
    by_noise = ", ".join(f"{shown(row.share)} at σ={noise:g}" for noise, row in known.items())
    when = (
        f"what it skips for nothing with every θ* known, {setting.knowing_rows:,} rows: {by_noise}; an answer that is the "
        f"context's logged action is the best one in {shown(at.most)} of rounds only, so that whatever C8's rule skips beyond "
        f"that is paid for"
    )
    says = (
        "log-beats by a lower confidence limit (ours): a skipped round costs at most εS_x, and corrected Theorem 2 bounds the "
        "regret"
    )
    return Verdict("mended", "Theorem 3", says, measured, HOLDS if kept and free else FAILS, when)


def _run(cell: Cell, found: Summary) -> str:
    """What happened in one cell."""
    void = "" if cell.guaranteed else " (guarantee void)"
    return (
        f"In {cell.label}{void}: regret {shown(found.regret)} with {shown(found.calls)} calls, slope {shown(found.slope)}, "
        f"{shown(found.ratio)} of its bound; log-beats answers {shown(found.beaten)} of rounds, at a regret of "
        f"{shown(found.beaten_regret)} in all, none above εS_x in {shown(found.beaten_kept)} of runs; against ε-mOFUL on the same "
        f"random numbers, whose live sets have all of δ and not half, regret is higher by {shown(found.dearer)} and calls are fewer by "
        f"{shown(found.fewer_calls)}"
    )
