"""What to do about a log, from what its audit knows."""

import textwrap
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from sparing.auditing.wording import counted, finding, named, percent

if TYPE_CHECKING:
    from sparing.auditing.summary import Audit

COMMANDS = (
    "sparing plan LOG --call-cost PRICE",
    "sparing learn LOG",
    "--reward-range LOW,HIGH",
    "--actions A,B,…",
)
PLAN = f"How many rewards to ask for: {COMMANDS[0]}"
LEARN = f"Learn from the log and go: {COMMANDS[1]}"
"""What comes next."""

BRIEFLY = 4
"""Names listed before the rest is left out."""

WIDTH = 80
"""Columns of a terminal."""


def recommendation(audit: "Audit") -> str:
    """What to do about the log, first of all: in a sentence or two, from what the audit knows.

    How many rewards it takes to learn what is missing depends on their price: `sparing plan` tells.
    """
    if not audit.rows:
        return "The log has no rows: log some decisions first."
    if audit.actions == 1:
        return (
            f"The log has one action, {_named(list(audit.counts))}: there is nothing to choose between. Name all that may be played "
            f"({COMMANDS[3]}), and audit again."
        )
    missing = _missing(audit)
    if missing and audit.metrics["largest_upside"] == 0:
        return f"{missing}. {LEARN}."
    if missing:
        return f"{missing}. {PLAN}."
    if audit.support == "unknown":
        return (
            "The log does not say what each row could have taken, and has too few rows to estimate it: log eligible sets or "
            "full distributions, and audit again."
        )
    thin = [action for action in audit.per_action if action.rows < audit.features]
    if thin:
        few = min(thin, key=lambda action: action.rows)
        have = (
            f"{counted(len(thin), 'action')} {'has' if len(thin) == 1 else 'have'} fewer rows than features"
        )
        return (
            f"Every action was tried, but {have} ({_named([few.name])}: {counted(few.rows, 'row')}). {PLAN}."
        )
    if audit.verdict == "full":
        return f"Nothing is missing: every row could have taken every action. {LEARN}."
    return f"No gap was found, by estimate. {LEARN}; log eligible sets or full distributions to be sure."


def _missing(audit: "Audit") -> str:
    """What was not tried, never first, and what it is worth at most; nothing where nothing is known to be missing."""
    never, gaps, found = audit.never_logged, audit.gap_map.gaps, audit.gap_map.found
    if never:
        everywhere = [gap for gap in gaps if gap.actions == never]
        text = f"{counted(len(never), 'action')} {_were(never)} never tried ({_named(never)})"
        text += _worth(audit, everywhere[0].upside if everywhere else None, never)
        return text + _others(found - 1)
    if gaps:
        first = gaps[0]
        often = f"hardly ever tried ({counted(first.tried, 'row')})" if first.tried else "never tried"
        noun = "action" if len(first.actions) == 1 else "actions"
        place = f"where {first.where} ({percent(first.share)} of rows)"
        text = place if first.segment.bounds else "everywhere"
        text = text[0].upper() + text[1:] if audit.support == "exact" else f"By estimate, {text}"
        text += f", {noun} {_named(first.actions)} {_were(first.actions)} {often}"
        there = " there" if first.segment.bounds else ""
        return text + _worth(audit, first.upside, first.actions, there) + _others(found - 1)
    if audit.verdict != "deficient":
        return ""
    return finding(audit).rstrip(".") + "; no segment of contexts describes which"


def _named(actions: Sequence[Hashable]) -> str:
    """A few names; one of several words is quoted."""
    return named([f"“{name}”" if " " in str(name) else name for name in actions[: BRIEFLY + 1]], BRIEFLY)


def _were(actions: Sequence[Hashable]) -> str:
    return "was" if len(actions) == 1 else "were"


def _worth(audit: "Audit", upside: float | None, actions: Sequence[Hashable], there: str = "") -> str:
    """What learning the actions is worth, at most; nothing where that is not known.

    A limit beyond the span of mean rewards, or where that is not known of all rewards seen, limits nothing that anybody would expect,
    and is not called one.
    """
    if upside is None:
        return ""
    them = "it" if len(actions) == 1 else "them"
    low, high = audit.mean_range or audit.reward_range or (0.0, 0.0)
    if upside > high - low:
        return f"; the log does not limit what learning {them} is worth (give the range of mean rewards, if they have one: {COMMANDS[2]})"
    worth = f"at most {upside:.3g} a decision{there}" if upside else "nothing, even at best"
    return f"; learning {them} is worth {worth}"


def _others(number: int) -> str:
    return "" if number < 1 else f"; there {'is' if number == 1 else 'are'} {counted(number, 'other gap')}"


def basis(audit: "Audit") -> str:
    """What the recommendation rests on."""
    text = {
        "exact": "What a row could have taken is as logged.",
        "estimated": "What a row could have taken is estimated from what similar contexts tried.",
        "unknown": "What a row could have taken is not known.",
    }[audit.support]
    if audit.assumptions is None or audit.metrics["largest_upside"] is None:
        return text
    sure = "without a guarantee, as the radius is scaled down"
    if audit.assumptions.radius_scale >= 1:
        sure = (
            f"with probability {1 - audit.assumptions.delta:.0%} if rewards are linear and bounded as assumed"
        )
    return f"{text} “At most” is in the reward's unit and holds {sure}; what to expect is less, and sparing plan tells it."


def lines(audit: "Audit") -> list[str]:
    """The recommendation for a terminal."""
    return textwrap.wrap(recommendation(audit), WIDTH, break_on_hyphens=False)
