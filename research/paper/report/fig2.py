"""The figures of Fig. 2: calls and regret over the rounds for each n^UA, and their slopes."""

from typing import TYPE_CHECKING

from research.paper.calls import MOST_ROWS, SAME
from research.paper.experiment import Analysis
from research.paper.fig2.setting import Setting
from research.paper.report import calls
from research.paper.report.captions import captioned
from research.paper.report.fig1 import COMMON
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """Calls and regret at each shown scale, and final values against n^UA."""
    drawn = {f"calls_scale_{scale:g}": _curves(setting, analysis, scale) for scale in setting.shown_scales}
    return {**drawn, "sensitivity": _sensitivity(setting, analysis)}


def _settings(setting: Setting) -> str:
    return f"L = {setting.supported}, d = {setting.features}, T = {setting.rounds:,}; {COMMON}"


def _curves(setting: Setting, analysis: Analysis, scale: float) -> "Figure":
    table = calls.rows(analysis.tables["curves"], radius_scale=scale)
    figure, (upper, lower) = calls.grid(len(setting.unsupported))
    with figures.styled():
        for top, bottom, share in zip(upper, lower, setting.unsupported, strict=True):
            calls.curves(top, bottom, [row for row in table if row["unsupported"] in (None, share)])
            top.set_title(f"n^UA = {share:g}")
        upper[0].set(ylabel="reward calls so far", ylim=(0, 1.03 * setting.rounds))
        lower[0].set(ylabel="regret so far")
        lower[0].set_ylim(bottom=0)
        calls.legend(figure, upper[0])
    return captioned(
        figure,
        f"Reward calls (above) and regret (below) over the rounds at radius_scale {scale:g}: means over "
        f"{len(setting.seeds)} seeds with 95 % bands. {_settings(setting)}.",
    )


def _sensitivity(setting: Setting, analysis: Analysis) -> "Figure":
    panels = [(scale, chosen) for scale in setting.scales for chosen in setting.chosen]
    figure, (upper, lower) = calls.grid(len(panels), width=2.4)
    with figures.styled():
        for top, bottom, (scale, chosen) in zip(upper, lower, panels, strict=True):
            points = calls.rows(analysis.tables["final"], radius_scale=scale, chosen=chosen)
            calls.sweep(top, points, "calls_share", "unsupported", setting.unsupported)
            calls.sweep(bottom, points, "regret", "unsupported", setting.unsupported)
            top.set_title(
                f"scale {scale:g}\n{ {MOST_ROWS: 'known by rows', SAME: 'the same known'}[chosen] }"
            )
            bottom.set_xlabel("n^UA")
            bottom.yaxis.set_major_formatter("{x:,.0f}")
        upper[0].set(ylabel="calls as a share of T", ylim=(0, 1.03))
        lower[0].set(ylabel="regret")
        lower[0].set_ylim(bottom=0)
        calls.legend(figure, upper[0])
    return captioned(
        figure,
        "Calls as a share of mOFUL's (above) and regret (below) at the end against n^UA. Known by rows: the L actions "
        "with most rows of each log, which change with n^UA by chance; the same known: one set for every n^UA. Means over "
        f"{len(setting.seeds)} seeds with 95 % intervals. {_settings(setting)}.",
    )
