"""The figures of Fig. 1: calls and regret over the rounds, and what the share of calls hangs on."""

from typing import TYPE_CHECKING

from research.paper.experiment import Analysis
from research.paper.fig1 import Setting
from research.paper.frame import Frame
from research.paper.report import calls
from research.paper.report.drawing import numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """Calls and regret at each shown scale, and the sensitivity of both."""
    drawn = {f"calls_scale_{scale:g}": _curves(setting, analysis, scale) for scale in setting.shown_scales}
    return {**drawn, "sensitivity": _sensitivity(setting, analysis)}


def _curves(setting: Setting, analysis: Analysis, scale: float) -> "Figure":
    table = Frame.of(analysis.tables["curves"]).where(radius_scale=scale)
    return calls.over_rounds(
        {f"L = {size}": table.among("supported", (None, size)) for size in setting.supported},
        rounds=setting.rounds,
        caption=f"Reward calls (above) and regret (below) over the rounds at radius_scale {scale:g}: means over "
        f"{len(setting.seeds)} seeds with 95 % bands. n^UA = {setting.unsupported:g}, d = {setting.features}, "
        f"T = {setting.rounds:,}; {calls.COMMON}.",
    )


def _sensitivity(setting: Setting, analysis: Analysis) -> "Figure":
    table = Frame.of(analysis.tables["final"]).among("supported", (None, setting.supported[-1]))
    features = sorted({setting.features, *setting.other_features})
    low, high = setting.share_range
    figure, upper = calls.at_the_end(
        {f"d = {size}": table.where(rounds=setting.rounds, features=size) for size in features},
        along="radius_scale",
        ticks=setting.scales,
        width=3.2,
        caption=f"Calls as a share of mOFUL's (above; shaded: {low:g} to {high:g}, the paper's \"about 20 %\") and regret (below) "
        f"at L = {setting.supported[-1]} against radius_scale, for several numbers of features d: means over "
        f"{len(setting.seeds)} seeds (ε-mOFUL-IPS at d = {setting.features} and scale {numbers(setting.share_scales)}: "
        f"{len(setting.seeds) * setting.share_repeats}) with 95 % intervals. n^UA = {setting.unsupported:g}, T = "
        f"{setting.rounds:,}; {calls.COMMON}.",
    )
    for axes in upper:
        axes.axhspan(low, high, color="#e69f00", alpha=0.2, linewidth=0)
    return figure
