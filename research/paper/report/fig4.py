"""The figures of Fig. 4: errors on held-out rows and live, and the calls they took, for three data sets."""

from collections.abc import Sequence

from research.learners import OFFLINE
from research.paper.experiment import Analysis
from research.paper.fig4 import Setting, kind
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.fig3 import OTHERS, PAPER
from research.paper.report.plate import Plate, panel, plate

PANELS = {
    "held_out": "error of the final policy",
    "live": "error while running",
    "calls": "reward calls",
}


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """For each kind of reward, stream and radius scale the paper's learners; in the first stream ours with them."""
    drawn = {}
    for noisy in setting.noisy:
        for stream in setting.streams:
            for scale in setting.radius_scales:
                first = stream == setting.streams[0] and scale == setting.radius_scales[0]
                where = (kind(noisy), stream, scale)
                name = f"{kind(noisy)}_{stream}_scale_{scale:g}"
                drawn[f"error_{name}"] = _plate(setting, analysis, where, PAPER, folded=not first)
                if stream == setting.streams[0]:
                    drawn[f"ours_{name}"] = _plate(setting, analysis, where, OTHERS, folded=True)
    return drawn


def _plate(
    setting: Setting, analysis: Analysis, where: tuple[str, str, float], names: Sequence[str], *, folded: bool
) -> Plate:
    rewards, stream, scale = where
    table = Frame.of(analysis.tables["summary"]).where(rewards=rewards, stream=stream)
    shown = drawing.at_scale(table, scale)
    panels = []
    for metric, up in PANELS.items():
        for dataset in setting.datasets:
            chosen = shown.where(dataset=dataset, metric=metric)
            if metric == "calls":
                chosen = chosen.only(lambda row: row["algorithm"] not in OFFLINE)
            axes = panel(dataset, across=drawing.SHARES, up=up)
            drawing.along_shares(axes, chosen, names)
            axes.set_ylim(0, 1.05 * setting.rounds if metric == "calls" else None)
            if metric == "calls":
                axes.yaxis.set_major_formatter("{x:,.0f}")
            panels.append(axes)
    who = "the paper's learners" if names == PAPER else "with ours"
    played = "contexts of the log" if stream == "in-log" else "contexts that are not in the log"
    return plate(
        f"Mistakes with {rewards} rewards, on {played}, at {drawing.guarantee(scale)}: {who}",
        panels,
        see=f"Across: n^UA, the {drawing.SHARES} in a context. Up: share of wrong classes of the final policy on held-out rows "
        "(first three) and while running (next three), and the reward calls that took (last three). Lower is better everywhere.",
        regime=_regime(setting, rewards, stream, scale),
        folded=folded,
    )


def _regime(setting: Setting, rewards: str, stream: str, scale: float) -> str:
    regret = "this error" if rewards == "noiseless" else "half this error"
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
        f"{setting.radius} radius, radius_scale {scale:g}{'' if scale >= 1 else ' (no guarantee)'}; per-context logging, "
        f"round(n^UA·K) of the K classes unsupported in a context, uniform on the rest; prior: L = K/2 classes (most rows), points "
        f"fitted to the log; calls have no price. {stream} stream, T = {setting.rounds:,} rounds, regret a round is {regret}.{same}"
        f"{void} Means over {len(setting.seeds)} seeds, bars are 95 % intervals. OPR and greedy ridge make no calls; OPR keeps to "
        f"the support of the contexts it is scored on (restriction: run at n^UA {restricted}). Log: {logged}; 15 % held out. "
        f"Features to [0, 1], a constant, unit norm. σ = {setting.noise:g}, λ = {setting.ridge:g}, δ = {setting.delta:g}, S_x = 1, "
        f"S_θ estimated from the log; M = P90/P10 (here 1) unless ∞; tolerance {setting.tolerance:g} for certified and confident."
    )
