"""The figures of Fig. 1: calls and regret over the rounds, and what the share of calls hangs on."""

from typing import TYPE_CHECKING

from research.paper.experiment import Analysis
from research.paper.fig1.setting import Setting
from research.paper.report import calls
from research.paper.report.captions import captioned
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMMON = (
    "K = 20, σ = 2, ε = 0.05, λ = 1, δ = 0.05, determinant radius × radius_scale (below 1: no guarantee), noise and "
    "bounds given truly; log of n = T rows, per-context support, uniform on it; contexts of the log replayed (in-log); "
    "the L actions with most rows are known, θ̂ ~ N(θ*, ε²I)"
)


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """Calls and regret at each shown scale, and the sensitivity of both."""
    drawn = {f"calls_scale_{scale:g}": _curves(setting, analysis, scale) for scale in setting.shown_scales}
    return {**drawn, "sensitivity": _sensitivity(setting, analysis)}


def _curves(setting: Setting, analysis: Analysis, scale: float) -> "Figure":
    table = calls.rows(analysis.tables["curves"], radius_scale=scale)
    figure, (upper, lower) = calls.grid(len(setting.supported))
    with figures.styled():
        for top, bottom, size in zip(upper, lower, setting.supported, strict=True):
            calls.curves(top, bottom, [row for row in table if row["supported"] in (None, size)])
            top.set_title(f"L = {size}")
        upper[0].set(ylabel="reward calls so far", ylim=(0, 1.03 * setting.rounds))
        lower[0].set(ylabel="regret so far")
        lower[0].set_ylim(bottom=0)
        calls.legend(figure, upper[0])
    return captioned(
        figure,
        f"Reward calls (above) and regret (below) over the rounds at radius_scale {scale:g}: means over "
        f"{len(setting.seeds)} seeds with 95 % bands. n^UA = {setting.unsupported:g}, d = {setting.features}, "
        f"T = {setting.rounds:,}; {COMMON}.",
    )


def _sensitivity(setting: Setting, analysis: Analysis) -> "Figure":
    features = sorted({setting.features, *setting.other_features})
    table = calls.rows(analysis.tables["final"], rounds=setting.rounds)
    kept = [row for row in table if row["supported"] in (None, setting.supported[-1])]
    figure, (upper, lower) = calls.grid(len(features), width=3.2)
    with figures.styled():
        for top, bottom, size in zip(upper, lower, features, strict=True):
            points = [row for row in kept if row["features"] == size]
            calls.sweep(top, points, "calls_share", "radius_scale", setting.scales)
            calls.sweep(bottom, points, "regret", "radius_scale", setting.scales)
            top.axhspan(*setting.share_range, color="#e69f00", alpha=0.2, linewidth=0)
            top.set(title=f"d = {size}")
            bottom.set_xlabel("radius_scale")
            bottom.yaxis.set_major_formatter("{x:,.0f}")
        upper[0].set(ylabel="calls as a share of T", ylim=(0, 1.03))
        lower[0].set(ylabel="regret")
        lower[0].set_ylim(bottom=0)
        calls.legend(figure, upper[features.index(setting.features)])
    low, high = setting.share_range
    return captioned(
        figure,
        f"Calls as a share of mOFUL's (above; shaded: {low:g} to {high:g}, the paper's \"about 20 %\") and regret (below) "
        f"at L = {setting.supported[-1]} against radius_scale, for several numbers of features d: means over "
        f"{len(setting.seeds)} seeds (ε-mOFUL-IPS at d = {setting.features} and scale {calls.numbers(setting.share_scales)}: "
        f"{len(setting.seeds) * setting.share_repeats}) with 95 % intervals. n^UA = {setting.unsupported:g}, T = "
        f"{setting.rounds:,}; {COMMON}.",
    )
