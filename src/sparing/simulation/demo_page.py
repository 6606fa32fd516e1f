"""The demonstration's table, figure and page."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparing import archive
from sparing.report import figures, page
from sparing.simulation.demo import LOG_ALONE, DemoResult, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADER = ("learner", "calls", "of rounds", "wrong live", "wrong after", "over seeds")


def rows(result: DemoResult) -> list[tuple[str, ...]]:
    """The table's cells: means over the seeds, and the range of the last one."""
    return [
        (
            outcome.name,
            f"{outcome.calls.mean():,.0f}",
            f"{outcome.calls.mean() / result.rounds:.0%}",
            f"{outcome.live_error.mean():.3f}",
            f"{outcome.final_error.mean():.3f}",
            f"{outcome.final_error.min():.3f}–{outcome.final_error.max():.3f}",
        )
        for outcome in result.outcomes
    ]


def provenance(result: DemoResult) -> str:
    """Where the numbers come from."""
    setting = result.setting
    return (
        f"Computed now: means over {len(setting.seeds)} seeds ({', '.join(map(str, setting.seeds))}) of "
        f"{result.rounds:,} live rounds on {result.dataset} ({result.source}). Learners: ridge {setting.ridge:g}; "
        f"radius determinant × {setting.radius_scale:g} (below 1: no worst-case guarantee) for mOFUL, ε-mOFUL, "
        f"warm-started and certified; tolerance {setting.tolerance:g}; confident takes its prior and noise from "
        "the log. Wrong live: share of the live rounds given the wrong class; wrong after: the final "
        "policy's share of wrong classes on held-out rows, with its range over the seeds."
    )


def headline(result: DemoResult) -> str:
    """The point, in one sentence, from the numbers."""
    by_name = {outcome.name: outcome for outcome in result.outcomes}
    sparing, alone = by_name["confident"], by_name[LOG_ALONE]
    warm, cold = by_name["warm-started"], by_name["mOFUL, cold"]
    return (
        f"The log alone leaves {alone.final_error.mean():.0%} of new contexts wrong; asking for the reward in "
        f"{sparing.calls.mean() / result.rounds:.0%} of the live rounds brings that to "
        f"{sparing.final_error.mean():.1%}, against {warm.final_error.mean():.1%} (warm) and "
        f"{cold.final_error.mean():.1%} (cold) when every round is paid for."
    )


def draw(result: DemoResult) -> "Figure":
    """Calls over time, and what they bought."""
    figure, (left, right) = figures.panels(2)
    with figures.styled():
        _fill(result, left, right)
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _fill(result: DemoResult, left: "Axes", right: "Axes") -> None:
    for number, outcome in enumerate(result.outcomes):
        colour = figures.COLOURS[number % len(figures.COLOURS)]
        _curve(left, outcome, colour, dashed=number % 4 == 3)
        _point(right, outcome, colour)
    left.set(xlabel="live rounds", ylabel="reward calls so far", title="Calls paid for")
    right.set(xlabel="reward calls", ylabel="share wrong on held-out contexts", title="What the calls bought")
    right.set_ylim(bottom=0)
    for axis in (left.xaxis, left.yaxis, right.xaxis):
        axis.set_major_formatter("{x:,.0f}")


def _curve(axes: "Axes", outcome: Outcome, colour: str, *, dashed: bool) -> None:
    """Mean and range over seeds; dashes keep two equal curves apart."""
    rounds = np.arange(1, outcome.calls_over_time.shape[1] + 1)
    line = (0, (5, 4)) if dashed else "-"
    axes.plot(rounds, outcome.calls_over_time.mean(axis=0), color=colour, linestyle=line, zorder=3 + dashed)
    low, high = outcome.calls_over_time.min(axis=0), outcome.calls_over_time.max(axis=0)
    axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)


def _point(axes: "Axes", outcome: Outcome, colour: str) -> None:
    error = outcome.final_error
    spread = [[error.mean() - error.min()], [error.max() - error.mean()]]
    axes.errorbar(
        outcome.calls.mean(), error.mean(), yerr=spread, fmt="o", color=colour, capsize=3, label=outcome.name
    )


def write(result: DemoResult, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write demo.png and demo.html into a folder, which is made if needed; return both paths."""
    target = archive.folder(folder)
    image, document = target / "demo.png", target / "demo.html"
    drawn = draw(result)
    figures.save_png(drawn, image)
    caption = (
        "Left: reward calls over the live rounds, mean and range over seeds. Right: error of the final policy on "
        "held-out contexts against the calls it took; bars are the range over seeds. Lower and further left is better."
    )
    parts = [
        page.paragraph(headline(result), kind="lead"),
        page.heading("The log"),
        page.preformatted(str(result.audit)),
        page.heading("Going live"),
        page.table(HEADER, rows(result)),
        page.figure(figures.to_svg(drawn), caption),
        page.paragraph(provenance(result), kind="note"),
    ]
    page.write_page(
        document, page.page("sparing: what a log cannot teach, and what it costs to find out", parts)
    )
    return image, document
