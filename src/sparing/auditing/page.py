"""The audit's page and its figures: counts, support, sizes of what is missing, propensities, and the gap map."""

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from sparing.auditing import Audit, wording
from sparing.auditing.support import PolicyAudit
from sparing.auditing.wording import counted, percent
from sparing.report import figures, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NAMES = 40
"""Actions whose names fit under an axis."""

MOST_LETTERS = 60
"""Letters that fit side by side under an axis."""

MAP_SEGMENTS, MAP_ACTIONS = 12, 40
"""Rows and columns of the gap map, at most."""

GREY, BLUE, ORANGE, AMBER, GREEN = (figures.COLOURS[i] for i in (0, 1, 2, 3, 4))


def write(audit: Audit, path: str | os.PathLike[str], *, title: str = "the log") -> None:
    """Write the audit as one self-contained page."""
    page.write_page(path, page.page(f"sparing audit: {title}", _parts(audit)))


def _parts(audit: Audit) -> list[str]:
    parts = [page.paragraph(audit.headline, kind="lead")]
    if audit.support != "exact":
        parts.append(page.paragraph(_warning(audit), kind="warning"))
    parts += [page.facts(_facts(audit).items()), page.heading("Actions")]
    header, rows = wording.action_table(audit)
    parts += [
        *_drawn(of_actions(audit)),
        page.table(header, rows),
        page.paragraph(_left_out(len(rows), audit.actions) + wording.legend(audit), kind="note"),
        page.heading("Gaps"),
    ]
    parts += _gap_parts(audit)
    parts += [page.heading("Certified actions"), page.paragraph(_certified(audit))]
    if audit.policy is not None:
        parts += [page.heading("Target policy"), page.paragraph(_policy(audit, audit.policy))]
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
    covered = wording.coverage(audit)
    text = f"{counted(gaps.found, 'gap')} found; the table lists {len(gaps.gaps)}" + (
        f", and {covered}." if covered else "."
    )
    return [
        page.paragraph(text),
        *_drawn(of_gaps(audit)),
        page.table(wording.GAP_HEADER, wording.gap_rows(audit)),
        page.paragraph(wording.upside(audit), kind="note"),
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


def _facts(audit: Audit) -> dict[str, str]:
    """The summary's lines, the size first."""
    size = (
        f"{audit.rows:,} rows, {counted(audit.actions, 'action')}, {counted(audit.features, 'feature')}, "
        f"{audit.distinct_contexts:,} distinct contexts"
    )
    facts = {"log": size, **wording.facts(audit)}
    if audit.overlap is not None:
        facts["quantiles of the propensities"] = _quantiles(audit.overlap.quantiles)
    return facts


def _certified(audit: Audit) -> str:
    if audit.assumptions is None:
        return "The log is too small to certify anything."
    return f"{_sentence(wording.certified(audit))} Assumed: {audit.assumptions}."


def _policy(audit: Audit, policy: PolicyAudit) -> str:
    text = _sentence(wording.policy(audit))
    if policy.mass_quantiles is None:
        return text
    return f"{text} Quantiles of the unsupported mass over rows: {_quantiles(policy.mass_quantiles)}."


def _quantiles(quantiles: dict[int, float]) -> str:
    return ", ".join(f"{percent}%: {value:.3g}" for percent, value in quantiles.items())


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _left_out(shown: int, there_are: int) -> str:
    return f"The {shown} least known of {there_are:,} actions. " if shown < there_are else ""


def of_actions(audit: Audit) -> Iterator[tuple["Figure", str]]:
    """Counts with the elbow and support by action; then sizes of what is missing and propensities."""
    figure, (left, right) = figures.panels(2, height=3.6)
    _counts(left, audit)
    _support(right, audit)
    yield figure, _actions_caption(audit)
    if audit.unsupported_sizes or audit.overlap is not None:
        figure, (left, right) = figures.panels(2, height=3.2)
        _sizes(left, audit)
        _propensities(right, audit)
        yield figure, _rows_caption(audit)


def of_gaps(audit: Audit) -> Iterator[tuple["Figure", str]]:
    """Segments × actions, coloured by how often the action could have been taken there."""
    gaps = audit.gap_map.gaps[:MAP_SEGMENTS]
    shares = audit.gap_map.supported[: len(gaps)]
    names = [action.name for action in audit.per_action]
    chosen = np.sort(np.argsort(shares.min(axis=0), kind="stable")[:MAP_ACTIONS])
    figure, (axes,) = figures.panels(1, width=10.4, height=1.5 + 0.32 * len(gaps))
    axes.grid(False)
    image = axes.imshow(
        shares[:, chosen], cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    for row, gap in enumerate(gaps):
        for column, action in enumerate(chosen):
            if names[action] in gap.actions:
                axes.plot(column, row, marker="x", color="white", markersize=6)
    axes.set_yticks(range(len(gaps)), [f"S{i + 1} ({gap.share:.0%} of rows)" for i, gap in enumerate(gaps)])
    axes.set_xticks(
        range(len(chosen)), [_short(names[a]) for a in chosen], rotation=_rotation(names[a] for a in chosen)
    )
    unknown = audit.support == "unknown"
    could = "tried the action at all" if unknown else "could have taken the action"
    about = ", by estimate" if audit.support == "estimated" else ""
    axes.set(xlabel="action", title=f"Share of the segment's rows that {could}{about}")
    figure.colorbar(image, ax=axes, label="tried at all" if unknown else "supported share", shrink=0.9)
    left_out = f" The {MAP_ACTIONS} least supported of {len(names):,} actions." * (len(chosen) < len(names))
    yield (
        figure,
        "The gap map: segments of contexts, numbered as in the table below and ordered by upside, against actions; "
        f"dark is never, and a cross marks the gap that the row is about.{left_out}",
    )


def _counts(axes: "Axes", audit: Audit) -> None:
    rows = sorted((action.rows for action in audit.per_action), reverse=True)
    places = np.arange(1, len(rows) + 1)
    if len(rows) <= MOST_NAMES:
        axes.bar(places, rows, color=BLUE)
    else:
        axes.fill_between(places, rows, step="mid", color=BLUE, linewidth=0)
    axes.set_xlim(0.4, len(rows) + 0.6)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="actions, most logged first", ylabel="rows", title="Rows per action")
    if audit.elbow:
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
    else:
        axes.annotate("no elbow", (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", color=GREY)


def _support(axes: "Axes", audit: Audit) -> None:
    axes.set(title="What a row could have taken", ylim=(0, 1), ylabel="share of rows")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if audit.support == "unknown" or not audit.rows:
        _say(axes, "support unknown")
        return
    order = sorted(
        range(audit.actions),
        key=lambda i: (-(audit.per_action[i].supported or 0), -(audit.per_action[i].implied or 0)),
    )
    actions = [audit.per_action[i] for i in order]
    places = np.arange(len(actions))
    layers = _layers(audit, np.array(order))
    bottom = np.zeros(len(actions))
    for height, colour, label in layers:
        if height.any():
            axes.bar(places, height, bottom=bottom, color=colour, label=label, width=_width(len(actions)))
        bottom += height
    if len(actions) <= MOST_NAMES:
        axes.set_xticks(
            places, [_short(a.name) for a in actions], rotation=_rotation(a.name for a in actions)
        )
    axes.set(xlabel="action, most supported first")
    axes.grid(visible=False, axis="x")
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower right", ncols=3, frameon=False)


def _layers(audit: Audit, order: np.ndarray) -> list[tuple[np.ndarray, str, str]]:
    """Heights, colour and label of each part of the bars."""
    actions = [audit.per_action[i] for i in order]
    supported = np.array([a.supported or 0 for a in actions])
    if actions[0].implied is not None:
        implied = np.minimum(1, [a.implied or 0 for a in actions])
        return [(implied, BLUE, "supported, by propensities"), (1 - implied, ORANGE, "not supported")]
    if audit.estimate is not None:
        missing, undecided = audit.estimate.unsupported[order], audit.estimate.undecided[order]
        return [
            (np.maximum(0, 1 - missing - undecided), BLUE, "estimated supported"),
            (undecided, GREY, "undecided"),
            (missing, ORANGE, "estimated unsupported"),
        ]
    rare = np.minimum([a.rare or 0 for a in actions], supported)
    why = "estimated unsupported"
    if audit.support == "exact":
        why = "zero probability" if actions[0].zero is not None else "ineligible"
    return [
        (supported - rare, BLUE, "supported"),
        (rare, AMBER, f"rare (below {audit.rare:g})"),
        (1 - supported, ORANGE, why),
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
    sizes = np.array(list(audit.unsupported_sizes))
    rows = np.array(list(audit.unsupported_sizes.values()))
    step = max(1, int(np.ceil((audit.actions + 1) / MOST_NAMES)))
    first = sizes // step * step
    places = np.unique(first)
    axes.bar(
        places + (step - 1) / 2, [rows[first == p].sum() for p in places], width=0.85 * step, color=ORANGE
    )
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
        axes.set_xlim(0, 1)
        axes.bar(overlap.smallest, overlap.histogram[0], width=0.02, color=GREEN)
        axes.annotate(
            f"all {overlap.smallest:.3g}",
            (overlap.smallest, overlap.histogram[0]),
            xytext=(8, -2),
            textcoords="offset points",
            va="top",
        )
    else:
        axes.stairs(overlap.histogram, overlap.edges, fill=True, color=GREEN)
        axes.set_xscale("log")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _say(axes: "Axes", text: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.annotate(text, (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", color=GREY)


def _actions_caption(audit: Audit) -> str:
    marked = " (dashed: where they start to fall fast)" if audit.elbow else "; they fall nowhere fast"
    kind = {"exact": "as logged", "estimated": "by estimate", "unknown": "which this log does not say"}
    if audit.per_action[0].implied is not None:
        kind[audit.support] = "by the logged propensities"
    return f"Left: rows of each action{marked}. Right: the share of rows that could have taken each action, {kind[audit.support]}."


def _rows_caption(audit: Audit) -> str:
    kind = "estimated" if audit.support == "estimated" else "logged"
    text = f"Left: how many actions were unsupported in a row, by {kind} support."
    if audit.support == "unknown" or audit.per_action[0].implied is not None:
        text = "Left: how many actions were unsupported in a row is not known."
    if audit.overlap is None:
        return f"{text} Right: no propensities were logged or could be estimated."
    return f"{text} Right: {audit.overlap.source} propensities of the logged actions."


def _short(name: object) -> str:
    """A name as a label, cut, and with no dollar sign that would start a formula."""
    text = str(name)
    return (text if len(text) <= 12 else f"{text[:11]}…").replace("$", r"\$")


def _rotation(names: Iterable[object]) -> int:
    """Upright labels where side by side they would run into one another."""
    lengths = [len(_short(name)) + 1 for name in names]
    return 0 if max(lengths) * len(lengths) <= MOST_LETTERS else 90


def _width(bars: int) -> float:
    return 0.85 if bars <= MOST_NAMES else 1.0
