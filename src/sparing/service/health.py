"""Health checks: sentences about problems of an experiment or its service, and about checks that passed."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from sparing.errors import SparingError
from sparing.log.features.cells import is_missing
from sparing.log.features.columns import NumberColumn, RawColumn
from sparing.log.labels import label_text, truncate
from sparing.online.alarms import CHANGES, NOISIER, REFERENCE
from sparing.report.text import counted
from sparing.service import events
from sparing.service.experiment import ExperimentState
from sparing.service.messages import Action, Look, Overview, SampleRatio, Shift, Spend
from sparing.service.store import Store

# Standard deviations from the log's mean: by Chebyshev's inequality at most 1 in FAR² of the log's rows are so far.
FAR = 10.0

UNSEEN = 0.01  # share of the last decisions with unseen values in a column for a warning

# Recent decisions to check, searched among so many events.
LAST, LATELY = 200, 50_000
LARGEST = 2**16  # bytes of a context to check

UNLIKELY = 0.001  # p-value below which a sample ratio mismatch is reported
NAMED = 3  # actions listed in a sentence
# Shares of expired calls for a warning and for an alarm.
MANY_EXPIRED, MOST_EXPIRED = 0.1, 0.5

ENOUGH = 20  # calls needed to report a share or a residual
URGENCY = {"alarm": 0, "warning": 1, "good": 2}
Severity = Literal["good", "warning", "alarm"]


OUTSIDE = {
    "category": "a value that the log never had; rewards there are predicted from the other columns until they are learnt",
    "text": "no word that texts of the log share; rewards there are predicted from the other columns until they are learnt",
    "number": "a number outside the log's range, to which it is clipped",
}
"""What a column has of which the log shows nothing, by its kind."""


async def out_of_range(store: Store, model: ExperimentState, upto: int) -> list[Look]:
    """Check the last decisions for numbers far from the log's mean, and for values of which the log shows nothing."""
    encoder = model.learner.encoder
    if encoder.is_raw:
        return []
    found = await store.driver.read(
        "select context from decisions where experiment = $1 and seq > $2 and seq <= $3 and length(context) <= $4 "
        "and served_id is null order by seq desc limit $5",
        *(model.experiment, upto - LATELY, upto, LARGEST, LAST),
    )
    numbers, rows, unseen, some = _numbers(model), [], Counter[str](), 0
    for (stored,) in found:
        with contextlib.suppress(SparingError):  # one that the present encoder cannot read
            x, row = model.context(bytes(stored)), events.unpack_context(bytes(stored))
            if isinstance(row, dict):
                names = encoder.unseen(row)
                unseen.update(names)
                some += bool(names)
            else:
                row = {each.column: x[place] * each.scale + each.mean for each, place in numbers}
            rows.append(row)
    last, looks = f"the last {counted(len(rows), 'decision')}", list[Look]()
    for column, _ in numbers:
        looks += _far(column, [row[column.column] for row in rows], last)
    for name, many in unseen.most_common():
        if many >= UNSEEN * len(rows):
            what = OUTSIDE.get(encoder.by_column[name].kind, OUTSIDE["number"])
            share = f"{many:,} of {last} ({many / len(rows):.0%})"
            looks.append(
                Look("warning", f"{truncate(name)} has {what}: {share}. Check it, or import a newer log")
            )
    if not rows or looks:
        return looks[: 2 * NAMED]
    outside = f"{some:,} of them" if some else "none of them"
    return [
        Look(
            "good",
            f"No number in {last} is {FAR:g} or more standard deviations from the log's mean; {outside} have values that the log never had",
        )
    ]


def _numbers(model: ExperimentState) -> list[tuple[NumberColumn, int]]:
    encoder = model.learner.encoder
    starts = itertools.accumulate((len(each.names) for each in encoder.columns), initial=encoder.linear.start)
    return [
        (column, place)
        for column, place in zip(encoder.columns, starts, strict=False)
        if isinstance(column, NumberColumn) and not isinstance(column, RawColumn)
    ]


def _far(column: NumberColumn, values: Sequence[Any], last: str) -> Iterator[Look]:
    numbers = np.array([column.mean if is_missing(value) else column.number(value) for value in values])
    deviations = np.abs(numbers - column.mean) / column.scale
    far = int((deviations >= FAR).sum())
    if far:
        yield Look(
            "warning",
            f"{truncate(column.column)} is {FAR:g} or more standard deviations from the log's mean in {far:,} of {last} "
            f"(most extreme: {numbers[deviations.argmax()]:.4g}). The log has little data there. Check that the unit is the same as in the log",
        )


def health_checks(
    model: ExperimentState, page: Overview, closed: Sequence[str], left_out: int, outside: Sequence[Look]
) -> list[Look]:
    """Return all checks, the urgent ones first, from the rest of the page.

    `closed` are the kinds of the last outcomes, `left_out` the hours with decisions that the comparison leaves out because the
    budget was used up, and `outside` is from `out_of_range`.
    """
    found = [
        *_ratio(page.headline.sample_ratio),
        *_residuals(model),
        *_shift(page.shift),
        *_changes(model),
        *_budget(page.spend, left_out),
        *_rewards(page, closed),
        *outside,
        *_untried(page.actions, 2 * model.learner.n_features),
        *_fit(model),
    ]
    return sorted(found, key=lambda look: URGENCY[look.level])


def _ratio(ratio: SampleRatio | None) -> Iterator[Look]:
    if ratio is None:
        return
    shares = f"The holdout received {ratio.seen:.2%} of the traffic; {ratio.asked:.2%} is configured"
    if ratio.p < UNLIKELY:
        yield Look(
            "alarm",
            f"{shares} (p = {ratio.p:.1g}): requests of one variant are lost or repeated, so the comparison is not reliable",
        )
    else:
        yield Look("good", f"{shares}; the difference is within chance (p = {ratio.p:.2g})")


def _residuals(model: ExperimentState) -> Iterator[Look]:
    monitor = model.learner.monitor
    if monitor is None or not monitor.calls:
        return
    how = f"mean standardised squared residual {monitor.mean_squared_residual:.2f} over {counted(monitor.calls, 'live reward')}, 1 expected"
    if monitor.inflation > 1:
        yield Look(
            "alarm",
            f"Live rewards are noisier than the log ({how}); the assumed noise is now {monitor.inflation:.2g} times as large",
        )
    elif monitor.calls >= ENOUGH:
        yield Look("good", f"Live rewards are as the model expects ({how})")


def _shift(found: Shift | None) -> Iterator[Look]:
    if found is None:
        return
    if found.size and found.estimated:
        yield Look(
            "warning",
            f"Live rewards differ from the log's: parameters moved by about {found.size:g} times what actions differ by. The learner takes the log "
            "for less certain",
        )
    elif found.estimated:
        yield Look("good", "Live rewards show no shift from the log so far")


def _changes(model: ExperimentState) -> Iterator[Look]:
    """Say which changes of rewards and contexts were found, by alarms that may be looked at every day."""
    learner = model.learner
    for alarm in learner.alarms[: 2 * NAMED]:
        times = f"since about {events.time_text(alarm.since)} (found {events.time_text(alarm.raised)})"
        if alarm.about == "contexts":
            yield Look(
                "warning",
                f"Contexts are not like the log's: the mean of {truncate(str(alarm.name))} is {alarm.change} {times}. Check it, or import a newer log",
            )
            continue
        whose = "all actions together" if alarm.name is None else truncate(label_text(alarm.name))
        what = (
            "scatter more around their predictions than"
            if alarm.change == CHANGES[NOISIER]
            else f"are {alarm.change}, compared with their predictions, than"
        )
        yield Look(
            "alarm",
            f"The world has changed: rewards of {whose} {what} the first {REFERENCE} did, {times}. Import a newer log",
        )


def _budget(spend: Spend, left_out: int) -> Iterator[Look]:
    if spend.budget_calls is not None:
        used = f"{spend.period_calls:,} of {counted(spend.budget_calls, 'call')} of this period are used"
        if spend.period_calls >= spend.budget_calls:
            yield Look("alarm", f"{used} up: no reward is requested or measured until {spend.period_ends}")
        elif spend.runs_out is not None:
            yield Look(
                "warning",
                f"{used}; at the last day's rate the budget runs out at {spend.runs_out}, before the period ends",
            )
        else:
            yield Look("good", f"{used}; at the last day's rate the budget lasts")
    if spend.most_open is not None and spend.open >= spend.most_open:
        yield Look(
            "warning",
            f"{spend.open:,} reward calls are pending, as many as most_open allows: no more are made",
        )
    if left_out:
        yield Look(
            "warning",
            f"The comparison leaves out decisions while the budget was used up or too many calls were pending, in {counted(left_out, 'hour')}",
        )


def _rewards(page: Overview, kinds: Sequence[str]) -> Iterator[Look]:
    """Check for pending calls without rewards, and for expired ones."""
    awaited = f"{counted(page.spend.open, 'reward call')} pending"
    closed, expired = len(kinds), sum(kind == events.EXPIRED for kind in kinds)
    if not closed:
        if page.spend.open >= ENOUGH and not page.rewarded:
            yield Look("warning", f"{awaited}, and no reward has arrived yet. Check that rewards are sent")
        return
    text = f"{awaited}; of the last {counted(closed, 'closed call')} {expired / closed:.0%} expired without a reward"
    level: Severity = "good"
    if closed >= ENOUGH and expired > MANY_EXPIRED * closed:
        level = "alarm" if expired > MOST_EXPIRED * closed else "warning"
        text += ": set a longer reward_window"
    yield Look(level, text)


def _untried(actions: Sequence[Action], enough: int) -> Iterator[Look]:
    """List actions that were never logged and have few live rewards."""
    never = [one for one in actions if one.learnt == "never tried" and not one.retired]
    if not never:
        yield Look("good", "The log has rows of every active action")
        return
    few = sorted((one for one in never if one.live < enough), key=lambda one: one.live)
    if not few:
        yield Look("good", f"Every action without a logged row has {enough} or more live rewards")
        return
    named = ", ".join(
        f"{truncate(label_text(one.label))} ({counted(one.live, 'live reward')} so far)"
        for one in few[:NAMED]
    )
    more = f" and {len(few) - NAMED:,} more" if len(few) > NAMED else ""
    yield Look("warning", f"Never tried in the log, and few live rewards yet: {named}{more}")


def _fit(model: ExperimentState) -> Iterator[Look]:
    said = model.learner.fit
    if "NOT linear" in said:
        yield Look("warning", said[0].upper() + said[1:])
    elif "no sign" in said:
        yield Look("good", said[0].upper() + said[1:])


def disagreeing(workers: Sequence[tuple[str, int, bytes]]) -> list[str]:
    """List workers that have applied the same events and have different states."""
    states: dict[int, set[bytes]] = {}
    for _, seq, digest in workers:
        states.setdefault(seq, set()).add(digest)
    return [
        f"Workers have different states after event {seq}: {', '.join(name for name, at, _ in workers if at == seq)}. Restart them and run sparing verify"
        for seq, digests in sorted(states.items())
        if len(digests) > 1
    ]
