"""An audit as text: sentences, tables, and the recommendation."""

import textwrap
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from sparing.report.text import counted, join_names, percent

if TYPE_CHECKING:
    from sparing.auditing.audit import Audit
    from sparing.auditing.counts import SupportCounts
    from sparing.auditing.gaps import GapMap
    from sparing.auditing.overlap import PropensityOverlap
    from sparing.log.sketches import DistinctSketch


SURE = 4.0  # standard errors beyond which a difference is not chance
ROUNDING = 1e-6  # a difference this small is rounding
INFORMATIVE = 0.5  # of the range of rewards: a larger upside says nothing
SHOWN_GAPS = 3
MOST_ACTIONS = 40  # in a table, the least logged first

COLUMNS = {
    "zero": " Zero: share of rows that gave it probability 0.",
    "ineligible": " Ineligible: share of rows that did not have it in their eligible set.",
    "undecided": "",
}
"""Optional columns of the table of actions, and what they mean."""


def headline(audit: "Audit") -> str:
    """The finding: what could not be logged, then the gap with the largest upside."""
    found = finding(audit)
    if not audit.gap_map.gaps:
        return found
    first, *others = audit.gap_map.gaps
    if first.actions != audit.never_logged:
        return f"{found} The first gap is {first}."
    return f"{found} The first of the other gaps is {others[0]}." if others else found


def finding(audit: "Audit") -> str:
    if not audit.rows:
        return "The log has no rows: nothing is known of any action."
    share, chances = audit.unsupported_share, audit.implied_unsupported
    few = f"of the {audit.actions} actions, on average"
    text = ""
    if share:
        text = f"A row could not have taken {percent(share)} {few}"
    elif chances is not None and audit.implied_deficient:
        text = f"By its propensities, a row had no chance, or next to none, of {percent(chances[0])} {few}"
    elif audit.estimated_unsupported_share and not audit.implied:
        text = f"By estimate, similar contexts lack {percent(audit.estimated_unsupported_share)} {few}"
    never = audit.never_logged
    if never:
        text += f"{'; ' if text else ''}{counted(len(never), 'action')} never tried ({join_names(never)})"
    if text:
        return f"{text}."
    if audit.support == "exact":
        return "Every action could have been logged in every row."
    unnamed = "The log does not say which actions a row could have taken."
    if audit.gap_map.found:
        return unnamed
    limit = visible(audit)
    return f"{unnamed} No gap was found; {limit}."


def visible(audit: "Audit") -> str:
    """How small a gap could have been seen in a log that does not name what a row could have taken."""
    if audit.estimate is not None:
        return audit.estimate.limit[0].lower() + audit.estimate.limit[1:]
    if audit.support == "unknown":
        return f"with {counted(audit.rows, 'row')} no gap can be seen"
    return "the log does not say how small a gap could have been seen when its support was estimated"


def summary(audit: "Audit") -> Iterator[str]:
    lines = facts(audit)
    yield lines.pop("log")
    for name, text in lines.items():
        all_tried = name == "never tried" and not audit.never_logged
        yield "every action was tried" if all_tried else f"{name}: {text}"
    if audit.assumptions is not None:
        yield f"certified: {certified(audit)}"
    if audit.policy is not None:
        yield f"policy: {policy(audit)}"
    yield from _gaps(audit)
    yield from (f"note: {note}" for note in audit.notes)


def facts(audit: "Audit") -> dict[str, str]:
    """The log's size, counts, support, propensities and rewards, each in a few words."""
    rows, never, rewards = audit.counts.values(), audit.never_logged, "none logged"
    fall = "they fall nowhere fast"
    if audit.elbow:
        fall = f"they fall fast after {counted(audit.elbow, 'action')}"
    if audit.reward_range is not None:
        low, high = audit.reward_range
        rewards = f"mean {audit.reward_mean:.4g}, from {low:.4g} to {high:.4g}"
    sizes = (audit.rows, audit.actions, audit.features)
    about = "" if audit.contexts_counted else "about "
    contexts = about + counted(audit.distinct_contexts, "distinct context")
    return {
        "log": ", ".join([*map(counted, sizes, ("row", "action", "feature")), contexts]),
        "rows per action": f"{min(rows):,} to {max(rows):,}; {fall}",
        "never tried": f"{counted(len(never), 'action')} ({join_names(never)})" if never else "none",
        "support": support(audit),
        "propensities": propensities(audit),
        "rewards": rewards,
    }


def support(audit: "Audit") -> str:
    """Of which kind the support is, and how much is missing."""
    share, estimated = audit.unsupported_share, audit.estimated_unsupported_share
    text = audit.support
    if share is not None:
        text += f"; a row could not have taken {percent(share)} of the actions, on average"
    elif audit.implied:
        text += f"; {implied(audit)}"
    elif estimated is not None:
        left = "" if audit.estimate is None else f" ({percent(audit.estimate.undecided_share)} undecided)"
        lack = f"{percent(estimated)} of the actions, on average" if estimated else "no action"
        text += f"; similar contexts lack {lack}{left}; a single context may lack more"
    elif audit.support == "unknown":
        text += " (log eligible sets or full distributions to know it)"
    return text


def implied(audit: "Audit") -> str:
    """What the logged propensities imply of the actions that a row lacks."""
    found = audit.implied_unsupported
    assert found is not None
    share, error = max(0.0, found[0]), f"standard error {percent(found[1])}"
    if audit.implied_deficient:
        return f"by the logged propensities a row lacks {percent(share)} of the actions ({error})"
    return f"by the logged propensities a row lacks no action, up to chance ({percent(share)}, {error})"


def propensities(audit: "Audit") -> str:
    """Their range and what it leaves of the sample."""
    overlap = audit.overlap
    if overlap is None:
        return "none logged"
    about = "estimated, " if overlap.source == "estimated" else ""
    return (
        f"{about}{overlap.smallest:.3g} to {overlap.largest:.3g}; P90/P10 {overlap.percentile_ratio:.3g}; "
        f"effective sample size {overlap.effective_sample_size:,.0f} of {overlap.rows:,}"
        f"{'; INCONSISTENT' if overlap.inconsistent else ''}"
    )


def certified(audit: "Audit") -> str:
    """The ε-supported set, and on what it rests."""
    if audit.assumptions is None:
        return "the log is too small to certify anything"
    text = f"{join_names(audit.certified) if audit.certified else 'no action'} within {audit.error:g}"
    tried = [action for action in audit.per_action if action.rows]
    if tried and not audit.certified:
        best = min(tried, key=lambda action: action.certified_error or 0)
        text += f"; the smallest certified error of the parameters of a tried one is {best.certified_error:.3g} (action {best.name})"
    return "; ".join(filter(None, [text, audit.assumptions.conditions]))


def policy(audit: "Audit") -> str:
    """What the target policy does outside the support, and what that does to IPS."""
    target = audit.policy
    assert target is not None
    if target.unsupported_mass is None or target.bias is None:
        text = (
            f"support unknown; {percent(target.never_logged_mass)} of its decisions are actions never logged"
        )
    else:
        about = "" if target.support == "exact" else "by estimated support, "
        share = percent(target.unsupported_mass)
        if audit.implied and target.implied_mass is not None:
            about, share = (
                "by the logged propensities, ",
                f"{share} (standard error {percent(target.implied_mass[1])})",
            )
        whose = "given" if target.range_given else "observed"
        text = (
            f"{about}{share} of its decisions are unsupported; the bias of IPS is between "
            f"{target.bias[0]:.4g} and {target.bias[1]:.4g} (mean rewards within the {whose} range "
            f"{target.reward_range[0]:.4g} to {target.reward_range[1]:.4g})"
        )
    if target.effective_sample_size is not None:
        text += f"; effective sample size {target.effective_sample_size:,.0f}"
    return text


def upside(audit: "Audit") -> str:
    """What the gaps' upside is, and how sure; nothing where none says anything."""
    assumptions = audit.assumptions
    if assumptions is None or not any_informative(audit):
        return ""
    sure = f"with probability {1 - assumptions.delta:.0%} if the assumptions hold"
    if assumptions.radius_scale < 1:
        sure = f"without a guarantee, as the confidence radius is scaled by {assumptions.radius_scale:g}"
    return (
        "Upside: mean over the segment's contexts of max(0, largest possible value of the untried actions − smallest "
        f"possible value of the best supported one); {sure}. Unknown: the log does not limit it to less than half of the "
        "rewards' range."
    )


def informative(audit: "Audit", upside: float | None) -> bool:
    """Whether an upside says more than that rewards have a range: it is at most half of that."""
    low, high = audit.mean_range or audit.reward_range or (0.0, 0.0)
    return upside is not None and upside <= INFORMATIVE * (high - low)


def any_informative(audit: "Audit") -> bool:
    """Whether the upside of some gap is informative."""
    return any(informative(audit, gap.upside) for gap in audit.gap_map.gaps)


def coverage(audit: "Audit") -> str:
    share = audit.gap_map.coverage
    if share is None or not audit.gap_map.gaps or audit.support == "unknown":
        return ""
    return f"{percent(share)} of the missing (row, action) pairs"


def _gaps(audit: "Audit") -> Iterator[str]:
    gaps = audit.gap_map.gaps
    if gaps:
        order = ", largest first" if gaps[0].upside is None else ""
        if informative(audit, gaps[0].upside):
            order = ", largest upside first"
        held = coverage(audit)
        yield f"gaps{order}{f'; they explain {held}' if held else ''}:"
        for gap in gaps[:SHOWN_GAPS]:
            limit = f"; upside at most {gap.upside:.3g}" if informative(audit, gap.upside) else ""
            yield f"  {gap}{limit}"
        rest = audit.gap_map.found - len(gaps[:SHOWN_GAPS])
        if rest:
            yield f"  and {rest} more"
    elif audit.unsupported_share:
        yield "gaps: no segment of contexts describes them; what is missing changes from context to context"
    elif audit.support != "exact" and audit.rows:
        yield f"gaps: none found; {visible(audit)}"


def further_notes(
    rows: int,
    overlap: "PropensityOverlap | None",
    sets: "SupportCounts | None",
    gaps: "GapMap",
    contexts: "DistinctSketch | None",
) -> Iterator[str]:
    """Notes on the propensities, the gap map and the contexts of a log of so many rows."""
    if overlap is not None and overlap.inconsistent:
        yield (
            f"Propensities are inconsistent (mean weight {overlap.mean_weight:.3g}, should be about 1): they are not the probabilities with "
            "which the logged actions were chosen. Check the column before you use ips, snips or dr."
        )
    mean, error = (overlap and overlap.contradiction) or (0.0, 0.0)
    if sets is not None and abs(mean) > SURE * error + ROUNDING * len(sets.rows_with):
        why = "Some propensities are too small, or the support is too narrow."
        if mean < 0:
            why = "Actions in the support had no chance, or next to none."
        yield (
            f"The propensities contradict the support: the mean of 1/propensity is {sets.mean_size + mean:.4g}, which is "
            f"the number of actions with a chance, but the support names {sets.mean_size:.4g} a row. {why}"
        )
    if gaps.searched < rows:
        yield (
            f"Segments were searched in a random {gaps.searched:,} of the {rows:,} rows; their sizes, shares "
            "and tries are from all rows."
        )
    if contexts is not None and not contexts.exact:
        yield (
            f"There are about {contexts.count:,} distinct contexts: beyond {len(contexts.hashes):,} their number is "
            f"estimated, to about {len(contexts.hashes) ** -0.5:.1%}."
        )


def sampled_note(some: int, rows: int, *, propensities: bool) -> str:
    """That the support, and with it the propensities, rest on a part of the rows."""
    what = "support and the propensities were" if propensities else "support was"
    return (
        f"The {what} estimated on a random {some:,} of {rows:,} rows; shares, sizes and quantiles that "
        "rest on it are of those rows."
    )


def action_table(audit: "Audit", most: int = MOST_ACTIONS) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and rows of the table of actions, the least supported and least logged first."""
    actions = sorted(
        audit.per_action, key=lambda a: (a.supported if a.supported is not None else 1, a.rows, str(a.name))
    )[:most]
    columns = {
        "action": [str(a.name) for a in actions],
        "rows": [f"{a.rows:,}" for a in actions],
        "of rows": [_share(a.share) for a in actions],
        "supported": [_share(a.supported) for a in actions],
        **{name: [_share(getattr(a, name)) for a in actions] for name in _known_columns(audit)},
        "rare": [_share(a.rare) for a in actions],
        "parameter error ≤": [
            _number(a.certified_error if a.rows else None) + " ✓" * a.certified for a in actions
        ],
    }
    return list(columns), list(zip(*columns.values(), strict=True))


def _known_columns(audit: "Audit") -> list[str]:
    return [name for name in COLUMNS if getattr(audit.per_action[0], name) is not None]


def gap_table(audit: "Audit") -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the table of gaps, numbered as in the figure; the upside is a column where it says something."""
    header: tuple[str, ...] = ("where", "actions", "tried", "of rows")
    rows: list[tuple[str, ...]] = [
        (
            f"S{number}: {gap.where}",
            join_names(gap.actions),
            counted(gap.tried, "row") if gap.tried else "never",
            percent(gap.share),
        )
        for number, gap in enumerate(audit.gap_map.gaps, start=1)
    ]
    if any_informative(audit):
        limits = [
            f"{gap.upside:.3g}" if informative(audit, gap.upside) else "unknown" for gap in audit.gap_map.gaps
        ]
        header, rows = (
            (*header, "upside at most"),
            [(*row, limit) for row, limit in zip(rows, limits, strict=True)],
        )
    return header, rows


def legend(audit: "Audit") -> str:
    """What the columns of the table of actions mean for this log."""
    supported = {
        "exact": "Supported: share of rows that could have taken the action.",
        "estimated": "Supported: share of rows that could have taken the action, by estimate.",
        "unknown": "What a row could have taken is unknown.",
    }[audit.support]
    if audit.implied:
        supported = (
            "Supported: share of rows that could have taken the action, by the logged propensities (mean of 1/propensity "
            "over its rows)."
        )
    columns = _known_columns(audit)
    how = "probability" if "zero" in columns else "share of the supported rows"
    return (
        f"{supported}{''.join(COLUMNS[name] for name in columns)} Rare: share of rows in which it is supported, but with "
        f"a {how} below {audit.rare:g}. Parameter error ≤: certified bound on the distance between estimated and true "
        f"parameters, for all actions at once (–: never tried, so only as far as parameters are assumed to go); ✓ marks those "
        f"within {audit.error:g}."
    )


def _share(share: float | None) -> str:
    return "unknown" if share is None else percent(min(1.0, share))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


COMMANDS = (
    "sparing plan LOG --call-cost PRICE",
    "sparing learn LOG",
    "--reward-range LOW,HIGH",
    "--actions A,B,…",
)
PLAN = f"How many rewards to request: {COMMANDS[0]}"
LEARN = f"Learn from the log and go: {COMMANDS[1]}"

BRIEFLY = 4  # names listed before the rest is left out
WIDTH = 80  # columns of a terminal


def recommendation(audit: "Audit") -> str:
    """What to do next about the log, in a sentence or two.

    How many rewards it takes to learn what is missing depends on their price; `sparing plan` computes it.
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
    return f"No gap was found, by estimate; {visible(audit)}. {LEARN}; log eligible sets or full distributions to be sure."


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
    return join_names([f"“{name}”" if " " in str(name) else name for name in actions[: BRIEFLY + 1]], BRIEFLY)


def _were(actions: Sequence[Hashable]) -> str:
    return "was" if len(actions) == 1 else "were"


def _worth(audit: "Audit", upside: float | None, actions: Sequence[Hashable], there: str = "") -> str:
    """What learning the actions is worth, at most; nothing where that is not known or says nothing."""
    if upside is None:
        return ""
    them = "it" if len(actions) == 1 else "them"
    if not informative(audit, upside):
        low, high = audit.reward_range or (0.0, 0.0)
        unlimited = audit.mean_range is None and upside > high - low
        give = f" (give the range of mean rewards, if they have one: {COMMANDS[2]})" if unlimited else ""
        return f"; the log cannot tell what learning {them} is worth{give}"
    worth = f"at most {upside:.3g} a decision{there}" if upside else "nothing, even at best"
    return f"; learning {them} is worth {worth}"


def _others(number: int) -> str:
    return "" if number < 1 else f"; there {'is' if number == 1 else 'are'} {counted(number, 'other gap')}"


def recommendation_basis(audit: "Audit") -> str:
    """What the recommendation rests on."""
    text = {
        "exact": "What a row could have taken is as logged.",
        "estimated": "What a row could have taken is estimated from the rows.",
        "unknown": "What a row could have taken is not known.",
    }[audit.support]
    if audit.assumptions is None or not any_informative(audit):
        return text
    sure = "without a guarantee, as the radius is scaled down"
    if audit.assumptions.radius_scale >= 1:
        sure = (
            f"with probability {1 - audit.assumptions.delta:.0%} if rewards are linear and bounded as assumed"
        )
    return f"{text} “At most” is in the reward's unit and holds {sure}; the expected value is less; sparing plan computes it."


def lines(audit: "Audit") -> list[str]:
    return textwrap.wrap(recommendation(audit), WIDTH, break_on_hyphens=False)
