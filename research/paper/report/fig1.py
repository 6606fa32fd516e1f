"""The figures of Fig. 1: calls and regret over the rounds, and what the share of calls hangs on."""

from research.paper.experiment import Analysis
from research.paper.fig1 import Setting
from research.paper.frame import Frame
from research.paper.report import calls
from research.paper.report.drawing import guarantee, numbers
from research.paper.report.plate import Plate


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """Calls and regret at each shown scale, and the sensitivity of both."""
    drawn = {f"calls_scale_{scale:g}": _curves(setting, analysis, scale) for scale in setting.shown_scales}
    return {**drawn, "sensitivity": _sensitivity(setting, analysis)}


def _curves(setting: Setting, analysis: Analysis, scale: float) -> Plate:
    table = Frame.of(analysis.tables["curves"]).where(radius_scale=scale)
    return calls.over_rounds(
        {f"L = {size} known actions": table.among("supported", (None, size)) for size in setting.supported},
        f"The more actions are known: calls and regret at {guarantee(scale)}",
        rounds=setting.rounds,
        regime=f"radius_scale {scale:g}; means over {len(setting.seeds)} seeds with 95 % bands; n^UA = {setting.unsupported:g}, "
        f"d = {setting.features}, T = {setting.rounds:,}; {calls.COMMON}.",
        folded=scale != setting.shown_scales[0],
    )


def _sensitivity(setting: Setting, analysis: Analysis) -> Plate:
    table = Frame.of(analysis.tables["final"]).among("supported", (None, setting.supported[-1]))
    features = sorted({setting.features, *setting.other_features})
    low, high = setting.share_range
    return calls.at_the_end(
        {f"d = {size} features": table.where(rounds=setting.rounds, features=size) for size in features},
        "When is it one call in five?",
        along="radius_scale",
        across="radius scale",
        ticks=[scale for scale in setting.scales if scale != 0.05],
        shaded=(low, high),
        see=f"Across: the factor on the confidence radius (1: as the guarantee needs it). Up: calls as a share of all rounds "
        f'(first half; shaded: {low:g} to {high:g}, the paper\'s "about 20 %") and regret (second half). Look where a line '
        "crosses the shade: left of 1 no guarantee holds.",
        regime=f"radius_scale as drawn; L = {setting.supported[-1]} known actions; means over {len(setting.seeds)} seeds "
        f"(ε-mOFUL-IPS at d = {setting.features} and scale {numbers(setting.share_scales)}: "
        f"{len(setting.seeds) * setting.share_repeats}) with 95 % intervals; n^UA = {setting.unsupported:g}, d = "
        f"{numbers(features)}, T = {setting.rounds:,}; {calls.COMMON}.",
    )
