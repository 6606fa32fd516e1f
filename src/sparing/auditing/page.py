"""The audit's page: what to do, then gaps, actions and rows as charts, and the numbers one click below; and its figure."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparing.auditing import Audit, text
from sparing.report import figures, html
from sparing.report.text import counted, percent, sentence, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS, LEAST_KNOWN = 30, 12
"""Actions that have a bar each; of more there is one chart, and bars of so many."""

MAP_SEGMENTS, MAP_ACTIONS = 8, 20  # columns and rows of the gap map
LETTERS = 60  # of a name next to a bar
MOST_COLUMNS = 40  # of the chart of missing actions

MOST_DRAWN = 30  # actions in the figure
COLOURS = {"supported": "#56b4e9", "rare": "#e69f00", "undecided": "#e4e4e4", "missing": "#d55e00"}
DARKER = {"supported": "#2a7aa8"}  # on dark axes, so that the light bars of logged rows stand out


def write(audit: Audit, path: str | os.PathLike[str], *, title: str = "the log") -> None:
    """Write the audit as one self-contained page."""
    html.write_page(path, html.page(f"sparing audit: {title}", _parts(audit)))


def _parts(audit: Audit) -> Iterator[str]:
    yield html.paragraph(audit.recommendation, kind=f"headline {audit.verdict}", commands=text.COMMANDS)
    yield html.paragraph(text.recommendation_basis(audit), kind="note")
    if audit.support != "exact":
        yield html.paragraph(_warning(audit), kind="warning")
    facts = text.facts(audit)
    if audit.overlap is not None and len(audit.overlap.histogram) > 1:
        facts["propensities"] += f". Quantiles: {_quantiles(audit.overlap.quantiles)}"
    yield html.facts(facts.items())
    if audit.rows:
        yield html.heading("Gaps")
        yield from _gaps(audit)
        yield html.heading("Actions")
        yield from _of_actions(audit)
        yield from _of_rows(audit)
    yield html.heading("Certified actions")
    assumed = "" if audit.assumptions is None else f" Assumed: {audit.assumptions}."
    yield html.paragraph(sentence(text.certified(audit)) + assumed)
    if audit.policy is not None:
        said = sentence(text.policy(audit))
        if audit.policy.mass_quantiles is not None:
            mass = _quantiles(audit.policy.mass_quantiles)
            said += f" Quantiles over rows of its probability of unsupported actions: {mass}."
        yield html.heading("Target policy")
        yield html.paragraph(said)
    if audit.notes:
        yield html.heading("Estimated, sampled or unknown")
        yield from (html.paragraph(note, kind="note") for note in audit.notes)


def _warning(audit: Audit) -> str:
    said = "This log does not name what each row could have taken"
    if audit.implied:
        said += f". {sentence(text.implied(audit))}"
    elif audit.support == "unknown":
        said += ", and has too few rows to estimate it."
    else:
        said += ". Support was estimated from the rows; a single context may lack more."
    if audit.estimate is not None and audit.estimate.narrower:
        said += " Recurring contexts show that the support is narrower than estimated."
    return f"{said} Log full distributions or eligible sets to know it."


def _quantiles(quantiles: dict[int, float]) -> str:
    return ", ".join(f"{percent}%: {value:.3g}" for percent, value in quantiles.items())


def _gaps(audit: Audit) -> Iterator[str]:
    gaps = audit.gap_map.gaps
    if gaps:
        said = counted(audit.gap_map.found, "gap")
        if audit.gap_map.found > len(gaps):
            said += f", of which the table lists {len(gaps)}"
        if held := text.coverage(audit):
            said += f"; {'it explains' if len(gaps) == 1 else 'they explain'} {held}"
        yield html.paragraph(f"{said}.")
        yield html.table(*text.gap_table(audit), words=True)
        if limits := text.upside(audit):
            yield html.paragraph(limits, kind="note")
        if sum(bool(gap.segment.bounds) for gap in gaps) > 1:
            yield _map(audit)
        return
    said = f"None was found. {sentence(text.visible(audit))}" if audit.support != "exact" else ""
    if audit.verdict == "full":
        said = "There are none: every action could have been logged in every row."
    elif audit.unsupported_share:
        said = "No segment of contexts describes them: what is missing changes from context to context."
    yield html.paragraph(said)


def _map(audit: Audit) -> str:
    """Actions × segments, shaded by how often the action could have been taken there."""
    gaps = audit.gap_map.gaps[:MAP_SEGMENTS]
    shares = audit.gap_map.supported[: len(gaps)]
    chosen = np.sort(np.argsort(shares.min(axis=0), kind="stable")[:MAP_ACTIONS])
    rows = []
    for action in chosen.tolist():
        name, each = audit.per_action[action].name, zip(shares[:, action].tolist(), gaps, strict=True)
        cells = [(share, percent(share), name in gap.actions) for share, gap in each]
        rows.append((shortened(str(name), LETTERS), cells))
    could = "tried the action at all" if audit.support == "unknown" else "could have taken the action"
    about = ", by estimate" if audit.support == "estimated" else ""
    left_out = f" The {MAP_ACTIONS} least supported of {audit.actions:,} actions." * (
        len(rows) < audit.actions
    )
    made = html.heat("action", [f"S{number}" for number in range(1, len(gaps) + 1)], rows)
    return html.figure(
        html.scrolling(made, label="Map of gaps"),
        f"The share of each segment's rows that {could}{about}; S1, S2 … are numbered as in the table, a frame marks its gap.{left_out}",
    )


def _of_actions(audit: Audit) -> Iterator[str]:
    """Rows and support of all actions, or of the least known ones under an overview of all; the numbers are folded."""
    layers = support_layers(audit)
    entries = [(kind, label) for kind, label, share in layers if share.any()]
    if audit.actions > MOST_BARS:
        yield _overview(audit, layers)
        known = {
            place: (1.0 if action.supported is None else action.supported, action.rows)
            for place, action in enumerate(audit.per_action)
            if action.rows
        }
        tried = sorted(known, key=lambda place: known[place])
        shown = tried[:LEAST_KNOWN]
        said = f"The {len(shown)} least known of the {len(tried):,} actions that were tried."
        yield html.figure(_bars(audit, layers, shown) + html.key(entries), said)
    else:
        order = sorted(range(audit.actions), key=lambda action: -audit.per_action[action].rows)
        yield html.figure(_bars(audit, layers, order) + html.key(entries), _how(audit))
    header, rows = text.action_table(audit)
    some = (
        f"the {len(rows)} least known of {audit.actions:,}"
        if len(rows) < audit.actions
        else f"all {len(rows)}"
    )
    numbers = html.table(header, rows) + html.paragraph(text.legend(audit), kind="note")
    yield html.folded(f"Numbers of {some} actions", numbers)


def _how(audit: Audit) -> str:
    """Where the shares of rows that could have taken an action come from."""
    if audit.implied:
        how = "by the logged propensities"
    elif audit.support == "unknown":
        return "Rows of each action, most logged first."
    else:
        how = {"exact": "as logged", "estimated": "by estimate"}[audit.support]
    return f"Rows of each action, most logged first, and the share of rows that could have taken it, {how}."


def _bars(audit: Audit, layers: Sequence[tuple[str, str, np.ndarray]], order: list[int]) -> str:
    most = max(audit.counts.values())
    header = ["action", "rows", *(["could have been taken"] if layers else [])]
    rows = []
    for place in order:
        action = audit.per_action[place]
        cells = [html.Bar((("rows", action.rows / most),), f"{action.rows:,}" if action.rows else "never")]
        if layers:
            parts = tuple((kind, float(shares[place])) for kind, _, shares in layers)
            cells.append(html.Bar(parts, percent(action.supported or 0.0)))
        rows.append((shortened(str(action.name), LETTERS), cells))
    marks = {}
    if audit.elbow and len(order) == audit.actions:
        marks[audit.elbow] = f"rows fall fast after {counted(audit.elbow, 'action')}"
    return html.bars(header, rows, marks=marks)


def _overview(audit: Audit, layers: Sequence[tuple[str, str, np.ndarray]]) -> str:
    """All actions in one chart of rows, and one of support where that is known."""
    rows = np.sort(np.array(list(audit.counts.values())))[::-1]
    last = f"{audit.actions:,}"
    fall = f"; they fall fast after {audit.elbow:,}" if audit.elbow else ""
    label = f"Rows of each of {last} actions, most logged first: from {rows[0]:,} to {rows[-1]:,}{fall}."
    ticks = ["1", "actions, most logged first", last]
    drawn = html.area([("supported", rows)], top=max(1, rows[0]), ticks=ticks, label=label)
    made = [html.figure(drawn, label)]
    if layers:
        missing = layers[-1][2]
        order = np.argsort(missing, kind="stable")
        share = percent(float(1 - missing.mean()))
        label = f"The share of rows (0 to 100%) that could have taken each action, most supported first; {share} on average."
        ticks = ["1", "actions, most supported first", last]
        parts = [(kind, shares[order]) for kind, _, shares in layers]
        drawn = html.area(parts, top=1.0, ticks=ticks, label=label)
        made.append(html.figure(drawn, label))
    return f'<div class="pair">{"".join(made)}</div>'


def _column(audit: Audit, name: str) -> np.ndarray:
    return np.array([getattr(action, name) or 0.0 for action in audit.per_action])


def support_layers(audit: Audit) -> list[tuple[str, str, np.ndarray]]:
    """Kind, label and shares (K,) of each part of the bars; none where the support is not known."""
    if audit.support == "unknown" and not audit.implied:
        return []
    supported, first = _column(audit, "supported"), audit.per_action[0]
    if audit.implied:
        return [
            ("supported", "could, by the propensities", supported),
            ("missing", "could not", 1 - supported),
        ]
    if audit.estimate is not None:
        missing, undecided = audit.estimate.unsupported, audit.estimate.undecided
        return [
            ("supported", "could, by estimate", np.maximum(0, 1 - missing - undecided)),
            ("undecided", "undecided", undecided),
            ("missing", "could not, by estimate", missing),
        ]
    rare = np.minimum(_column(audit, "rare"), supported)
    why = "probability 0" if first.zero is not None else "not eligible"
    return [
        ("supported", "could", supported - rare),
        ("rare", f"could, but rarely (below {audit.rare:g})", rare),
        (
            "missing",
            f"could not: {why}" if audit.support == "exact" else "could not, by estimate",
            1 - supported,
        ),
    ]


def _of_rows(audit: Audit) -> Iterator[str]:
    """Charts of the actions that rows lacked and of their propensities; a sentence where one number is enough."""
    made = [*_sizes(audit), *_propensities(audit)]
    if made:
        yield html.heading("Rows")
        yield f'<div class="pair">{"".join(made)}</div>' if "<figure" in "".join(made) else "\n".join(made)


def _sizes(audit: Audit) -> Iterator[str]:
    sizes = audit.unsupported_sizes
    if not sizes:
        return
    about = ", by estimate" if audit.support == "estimated" else ""
    if len(sizes) == 1:
        (size,) = sizes
        if size:
            yield html.paragraph(f"Every row lacked {size:,} of the {audit.actions:,} actions{about}.")
        return
    low, high = min(sizes), max(sizes)
    step = int(np.ceil((high + 1 - low) / MOST_COLUMNS))
    counts = np.bincount([(size - low) // step for size in sizes], weights=list(sizes.values()))
    starts = [low + step * place for place in range(len(counts))]
    ticks = [f"{start:,}" for start in starts]
    if len(starts) > html.NUMBERED:
        ticks = [f"{low:,}", f"{(low + high) // 2:,}", f"{high:,}"]
    said = f"Rows by how many of the {audit.actions:,} actions they could not have taken{about}"
    said += _tallest(counts.tolist())
    yield html.figure(html.columns(counts.tolist(), ticks, kind="lack", label=said), said)


def _propensities(audit: Audit) -> Iterator[str]:
    overlap = audit.overlap
    if overlap is None:
        return
    kind = "Estimated" if overlap.source == "estimated" else "Logged"
    if len(overlap.histogram) == 1:
        yield html.paragraph(f"Every row took its action with propensity {overlap.smallest:.3g}.")
        return
    counts, middle = overlap.histogram.tolist(), overlap.edges[len(overlap.edges) // 2]
    ticks = [f"{value:.3g}" for value in (overlap.smallest, middle, overlap.largest)]
    said = f"{kind} propensities of the logged actions, log scale{_tallest(counts)}"
    yield html.figure(html.columns(counts, ticks, kind="chance", label=said), said)


def _tallest(counts: Sequence[float]) -> str:
    return "." if len(counts) <= html.NUMBERED else f"; the tallest column is {max(counts):,.0f} rows."


def plot(audit: Audit, axes: "Axes | None") -> "Axes":
    """Draw, for each action, the share of rows that took it and the share that could have."""
    found = figures.axes_or_new(axes)
    layers = support_layers(audit)
    by_rows = sorted(range(audit.actions), key=lambda place: -audit.per_action[place].rows)
    order = by_rows[:MOST_DRAWN] if len(by_rows) <= MOST_DRAWN else by_rows[-MOST_DRAWN:]
    places = figures.bars_of(found, [audit.per_action[place].name for place in order])
    dark = figures.is_dark(found)
    start = np.zeros(len(order))
    for kind, label, shares in layers:
        part = 100 * shares[order]
        if part.any():
            colour = DARKER.get(kind, figures.ink(found, COLOURS[kind])) if dark else COLOURS[kind]
            found.barh(places, part, left=start, height=0.8, color=colour, label=label)
        start += part
    logged = [100 * (audit.per_action[place].share or 0.0) for place in order]
    found.barh(places, logged, height=0.35, color=figures.ink(found, "#000000"), label="logged")
    some = (
        f"the {len(order)} least logged of {audit.actions:,} actions, " if len(order) < audit.actions else ""
    )
    figures.label_below(
        found,
        f"rows in which an action could have been taken, % of {audit.rows:,}"
        if layers
        else f"share of {audit.rows:,} rows, %",
    )
    figures.title_above(found, f"{some}support {audit.support}")
    figures.legend_below(found)
    return found
