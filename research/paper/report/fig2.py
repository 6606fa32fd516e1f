"""The figures of Fig. 2: calls and regret over the rounds for each n^UA, and their slopes."""

from research.paper.calls import MOST_ROWS, SAME
from research.paper.experiment import Analysis
from research.paper.fig2 import Setting
from research.paper.frame import Frame
from research.paper.report import calls, drawing
from research.paper.report.drawing import guarantee
from research.paper.report.plate import Plate

KNOWN = {MOST_ROWS: "known by rows", SAME: "the same known"}


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """Calls and regret at each shown scale, and final values against n^UA."""
    drawn = {f"calls_scale_{scale:g}": _curves(setting, analysis, scale) for scale in setting.shown_scales}
    return {**drawn, "sensitivity": _sensitivity(setting, analysis)}


def _settings(setting: Setting) -> str:
    return f"L = {setting.supported}, d = {setting.features}, T = {setting.rounds:,}; {calls.COMMON}"


def _curves(setting: Setting, analysis: Analysis, scale: float) -> Plate:
    table = Frame.of(analysis.tables["curves"]).where(radius_scale=scale)
    return calls.over_rounds(
        {
            f"n^UA = {share:g} of actions untried": table.among("unsupported", (None, share))
            for share in setting.unsupported
        },
        f"The more the log tries: calls and regret at {guarantee(scale)}",
        rounds=setting.rounds,
        regime=f"radius_scale {scale:g}; means over {len(setting.seeds)} seeds with 95 % bands; {_settings(setting)}.",
        folded=scale != setting.shown_scales[0],
    )


def _sensitivity(setting: Setting, analysis: Analysis) -> Plate:
    table = Frame.of(analysis.tables["final"])
    return calls.at_the_end(
        {
            f"scale {scale:g}, {KNOWN[chosen]}": table.where(radius_scale=scale, chosen=chosen)
            for scale in setting.scales
            for chosen in setting.chosen
        },
        "Does the share of untried actions matter?",
        along="unsupported",
        across=drawing.SHARES,
        ticks=setting.unsupported,
        see="Across: n^UA, the share of actions that the log never tries in a context. Up: calls as a share of all rounds (first "
        "half) and regret (second half), at the end. Level lines mean that the share does not matter. Known by rows: the L "
        "actions with most rows of each log, which change with n^UA by chance; the same known: one set for every n^UA.",
        regime=f"radius_scale as titled; means over {len(setting.seeds)} seeds with 95 % intervals; {_settings(setting)}.",
        folded=True,
    )
