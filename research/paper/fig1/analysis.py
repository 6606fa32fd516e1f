"""Do calls fall as 𝓛 grows, and are a fifth of them enough?"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from research.paper import intervals
from research.paper.calls import Cells, Results, cell, columns, curve_table, final_table
from research.paper.experiment import Analysis, Record
from research.paper.fig1.judging import judge_order, judge_share
from research.paper.fig1.setting import Setting


def analyse(setting: Setting, results: Results) -> Analysis:
    """Paired differences for C1, shares for C2, and curves of calls and regret."""
    cells = Cells(results)
    differences = list(_differences(setting, cells))
    shares = list(_shares(setting, cells))
    tables = {
        "final": final_table(cells),
        "curves": curve_table(
            cells, [place for scale in setting.shown_scales for place in _own(setting, scale)]
        ),
        "differences": columns(differences),
        "shares": columns(shares),
    }
    verdicts = (judge_order(setting, cells, differences), judge_share(setting, cells, shares))
    numbers = {name: tables[name] for name in ("final", "differences", "shares")}
    return Analysis(numbers=numbers, tables=tables, verdicts=verdicts)


def _own(setting: Setting, scale: float) -> Iterator[Record]:
    """The figure's own cells at one scale."""
    place: dict[str, Any] = {"features": setting.features, "rounds": setting.rounds, "radius_scale": scale}
    yield cell("moful", **place)
    for size in setting.supported:
        place |= {"supported": size, "unsupported": setting.unsupported}
        yield cell("eps_moful", **place)
        for clip in setting.clips:
            yield cell("eps_moful_ips", clip=clip, **place)


def _differences(setting: Setting, cells: Cells) -> Iterator[Record]:
    """Every inequality of C1 in every setting that was run: fewer calls, as a share of the rounds."""
    for scale in setting.scales:
        yield from _inequalities(setting, cells, setting.features, scale, setting.supported)
    ends = (setting.supported[0], setting.supported[-1])
    for features in setting.other_features:
        for scale in setting.other_scales:
            yield from _inequalities(setting, cells, features, scale, ends)


def _inequalities(
    setting: Setting, cells: Cells, features: int, scale: float, sizes: Sequence[int]
) -> Iterator[Record]:
    place: dict[str, Any] = {"features": features, "rounds": setting.rounds, "radius_scale": scale}

    def found(algorithm: str, size: int, clip: str | None = None) -> Record:
        return cell(algorithm, **place, supported=size, unsupported=setting.unsupported, clip=clip)

    def row(says: str, more: Record, fewer: Record, clip: str | None, needed: bool) -> Record:
        saved, regret = (cells.difference(more, fewer, name) for name in ("calls", "regret"))
        return {
            "features": features,
            "radius_scale": scale,
            "clip": clip,
            "says": says,
            "needed": needed,
            "saved_share": saved.value / setting.rounds,
            "saved_share_low": saved.low / setting.rounds,
            "saved_share_high": saved.high / setting.rounds,
            "regret_saved": regret.value,
            "regret_saved_low": regret.low,
            "regret_saved_high": regret.high,
        }

    for size in sizes:
        informed, last = found("eps_moful", size), size == sizes[-1]
        yield row(f"ε-mOFUL below mOFUL at L={size}", cell("moful", **place), informed, None, last)
        for clip in setting.clips:
            ips = found("eps_moful_ips", size, clip)
            yield row(f"ε-mOFUL-IPS below ε-mOFUL at L={size}", informed, ips, clip, last)
    ends = (sizes[0], sizes[-1])
    for small, large in dict.fromkeys([*itertools.pairwise(sizes), ends]):
        step, needed = f"L={large} below L={small}", (small, large) == ends
        yield row(f"ε-mOFUL: {step}", found("eps_moful", small), found("eps_moful", large), None, needed)
        for clip in setting.clips:
            more, fewer = (found("eps_moful_ips", size, clip) for size in (small, large))
            yield row(f"ε-mOFUL-IPS: {step}", more, fewer, clip, needed)


def _shares(setting: Setting, cells: Cells) -> Iterator[Record]:
    """ε-mOFUL-IPS's calls at the largest L as a share of mOFUL's, which are all T."""
    for place in cells:
        if place["algorithm"] == "eps_moful_ips" and place["supported"] == setting.supported[-1]:
            share = intervals.mean(cells.values(place, "calls") / place["rounds"])
            regret = intervals.mean(cells.values(place, "regret"))
            low, high = setting.share_range
            yield {
                **{name: place[name] for name in ("features", "rounds", "radius_scale", "clip")},
                "seeds": len(cells.runs(place)),
                "share": share.value,
                "share_low": share.low,
                "share_high": share.high,
                "within": bool(low <= share.low and share.high <= high),
                "regret": regret.value,
                "regret_low": regret.low,
                "regret_high": regret.high,
            }
