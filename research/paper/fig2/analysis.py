"""Does n^UA leave ε-mOFUL's calls alone, and does ε-mOFUL-IPS need fewer as it falls?"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from research.paper import intervals
from research.paper.calls import MOST_ROWS, Cells, Results, cell, columns, curve_table, final_table
from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Analysis, Record, Verdict
from research.paper.fig1.judging import M_NAMES
from research.paper.fig2.setting import Setting
from research.paper.intervals import Interval


def analyse(setting: Setting, results: Results) -> Analysis:
    """Equivalence of ε-mOFUL's calls, trends of ε-mOFUL-IPS's, and curves of calls and regret."""
    cells = Cells(results)
    pairs, trends = list(_pairs(setting, cells)), list(_trends(setting, cells))
    tables = {
        "final": final_table(cells),
        "curves": curve_table(
            cells, [place for scale in setting.shown_scales for place in _own(setting, scale)]
        ),
        "pairs": columns(pairs),
        "trends": columns(trends),
    }
    numbers = {name: tables[name] for name in ("final", "pairs", "trends")}
    return Analysis(numbers=numbers, tables=tables, verdicts=(_judge(setting, cells, pairs, trends),))


def _place(setting: Setting, scale: float) -> dict[str, Any]:
    return {"features": setting.features, "rounds": setting.rounds, "radius_scale": scale}


def _own(setting: Setting, scale: float) -> Iterator[Record]:
    """The figure's own cells at one scale."""
    place = _place(setting, scale)
    yield cell("moful", **place)
    for share in setting.unsupported:
        known = place | {"supported": setting.supported, "unsupported": share}
        yield cell("eps_moful", **known)
        for clip in setting.clips:
            yield cell("eps_moful_ips", clip=clip, **known)


def _pairs(setting: Setting, cells: Cells) -> Iterator[Record]:
    """Differences of ε-mOFUL's calls between two values of n^UA, as shares of the rounds."""
    for scale in setting.scales:
        for chosen in setting.chosen:
            for one, other in itertools.combinations(setting.unsupported, 2):
                first, second = (
                    cell(
                        "eps_moful",
                        **_place(setting, scale),
                        supported=setting.supported,
                        unsupported=share,
                        chosen=chosen,
                    )
                    for share in (one, other)
                )
                found = cells.difference(first, second)
                low, high = found.low / setting.rounds, found.high / setting.rounds
                yield {
                    "radius_scale": scale,
                    "chosen": chosen,
                    "first": one,
                    "second": other,
                    "difference": found.value / setting.rounds,
                    "difference_low": low,
                    "difference_high": high,
                    "equivalent": bool(-setting.margin <= low and high <= setting.margin),
                }


def _trends(setting: Setting, cells: Cells) -> Iterator[Record]:
    """The slope of calls in n^UA, as a share of the rounds, seed by seed; positive: fewer as n^UA falls."""
    for scale in setting.scales:
        for chosen in setting.chosen:
            for clip in setting.clips:
                places = [
                    cell(
                        "eps_moful_ips",
                        **_place(setting, scale),
                        supported=setting.supported,
                        unsupported=share,
                        clip=clip,
                        chosen=chosen,
                    )
                    for share in setting.unsupported
                ]
                row: Record = {"radius_scale": scale, "chosen": chosen, "clip": clip}
                for name, unit in (("calls", setting.rounds), ("regret", 1)):
                    values = np.array([cells.values(place, name) for place in places]) / unit
                    slope = intervals.mean(np.polyfit(setting.unsupported, values, 1)[0])
                    row |= {name: slope.value, f"{name}_low": slope.low, f"{name}_high": slope.high}
                yield row


def _judge(setting: Setting, cells: Cells, pairs: Sequence[Record], trends: Sequence[Record]) -> Verdict:
    """C3 holds in a setting if ε-mOFUL's calls are equivalent for all n^UA and the slope is above zero."""
    true = [row for row in trends if row["calls_low"] > 0 and _equivalent(pairs, row)]
    default = [row for row in true if (row["radius_scale"], row["chosen"], row["clip"]) == _first(setting)]
    told = "; ".join(f"{_where(row)}: {_slope(row)}" for row in trends)
    even = "; ".join(
        f"{_chosen(row)}, scale {row['radius_scale']:g}: {'yes' if _equivalent(pairs, row) else 'no'}, at most "
        f"{_largest(pairs, row):.3g}"
        for row in trends
        if row["clip"] == setting.clips[0]
    )
    shares = ", ".join(f"{share:g}" for share in setting.unsupported)
    return Verdict(
        claim="C3",
        source="Fig. 2",
        says=f"at L = {setting.supported} ε-mOFUL does not depend on n^UA ∈ {{{shares}}}, and ε-mOFUL-IPS needs fewer calls "
        "as n^UA falls",
        measured=f"ε-mOFUL's calls equivalent within {setting.margin:g}·T (largest limit of a paired difference, in T): "
        f"{even}. Slope of ε-mOFUL-IPS's calls in n^UA (in T, from 0 to 1; positive as the paper says): {told}. "
        + _levels(setting, cells),
        verdict=HOLDS if default else ONLY_WHEN if true else FAILS,
        when=f"both are shown at {'; '.join(map(_where, true)) or 'no setting that was run'}. With M = P90/P10, which is 1 "
        "under uniform logging, the threshold is the logged reward itself, whatever n^UA is.",
    )


def _first(setting: Setting) -> tuple[float, str, str]:
    return setting.scales[0], MOST_ROWS, setting.clips[0]


def _alike(pairs: Sequence[Record], row: Record) -> list[Record]:
    return [pair for pair in pairs if all(pair[name] == row[name] for name in ("radius_scale", "chosen"))]


def _equivalent(pairs: Sequence[Record], row: Record) -> bool:
    return all(pair["equivalent"] for pair in _alike(pairs, row))


def _largest(pairs: Sequence[Record], row: Record) -> float:
    ends = ("difference_low", "difference_high")
    return max(abs(pair[end]) for pair in _alike(pairs, row) for end in ends)


def _levels(setting: Setting, cells: Cells) -> str:
    """Calls and regret of ε-mOFUL-IPS for each n^UA at the first scale."""
    told = []
    for clip in setting.clips:
        places = [
            cell(
                "eps_moful_ips",
                **_place(setting, setting.scales[0]),
                supported=setting.supported,
                unsupported=share,
                clip=clip,
            )
            for share in setting.unsupported
        ]
        calls = ", ".join(f"{cells.values(place, 'calls').mean() / setting.rounds:.3g}" for place in places)
        regret = ", ".join(f"{cells.values(place, 'regret').mean():.4g}" for place in places)
        told.append(f"{M_NAMES[clip]}: {calls} (regret {regret})")
    return f"Its share of calls by n^UA at scale {setting.scales[0]:g}: {'; '.join(told)}."


def _slope(row: Record) -> str:
    calls = Interval(row["calls"], row["calls_low"], row["calls_high"])
    regret = Interval(row["regret"], row["regret_low"], row["regret_high"])
    return f"{calls.text()} (of regret {regret.text()})"


def _chosen(row: Record) -> str:
    return "𝓛 by rows" if row["chosen"] == MOST_ROWS else "one 𝓛"


def _where(row: Record) -> str:
    return f"{M_NAMES[row['clip']]}, {_chosen(row)}, scale {row['radius_scale']:g}"
