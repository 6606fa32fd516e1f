"""What needs a look, in sentences, and what was checked and is well."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from sparing.log.labels import as_text, cut
from sparing.report.text import counted
from sparing.service import events
from sparing.service.model import Model
from sparing.service.outside import FAR, Outside
from sparing.service.overview import Action, Look, SampleRatio, Spend

UNLIKELY = 0.001
"""A sample ratio with a smaller p-value is not chance."""

NAMED = 3
"""Actions that a sentence names."""

MANY_EXPIRED, MOST_EXPIRED = 0.1, 0.5
"""Shares of the last calls without a reward that need a look, and an urgent one."""

ENOUGH = 20
"""Calls from which a share, or a surprise, says something."""

URGENCY = {"alarm": 0, "warning": 1, "good": 2}
Level = Literal["good", "warning", "alarm"]


class Facts(NamedTuple):
    """What the sentences are about; `closed` are the kinds of the last outcomes, `ill` why the service is not well."""

    actions: Sequence[Action]
    spend: Spend
    ratio: SampleRatio | None
    rewarded: int
    closed: Sequence[str]
    left_out: int
    """Hours that the comparison leaves out, because the budget was used up."""
    ill: Sequence[str]
    looked: int = 0
    """Decisions whose numbers were looked at."""
    outside: Sequence[Outside] = ()


def looks(model: Model, facts: Facts) -> list[Look]:
    """All sentences, the most urgent first."""
    found = [
        *(Look("alarm", text) for text in facts.ill),
        *_ratio(facts.ratio),
        *_surprise(model),
        *_budget(facts),
        *_rewards(facts),
        *_outside(facts),
        *_untried(facts.actions, 2 * model.learner.n_features),
        *_fit(model),
    ]
    return sorted(found, key=lambda look: URGENCY[look.level])


def _ratio(ratio: SampleRatio | None) -> Iterator[Look]:
    if ratio is None:
        return
    shares = f"{ratio.seen:.2%} of those served are in the holdout, {ratio.asked:.2%} were asked for"
    if ratio.p < UNLIKELY:
        yield Look(
            "alarm",
            f"{shares} (p = {ratio.p:.1g}): some requests are lost or repeated in one arm, and the comparison cannot be trusted",
        )
    else:
        yield Look("good", f"{shares}: no more than chance (p = {ratio.p:.2g})")


def _surprise(model: Model) -> Iterator[Look]:
    monitor = model.learner.monitor
    if monitor is None or not monitor.calls:
        return
    how = f"mean squared surprise {monitor.surprise:.2f} over {counted(monitor.calls, 'live reward')}, 1 expected"
    if monitor.inflation > 1:
        yield Look(
            "alarm",
            f"Live rewards are noisier than the log said ({how}); the noise is taken {monitor.inflation:.2g} times as large",
        )
    elif monitor.calls >= ENOUGH:
        yield Look("good", f"Live rewards are as the model expects them ({how})")


def _budget(facts: Facts) -> Iterator[Look]:
    spend = facts.spend
    if spend.budget_calls is not None:
        used = f"{spend.period_calls:,} of {counted(spend.budget_calls, 'call')} of this period are used"
        if spend.period_calls >= spend.budget_calls:
            yield Look("alarm", f"{used} up: nothing is asked for, nor measured, until {spend.period_ends}")
        elif spend.runs_out is not None:
            yield Look(
                "warning",
                f"{used}; at the last day's rate the rest is by {spend.runs_out}, before the period ends",
            )
        else:
            yield Look("good", f"{used}; at the last day's rate the rest will last")
    if spend.most_open is not None and spend.open >= spend.most_open:
        yield Look(
            "warning", f"{spend.open:,} rewards are open, as many as most_open allows: no more are asked for"
        )
    if facts.left_out:
        yield Look(
            "warning",
            f"The comparison leaves out {counted(facts.left_out, 'hour')} in which the budget was used up or too much was open",
        )


def _rewards(facts: Facts) -> Iterator[Look]:
    """Rewards that are awaited, and how many of the last ones never came."""
    awaited = f"{counted(facts.spend.open, 'reward')} awaited"
    closed, expired = len(facts.closed), sum(kind == events.EXPIRED for kind in facts.closed)
    if not closed:
        if facts.spend.open >= ENOUGH and not facts.rewarded:
            yield Look("warning", f"{awaited}, and none has come yet: are they sent?")
        return
    text = (
        f"{awaited}; of the last {counted(closed, 'closed call')} {expired / closed:.0%} expired without one"
    )
    level: Level = "good"
    if closed >= ENOUGH and expired > MANY_EXPIRED * closed:
        level = "alarm" if expired > MOST_EXPIRED * closed else "warning"
        text += ": a longer reward_window may help"
    yield Look(level, text)


def _outside(facts: Facts) -> Iterator[Look]:
    """Numbers of the last decisions that lie far from the log's."""
    for one in facts.outside[:NAMED]:
        yield Look(
            "warning",
            f"{cut(one.column)} is {FAR:g} deviations or more from the log's mean in {one.far:,} of the last {counted(one.decisions, 'decision')} "
            f"(as far as {one.furthest:.4g}): the log tells little of such contexts, and a reward there weighs much. Is the unit the log's?",
        )
    if facts.looked and not facts.outside:
        yield Look(
            "good",
            f"No number in the last {counted(facts.looked, 'decision')} is {FAR:g} deviations from the log's mean",
        )


def _untried(actions: Sequence[Action], enough: int) -> Iterator[Look]:
    """Actions that the log never tried, and how far they are from being learnt live."""
    never = [one for one in actions if one.learnt == "never tried" and not one.retired]
    if not never:
        yield Look("good", "The log tried every action that is played")
        return
    few = sorted((one for one in never if one.live < enough), key=lambda one: one.live)
    if not few:
        yield Look("good", f"Every action that the log never tried has had {enough} live rewards or more")
        return
    named = ", ".join(
        f"{cut(as_text(one.label))} ({counted(one.live, 'live reward')} so far)" for one in few[:NAMED]
    )
    more = f" and {len(few) - NAMED:,} more" if len(few) > NAMED else ""
    yield Look("warning", f"Never tried by the log, and little known yet: {named}{more}")


def _fit(model: Model) -> Iterator[Look]:
    """What the test of the log's fit has said when the learner was made."""
    said = model.learner.fit
    if "NOT linear" in said:
        yield Look("warning", said[0].upper() + said[1:])
    elif "no sign" in said:
        yield Look("good", said[0].upper() + said[1:])


def disagreeing(workers: Sequence[tuple[str, int, bytes]]) -> list[str]:
    """Workers that have applied the same events and hold another state."""
    states: dict[int, set[bytes]] = {}
    for _, seq, digest in workers:
        states.setdefault(seq, set()).add(digest)
    return [
        f"Workers hold different states after event {seq}: {', '.join(name for name, at, _ in workers if at == seq)}. Restart them, and run sparing verify"
        for seq, digests in sorted(states.items())
        if len(digests) > 1
    ]
