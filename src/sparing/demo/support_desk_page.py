"""The support desk demonstration as text, table, figure and page."""

import os
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.demo import support_desk
from sparing.demo.support_desk import (
    ALONE,
    COLD,
    CONFIDENT,
    ECONOMICAL,
    TRUTH,
    WARM,
    DeskResult,
    DeskSetting,
    DeskStart,
    LearnerOutcome,
)
from sparing.report import figures, html
from sparing.report.text import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 80
SHOWN = 8  # rows of the log
HEADER = ("learner", "reviews", "paid", "earned", "net", "net, least to most")

INK, GREY = "#000000", "#7f7f7f"
# Colours dark enough for text on white.
LINES = {TRUTH: INK, ECONOMICAL: "#00805d", CONFIDENT: "#9a6a00", WARM: "#c44e00", COLD: "#0072b2"}

APART = 0.06  # least distance of two labels, as a share of the height


def opening(setting: DeskSetting) -> str:
    cost = setting.call_cost
    price = f"{cost:.2f}" if cost == round(cost, 2) else f"{cost:g}"
    return (
        "A simulated support desk, so that the true rewards are known. Who should answer a ticket: a template, a language model or an "
        f"agent? A solved ticket saves a phone call, {support_desk.SOLVED:.2f} EUR; whether it was solved is known only if a person reviews "
        f"the answer, which costs {price} EUR. What an answer itself costs is known: {_prices(': ')} EUR. "
        f"Last quarter every answer was reviewed; {support_desk.NEW} was not there yet."
    )


def _prices(between: str) -> str:
    return ", ".join(f"{name}{between}{price:.2f}" for name, price in support_desk.PRICES.items())


def sample(table: Mapping[str, list[Any]]) -> list[list[str]]:
    """Return rows from all over the log as text cells."""
    listed = list(zip(*table.values(), strict=True))
    return [[_cell(value) for value in row] for row in listed[:: max(1, len(listed) // SHOWN)][:SHOWN]]


def sample_text(table: Mapping[str, list[Any]]) -> str:
    names = [place for place, name in enumerate(table) if name not in ("months", support_desk.REWARD)]
    return textwrap.indent("\n".join(aligned([list(table), *sample(table)], left=names)), "  ")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def audit_text(begun: DeskStart) -> list[str]:
    """Return the audit of the log as lines: size, mean reward, and its gaps."""
    audit = begun.audit
    first = f"{audit.rows:,} rows; the answers saved {audit.reward_mean:.2f} EUR each, before their cost. Not covered by the log:"
    return [first, *map(str, audit.gap_map.gaps)]


def rows(result: DeskResult) -> list[tuple[str, ...]]:
    """Return the table's cells: means over seeds, and the range of the net."""
    return [
        (
            outcome.name,
            f"{outcome.calls.mean():,.0f}",
            *(f"{amount.mean():,.0f}" for amount in (outcome.paid, outcome.earned, outcome.net)),
            f"{outcome.net.min():,.0f} to {outcome.net.max():,.0f}",
        )
        for outcome in result.outcomes
    ]


def title(result: DeskResult) -> str:
    count = len(result.setting.seeds)
    runs = "one run" if count == 1 else f"mean of {count} runs"
    return f"Live: {result.setting.rounds:,} new tickets, anybody may answer (EUR, {runs})"


def verdict(result: DeskResult) -> str:
    ours, alone, setting = result[ECONOMICAL], result[ALONE], result.setting
    asked, new = ours.calls_of(len(support_desk.HANDLERS)), support_desk.HANDLERS.index(support_desk.NEW)
    share = f", {asked[:, new].sum() / asked.sum():.0%} of them by {support_desk.NEW}," if asked.any() else ""
    every = max((result[name] for name in (COLD, WARM)), key=lambda each: float(each.net.mean()))
    lost = ours.net <= alone.net
    few = sorted({int(count) for count in asked[lost, new]})
    often = " to ".join(map(str, few[:: max(1, len(few) - 1)]))
    rest = f"; where it did not, {support_desk.NEW} was reviewed {often} times" if few else ""
    return (
        f"{ECONOMICAL} had {ours.calls.mean():,.0f} of {setting.rounds:,} answers reviewed{share} and kept {ours.net.mean():,.0f} EUR: "
        f"{_against(ours, alone)} than the offline policy, {_against(ours, every)} than {every.name}, which has every answer reviewed; "
        f"knowing the truth would keep {result[TRUTH].net.mean():,.0f}. "
        f"It beat the offline policy in {len(lost) - lost.sum()} of {len(lost)} runs{rest}."
    )


def _against(ours: LearnerOutcome, other: LearnerOutcome) -> str:
    difference = float((ours.net - other.net).mean())
    return f"{abs(difference):,.0f} {'more' if difference >= 0 else 'less'}"


def method(result: DeskResult) -> str:
    setting = result.setting
    seeds = f"seeds {setting.seeds[0]} to {setting.seeds[-1]}" if len(setting.seeds) > 1 else "one seed"
    tolerance = "its default" if setting.tolerance is None else f"tolerance {setting.tolerance:g}"
    return (
        f"Computed now ({seeds}): each run has its own log and tickets; in it, all learners meet the same tickets with the same noise. "
        f"Earned: what is saved less what the answers cost, expected under the truth; net = earned − paid. All learners know the costs, and learn what is saved. LinUCB (alpha {setting.alpha:g}) begins from nothing, warm-started "
        f"(radius × {setting.radius_scale:g}) from the log; both have every answer reviewed, at the best of three settings tried on other seeds. "
        f"confident: {tolerance}. economical: with the price and {setting.rounds:,} tickets as horizon, else defaults."
    )


def commands(setting: DeskSetting, path: str | os.PathLike[str]) -> list[str]:
    """Return the commands to run next on the written log, without the program's name."""
    log = (
        f"{shlex.quote(os.fspath(path))} --action {support_desk.ACTION} --reward {support_desk.REWARD} "
        f"--actions {','.join(support_desk.HANDLERS)}"
    )
    costs = ",".join(f"{name}={price:g}" for name, price in support_desk.PRICES.items())
    priced = f"--costs {costs} --call-cost {setting.call_cost:g} --horizon {setting.rounds}"
    return [f"audit {log}", f"plan {log} {priced}"]


def filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def draw(result: DeskResult) -> "Figure":
    """Draw the cumulative net of each learner minus that of the offline policy: mean and range over seeds."""
    figure = figures.empty_figure(width=6.0, height=4.6)
    base, tickets = result[ALONE].over_time, np.arange(1, result.setting.rounds + 1)
    with figures.styled():
        axes = figure.add_subplot()
        axes.axhline(0, color=GREY, linewidth=1.5)
        names = [(0.0, f"{ALONE} 0", INK)]
        for name, colour in LINES.items():
            gained = result[name].over_time - base
            middle = gained.mean(axis=0)
            axes.plot(tickets, middle, color=colour, linestyle=(0, (5, 3)) if name == TRUTH else "-")
            axes.fill_between(
                tickets, gained.min(axis=0), gained.max(axis=0), color=colour, alpha=0.13, linewidth=0
            )
            end = f"{middle[-1]:+,.0f}".replace("-", "−")
            names.append((float(middle[-1]), f"{name} {end}", colour))
        axes.set(xlabel="tickets so far", ylabel="EUR", xlim=(0, len(tickets)))
        axes.set_title("Net, compared with the offline policy")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        low, high = axes.get_ylim()
        heights = figures.spread_out(np.array([(end - low) / (high - low) for end, _, _ in names]), APART)
        for height, (_, text, colour) in zip(heights, names, strict=True):
            axes.annotate(text, (1.02, height), xycoords="axes fraction", va="center", color=colour)
    return figure


def write(result: DeskResult, folder: str | os.PathLike[str], after: Sequence[str]) -> tuple[Path, Path]:
    """Write demo.png and demo.html into a folder, with the commands to run after; return both paths."""
    drawn, table = draw(result), result.begun.table
    caption = (
        "Net so far, earned less paid for reviews, minus the same of the offline policy; mean and range over the runs. "
        "Above 0: asking has repaid itself."
    )
    best = [place for place, outcome in enumerate(result.outcomes) if outcome.name == ECONOMICAL]
    parts = [
        html.paragraph(verdict(result), kind="headline"),
        html.heading("The log"),
        html.paragraph(opening(result.setting)),
        html.table(list(table), sample(table), numbers=True),
        html.preformatted("\n".join(audit_text(result.begun))),
        html.heading(title(result)),
        html.table(HEADER, rows(result), emphasised=best, numbers=True),
        html.figure(figures.to_svg(drawn), caption),
        html.paragraph(method(result), kind="note"),
        html.paragraph(f"The truth: {support_desk.TRUTH_TEXT}", kind="note"),
        html.heading("Next"),
        html.preformatted("\n\n".join(after)),
    ]
    heading = "What a log does not cover, and what it pays to find out"
    return html.write_report(folder, "demo", drawn, title=heading, parts=parts)
