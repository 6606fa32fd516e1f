"""The figures of Fig. 2: calls and regret over the rounds for each n^UA, and their slopes."""

from typing import TYPE_CHECKING

from research.paper.calls import MOST_ROWS, SAME
from research.paper.experiment import Analysis
from research.paper.fig2 import Setting
from research.paper.frame import Frame
from research.paper.report import calls

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWN = {MOST_ROWS: "known by rows", SAME: "the same known"}


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """Calls and regret at each shown scale, and final values against n^UA."""
    drawn = {f"calls_scale_{scale:g}": _curves(setting, analysis, scale) for scale in setting.shown_scales}
    return {**drawn, "sensitivity": _sensitivity(setting, analysis)}


def _settings(setting: Setting) -> str:
    return f"L = {setting.supported}, d = {setting.features}, T = {setting.rounds:,}; {calls.COMMON}"


def _curves(setting: Setting, analysis: Analysis, scale: float) -> "Figure":
    table = Frame.of(analysis.tables["curves"]).where(radius_scale=scale)
    return calls.over_rounds(
        {f"n^UA = {share:g}": table.among("unsupported", (None, share)) for share in setting.unsupported},
        rounds=setting.rounds,
        caption=f"Reward calls (above) and regret (below) over the rounds at radius_scale {scale:g}: means over "
        f"{len(setting.seeds)} seeds with 95 % bands. {_settings(setting)}.",
    )


def _sensitivity(setting: Setting, analysis: Analysis) -> "Figure":
    table = Frame.of(analysis.tables["final"])
    figure, _ = calls.at_the_end(
        {
            f"scale {scale:g}\n{KNOWN[chosen]}": table.where(radius_scale=scale, chosen=chosen)
            for scale in setting.scales
            for chosen in setting.chosen
        },
        along="unsupported",
        ticks=setting.unsupported,
        width=2.4,
        caption="Calls as a share of mOFUL's (above) and regret (below) at the end against n^UA. Known by rows: the L actions "
        "with most rows of each log, which change with n^UA by chance; the same known: one set for every n^UA. Means over "
        f"{len(setting.seeds)} seeds with 95 % intervals. {_settings(setting)}.",
    )
    return figure
