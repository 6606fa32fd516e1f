"""The audit's tables and page."""

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sparing.auditing import Audit, sentences
from sparing.auditing import figures as pictures
from sparing.auditing.overlap import PolicyAudit
from sparing.auditing.wording import counted, named, percent
from sparing.report import figures, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAP_HEADER = ("where", "actions", "tried", "of rows", "upside at most")

MOST_ACTIONS = 40
"""Actions in a table; those the log knows least come first."""


def action_table(audit: Audit, most: int = MOST_ACTIONS) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of actions, the least supported and least logged first."""
    actions = sorted(
        audit.per_action, key=lambda a: (a.supported if a.supported is not None else 1, a.rows, str(a.name))
    )[:most]
    columns: dict[str, list[str]] = {
        "action": [str(a.name) for a in actions],
        "rows": [f"{a.rows:,}" for a in actions],
        "of rows": [_share(a.share) for a in actions],
        "supported": [_share(a.supported) for a in actions],
    }
    for name in ("zero", "ineligible", "undecided", "implied"):
        values = [getattr(a, name) for a in actions]
        if values[0] is not None:
            columns[name] = [percent(min(1.0, value)) for value in values]
    columns["rare"] = [_share(a.rare) for a in actions]
    columns["error ≤"] = [_number(a.certified_error) + " ✓" * a.certified for a in actions]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def gap_rows(audit: Audit) -> list[tuple[str, ...]]:
    """The table of gaps, numbered as in the figure."""
    return [
        (
            f"S{number}: {gap.where}",
            named(gap.actions),
            "never" if not gap.tried else counted(gap.tried, "row"),
            percent(gap.share),
            _number(gap.upside),
        )
        for number, gap in enumerate(audit.gap_map.gaps, start=1)
    ]


def legend(audit: Audit) -> str:
    """What the columns of the table of actions mean for this log."""
    first = audit.per_action[0]
    parts = {
        "exact": "Supported: share of rows that could have taken the action",
        "estimated": "Supported: the same by estimate; undecided pairs count as supported where similar contexts "
        "have tried the action",
        "unknown": "What a row could have taken is unknown",
    }[audit.support] + "."
    if first.zero is not None:
        parts += " Zero: share of rows that gave it probability 0."
    if first.ineligible is not None:
        parts += " Ineligible: share of rows that did not have it in their eligible set."
    if first.implied is not None:
        parts += (
            " Implied: supported share by the logged propensities, the mean of 1/propensity over its rows."
        )
    how = "probability" if first.zero is not None else "share of the supported rows"
    return (
        f"{parts} Rare: share of rows in which it is supported, but with a {how} below {audit.rare:g}. Error ≤: "
        "certified bound on the distance between estimated and true parameters, for all actions at once; ✓ marks those "
        f"within {audit.error:g}."
    )


def write(audit: Audit, path: str | os.PathLike[str], *, title: str = "the log") -> None:
    """Write the audit as one self-contained page."""
    page.write_page(path, page.page(f"sparing audit: {title}", _parts(audit)))


def _parts(audit: Audit) -> list[str]:
    parts = [page.paragraph(audit.headline, kind="lead")]
    if audit.support != "exact":
        parts.append(page.paragraph(_warning(audit), kind="warning"))
    parts += [page.facts(_facts(audit)), page.heading("Actions")]
    header, rows = action_table(audit)
    parts += [
        *_drawn(pictures.of_actions(audit)),
        page.table(header, rows),
        page.paragraph(_left_out(len(rows), audit.actions) + legend(audit), kind="note"),
        page.heading("Gaps"),
    ]
    parts += _gap_parts(audit)
    parts += [page.heading("Certified actions"), page.paragraph(_certified(audit))]
    if audit.policy is not None:
        parts += [
            page.heading("Target policy"),
            page.paragraph(_policy(audit.policy, sentences.policy(audit))),
        ]
    if audit.notes:
        parts += [page.heading("Estimated, sampled or unknown")]
        parts += [page.paragraph(note, kind="note") for note in audit.notes]
    return parts


def _drawn(pictures: Iterable[tuple["Figure", str]]) -> Iterator[str]:
    with warnings.catch_warnings():
        # A name in a script that the figures' font lacks is boxes there, and itself in the tables.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        for drawn, caption in pictures:
            yield page.figure(figures.to_svg(drawn), caption)


def _gap_parts(audit: Audit) -> list[str]:
    gaps = audit.gap_map
    if not gaps.gaps:
        return [page.paragraph(_no_gaps(audit))]
    covered = sentences.coverage(audit)
    text = f"{counted(gaps.found, 'gap')} found; the table lists {len(gaps.gaps)}" + (
        f", and {covered}." if covered else "."
    )
    return [
        page.paragraph(text),
        *_drawn(pictures.of_gaps(audit)),
        page.table(GAP_HEADER, gap_rows(audit)),
        page.paragraph(sentences.upside(audit), kind="note"),
    ]


def _no_gaps(audit: Audit) -> str:
    if audit.verdict == "full":
        return "There are none: every action could have been logged in every row."
    if audit.unsupported_share:
        return "No segment of contexts describes them: what is missing changes from context to context."
    return "None was found. Without logged support that does not mean that there is none."


def _warning(audit: Audit) -> str:
    text = "This log does not name what each row could have taken"
    if audit.support == "unknown":
        text += ", and has too few rows to estimate it."
    else:
        text += (
            ". Every statement about support is estimated from what similar contexts tried; a single context may "
            "lack more."
        )
    implied = audit.implied_unsupported
    if implied is not None:
        text += (
            f" The logged propensities imply that a row lacks {percent(max(0.0, implied[0]))} of the actions."
        )
    if audit.estimate is not None and audit.estimate.narrower:
        text += " Recurring contexts show that the support is narrower than estimated."
    return f"{text} Log full distributions or eligible sets to know it."


def _facts(audit: Audit) -> list[tuple[str, str]]:
    """The summary's lines as a table of two columns, the size first."""
    size = (
        f"{audit.rows:,} rows, {counted(audit.actions, 'action')}, {counted(audit.features, 'feature')}, "
        f"{audit.distinct_contexts:,} distinct contexts"
    )
    rows = [action.rows for action in audit.per_action]
    facts = [
        ("log", size),
        ("rows per action", f"{min(rows):,} to {max(rows):,}; {sentences.elbow(audit)}"),
        ("never tried", named(audit.never_logged) or "none"),
        ("support", sentences.support(audit)),
        ("propensities", sentences.propensities(audit)),
    ]
    if audit.overlap is not None:
        quantiles = ", ".join(f"{p}%: {q:.3g}" for p, q in audit.overlap.quantiles.items())
        facts.append(("their quantiles", quantiles))
    if audit.reward_range is not None:
        low, high = audit.reward_range
        facts.append(("rewards", f"mean {audit.reward_mean:.4g}, from {low:.4g} to {high:.4g}"))
    return facts


def _certified(audit: Audit) -> str:
    if audit.assumptions is None:
        return "The log is too small to certify anything."
    return f"{_sentence(sentences.certified(audit))} Assumed: {audit.assumptions}."


def _policy(policy: PolicyAudit, text: str) -> str:
    if policy.mass_quantiles is None:
        return _sentence(text)
    quantiles = ", ".join(f"{p}%: {mass:.3g}" for p, mass in policy.mass_quantiles.items())
    return f"{_sentence(text)} Quantiles of the unsupported mass over rows: {quantiles}."


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _left_out(shown: int, there_are: int) -> str:
    return f"The {shown} least known of {there_are:,} actions. " if shown < there_are else ""


def _share(share: float | None) -> str:
    return "unknown" if share is None else percent(share)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
