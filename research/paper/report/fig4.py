"""The figures of Fig. 4: errors on held-out rows and live, and the calls they took, for three data sets."""

from typing import TYPE_CHECKING

from research.learners import OFFLINE
from research.paper.experiment import Analysis
from research.paper.fig4 import Setting, kind
from research.paper.frame import Frame
from research.paper.report import drawing
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {
    "held_out": "error of the final policy",
    "live": "error while running",
    "calls": "reward calls",
}


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """One figure for each kind of reward, stream and radius scale."""
    return {
        f"error_{kind(noisy)}_{stream}_scale_{scale:g}": _figure(
            setting, analysis, kind(noisy), stream, scale
        )
        for noisy in setting.noisy
        for stream in setting.streams
        for scale in setting.radius_scales
    }


def _figure(setting: Setting, analysis: Analysis, rewards: str, stream: str, scale: float) -> "Figure":
    table = Frame.of(analysis.tables["summary"]).where(rewards=rewards, stream=stream)
    shown = drawing.at_scale(table, scale)
    figure, panels = drawing.grid(len(PANELS), len(setting.datasets), height=2.6)
    with figures.styled():
        for column, dataset in enumerate(setting.datasets):
            for row, (metric, label) in enumerate(PANELS.items()):
                axes, chosen = panels[row][column], shown.where(dataset=dataset, metric=metric)
                if metric == "calls":
                    chosen = chosen.only(lambda row: row["algorithm"] not in OFFLINE)
                    axes.yaxis.set_major_formatter("{x:,.0f}")
                drawing.along_shares(axes, chosen)
                axes.set_ylim(0, 1.05 * setting.rounds if metric == "calls" else None)
                if column == 0:
                    axes.set_ylabel(label)
            panels[0][column].set_title(dataset)
            panels[-1][column].set_xlabel(drawing.SHARES)
        drawing.legend(figure, panels[0], ncols=5)
    return drawing.captioned(figure, _caption(setting, rewards, stream, scale))


def _caption(setting: Setting, rewards: str, stream: str, scale: float) -> str:
    regret = "this error" if rewards == "noiseless" else "half this error"
    played = "contexts of the log" if stream == "in-log" else "contexts that are not in the log"
    replayed = stream == "in-log" and rewards == "noiseless"
    void = (
        " Logged labels come again without fresh noise, so no guarantee holds at any scale."
        if replayed
        else ""
    )
    restricted = ", ".join(f"{at:g}" for at in setting.opr_unsupported)
    same = "" if stream == "in-log" else " ε-mOFUL-IPS is ε-mOFUL here, its other rule never fires."
    logged = "60 % of a set's rows" + ("" if setting.rows is None else f", at most {setting.rows:,}")
    return (
        f"Classification with {rewards} rewards at radius_scale {scale:g}, {stream} stream ({played}): share wrong of the "
        f"final policy on held-out rows (top), while running (middle; regret a round is {regret}), and reward calls of "
        f"T = {setting.rounds:,} rounds (bottom). Means over {len(setting.seeds)} seeds, bars are 95 % intervals. OPR and "
        f"greedy ridge make no calls; OPR keeps to the support of the contexts it is scored on (restriction: run at n^UA {restricted}).{same}{void} Log: {logged}, "
        f"per-context logging, round(n^UA·K) of the K classes unsupported in a context, uniform on the rest; 15 % held out. Features to [0, 1], a constant, unit norm. "
        f"σ = {setting.noise:g}, λ = {setting.ridge:g}, δ = {setting.delta:g}, {setting.radius} radius × {scale:g}"
        f"{'' if scale >= 1 else ' (no guarantee)'}, S_x = 1, S_θ estimated from the log; L = K/2 (most rows), points "
        f"fitted to the log; M = P90/P10 (here 1) unless ∞; tolerance {setting.tolerance:g} for certified and confident."
    )
