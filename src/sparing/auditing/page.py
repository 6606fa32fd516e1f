"""The audit's page and its figures: counts, support, sizes of what is missing, propensities, and the gap map."""

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparing.auditing import Audit, wording
from sparing.report import figures, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 40
"""Actions whose names fit under an axis."""

MOST_LETTERS = 60
"""Letters that fit side by side under an axis."""

MAP_SEGMENTS, MAP_ACTIONS = 12, 40
"""Rows and columns of the gap map, at most."""

GREY, BLUE, ORANGE, AMBER, GREEN = figures.COLOURS[:5]


def write(audit: Audit, path: str | os.PathLike[str], *, title: str = "the log") -> None:
    """Write the audit as one self-contained page."""
    with warnings.catch_warnings():
        # A name in a script that the figures' font lacks is boxes there, and itself in the tables.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        parts = list(_parts(audit))
    page.write_page(path, page.page(f"sparing audit: {title}", parts))


def _parts(audit: Audit) -> Iterator[str]:
    yield page.paragraph(audit.headline, kind="lead")
    if audit.support != "exact":
        yield page.paragraph(_warning(audit), kind="warning")
    facts = wording.facts(audit)
    if audit.overlap is not None:
        facts["quantiles of the propensities"] = _quantiles(audit.overlap.quantiles)
    yield page.facts(facts.items())
    yield page.heading("Actions")
    yield _of_actions(audit)
    if audit.unsupported_sizes or audit.overlap is not None:
        yield _of_rows(audit)
    header, rows = wording.action_table(audit)
    left_out = f"The {len(rows)} least known of {audit.actions:,} actions. " * (len(rows) < audit.actions)
    yield page.table(header, rows)
    yield page.paragraph(left_out + wording.legend(audit), kind="note")
    yield page.heading("Gaps")
    yield from _gaps(audit)
    yield page.heading("Certified actions")
    assumed = "" if audit.assumptions is None else f" Assumed: {audit.assumptions}."
    yield page.paragraph(_sentence(wording.certified(audit)) + assumed)
    if audit.policy is not None:
        text = _sentence(wording.policy(audit))
        if audit.policy.mass_quantiles is not None:
            mass = _quantiles(audit.policy.mass_quantiles)
            text += f" Quantiles of the unsupported mass over rows: {mass}."
        yield page.heading("Target policy")
        yield page.paragraph(text)
    if audit.notes:
        yield page.heading("Estimated, sampled or unknown")
        yield from (page.paragraph(note, kind="note") for note in audit.notes)


def _warning(audit: Audit) -> str:
    text = "This log does not name what each row could have taken" + (
        ", and has too few rows to estimate it."
        if audit.support == "unknown"
        else ". Every statement about support is estimated from what similar contexts tried; a single context may "
        "lack more."
    )
    if audit.implied_unsupported is not None:
        lacks = wording.percent(max(0.0, audit.implied_unsupported[0]))
        text += f" The logged propensities imply that a row lacks {lacks} of the actions."
    if audit.estimate is not None and audit.estimate.narrower:
        text += " Recurring contexts show that the support is narrower than estimated."
    return f"{text} Log full distributions or eligible sets to know it."


def _gaps(audit: Audit) -> Iterator[str]:
    gaps = audit.gap_map
    if gaps.gaps:
        text = f"{wording.counted(gaps.found, 'gap')} found; the table lists {len(gaps.gaps)}"
        yield page.paragraph(", and ".join(filter(None, [text, wording.coverage(audit)])) + ".")
        yield _of_gaps(audit)
        yield page.table(*wording.gap_table(audit))
        yield page.paragraph(wording.upside(audit), kind="note")
        return
    text = "None was found. Without logged support that does not mean that there is none."
    if audit.verdict == "full":
        text = "There are none: every action could have been logged in every row."
    elif audit.unsupported_share:
        text = "No segment of contexts describes them: what is missing changes from context to context."
    yield page.paragraph(text)


def _quantiles(quantiles: dict[int, float]) -> str:
    return ", ".join(f"{percent}%: {value:.3g}" for percent, value in quantiles.items())


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _of_actions(audit: Audit) -> str:
    """Counts with the elbow, and support, by action."""
    figure, (left, right) = figures.panels(2, height=3.6)
    _counts(left, audit)
    _support(right, audit)
    marked = " (dashed: where they start to fall fast)" if audit.elbow else "; they fall nowhere fast"
    kind = {"exact": "as logged", "estimated": "by estimate", "unknown": "which this log does not say"}
    how = kind[audit.support] if audit.per_action[0].implied is None else "by the logged propensities"
    return page.figure(
        figures.to_svg(figure),
        f"Left: rows of each action{marked}. Right: the share of rows that could have taken each action, {how}.",
    )


def _of_rows(audit: Audit) -> str:
    """Sizes of what is missing, and propensities, by row."""
    figure, (left, right) = figures.panels(2, height=3.2)
    _sizes(left, audit)
    _propensities(right, audit)
    missing = "Left: how many actions were unsupported in a row"
    if audit.support == "unknown" or audit.per_action[0].implied is not None:
        missing += " is not known."
    else:
        missing += f", by {'estimated' if audit.support == 'estimated' else 'logged'} support."
    chances = "no propensities were logged or could be estimated."
    if audit.overlap is not None:
        chances = f"{audit.overlap.source} propensities of the logged actions."
    return page.figure(figures.to_svg(figure), f"{missing} Right: {chances}")


def _of_gaps(audit: Audit) -> str:
    """Segments × actions, coloured by how often the action could have been taken there."""
    gaps = audit.gap_map.gaps[:MAP_SEGMENTS]
    shares = audit.gap_map.supported[: len(gaps)]
    chosen = np.sort(np.argsort(shares.min(axis=0), kind="stable")[:MAP_ACTIONS])
    names = [audit.per_action[action].name for action in chosen]
    figure, (axes,) = figures.panels(1, width=10.4, height=1.5 + 0.32 * len(gaps))
    axes.grid(False)
    image = axes.imshow(
        shares[:, chosen], cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    for row, gap in enumerate(gaps):
        for column, name in enumerate(names):
            if name in gap.actions:
                axes.plot(column, row, marker="x", color="white", markersize=6)
    axes.set_yticks(range(len(gaps)), [f"S{i + 1} ({gap.share:.0%} of rows)" for i, gap in enumerate(gaps)])
    _label(axes, names)
    unknown = audit.support == "unknown"
    could = "tried the action at all" if unknown else "could have taken the action"
    about = ", by estimate" if audit.support == "estimated" else ""
    axes.set(xlabel="action", title=f"Share of the segment's rows that {could}{about}")
    figure.colorbar(image, ax=axes, label="tried at all" if unknown else "supported share", shrink=0.9)
    left_out = f" The {MAP_ACTIONS} least supported of {audit.actions:,} actions."
    return page.figure(
        figures.to_svg(figure),
        "The gap map: segments of contexts, numbered as in the table below and ordered by upside, against actions; "
        "dark is never, and a cross marks the gap that the row is about."
        + left_out
        * (len(names) < audit.actions),
    )


def _counts(axes: "Axes", audit: Audit) -> None:
    rows = sorted(audit.counts.values(), reverse=True)
    places = np.arange(1, len(rows) + 1)
    if len(rows) <= MOST_NAMES:
        axes.bar(places, rows, color=BLUE)
    else:
        axes.fill_between(places, rows, step="mid", color=BLUE, linewidth=0)
    axes.set_xlim(0.4, len(rows) + 0.6)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="actions, most logged first", ylabel="rows", title="Rows per action")
    if not audit.elbow:
        axes.annotate("no elbow", (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", color=GREY)
        return
    axes.axvline(audit.elbow + 0.5, color=ORANGE, linestyle="--")
    late = audit.elbow > len(rows) / 2
    axes.annotate(
        f"elbow after {audit.elbow}",
        (audit.elbow + 0.5, 0.95),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if late else 4, 0),
        textcoords="offset points",
        ha="right" if late else "left",
        va="top",
        color=ORANGE,
        backgroundcolor="#ffffffcc",
    )


def _support(axes: "Axes", audit: Audit) -> None:
    axes.set(title="What a row could have taken", ylim=(0, 1), ylabel="share of rows")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if audit.support == "unknown" or not audit.rows:
        _say(axes, "support unknown")
        return
    order = np.lexsort((-_column(audit, "implied"), -_column(audit, "supported")))
    places, few, bottom = np.arange(len(order)), len(order) <= MOST_NAMES, np.zeros(len(order))
    width = 0.85 if few else 1.0
    for height, colour, label in _layers(audit):
        if height.any():
            axes.bar(places, height[order], bottom=bottom, color=colour, label=label, width=width)
        bottom += height[order]
    if few:
        _label(axes, [audit.per_action[action].name for action in order])
    axes.set(xlabel="action, most supported first")
    axes.grid(visible=False, axis="x")
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower right", ncols=3, frameon=False)


def _column(audit: Audit, name: str) -> np.ndarray:
    """A number of every action, (K,), 0 where it is not known."""
    return np.array([getattr(action, name) or 0.0 for action in audit.per_action])


def _layers(audit: Audit) -> list[tuple[np.ndarray, str, str]]:
    """Heights (K,), colour and label of each part of the bars."""
    supported, first = _column(audit, "supported"), audit.per_action[0]
    if first.implied is not None:
        implied = np.minimum(1, _column(audit, "implied"))
        return [(implied, BLUE, "supported, by propensities"), (1 - implied, ORANGE, "not supported")]
    if audit.estimate is not None:
        missing, undecided = audit.estimate.unsupported, audit.estimate.undecided
        return [
            (np.maximum(0, 1 - missing - undecided), BLUE, "estimated supported"),
            (undecided, GREY, "undecided"),
            (missing, ORANGE, "estimated unsupported"),
        ]
    rare = np.minimum(_column(audit, "rare"), supported)
    why = "zero probability" if first.zero is not None else "ineligible"
    return [
        (supported - rare, BLUE, "supported"),
        (rare, AMBER, f"rare (below {audit.rare:g})"),
        (1 - supported, ORANGE, why if audit.support == "exact" else "estimated unsupported"),
    ]


def _sizes(axes: "Axes", audit: Audit) -> None:
    axes.set(
        title="Actions a row could not have taken", xlabel="number of unsupported actions", ylabel="rows"
    )
    if audit.per_action[0].implied is not None and audit.overlap is not None:
        mean = audit.actions - (audit.overlap.supported_mean or 0)
        _say(axes, f"not known row by row;\n{mean:.3g} on average, by the propensities")
        return
    if not audit.unsupported_sizes:
        _say(axes, "support unknown")
        return
    step = max(1, int(np.ceil((audit.actions + 1) / MOST_NAMES)))
    bins = np.array(list(audit.unsupported_sizes)) // step
    rows = np.bincount(bins, weights=list(audit.unsupported_sizes.values()))
    places = np.unique(bins)
    axes.bar(places * step + (step - 1) / 2, rows[places], width=0.85 * step, color=ORANGE)
    axes.set_xlim(-0.6, audit.actions + 0.6 - 1)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", integer=True)


def _propensities(axes: "Axes", audit: Audit) -> None:
    overlap = audit.overlap
    axes.set(xlabel="propensity of the logged action", ylabel="rows", title="Propensities")
    if overlap is None:
        _say(axes, "none logged")
        return
    if overlap.source == "estimated":
        axes.set_title("Propensities, estimated")
    if len(overlap.histogram) == 1:
        top = (overlap.smallest, overlap.histogram[0])
        axes.set_xlim(0, 1)
        axes.bar(*top, width=0.02, color=GREEN)
        axes.annotate(f"all {top[0]:.3g}", top, xytext=(8, -2), textcoords="offset points", va="top")
    else:
        axes.stairs(overlap.histogram, overlap.edges, fill=True, color=GREEN)
        axes.set_xscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _say(axes: "Axes", text: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.annotate(text, (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", color=GREY)


def _label(axes: "Axes", names: Sequence[object]) -> None:
    """Names below, cut, and with no dollar sign that would start a formula; upright where they would collide."""
    texts = [text if len(text) <= 12 else f"{text[:11]}…" for text in map(str, names)]
    labels = [text.replace("$", r"\$") for text in texts]
    letters = len(labels) * (max(map(len, labels)) + 1)
    axes.set_xticks(range(len(labels)), labels, rotation=0 if letters <= MOST_LETTERS else 90)
