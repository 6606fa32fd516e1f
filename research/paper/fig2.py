"""Fig. 2: reward calls as more actions are unsupported (claim C3)."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.learners import M_NAMES, RATIO, UNCLIPPED
from research.paper import calls, intervals
from research.paper.calls import MOST_ROWS, SAME, cell, curve_table, every_cell, final_table
from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Analysis, Experiment, Pairs, Record, Verdict
from research.paper.frame import Frame


@dataclass(frozen=True)
class Setting:
    """n^UA in `unsupported` at one L, at every scale and with every M.

    `chosen` says how 𝓛 comes about: by rows in each log, so that it changes with n^UA by chance; or one 𝓛
    for all of them. `margin`, a share of T, is the difference that counts as none.
    """

    seeds: tuple[int, ...] = tuple(range(20))
    unsupported: tuple[float, ...] = (0.6, 0.4, 0.2)
    supported: int = 4
    clips: tuple[str, ...] = (RATIO, UNCLIPPED)
    chosen: tuple[str, ...] = (MOST_ROWS, SAME)
    features: int = 5
    rounds: int = 3000
    scales: tuple[float, ...] = (1.0, 0.2, 0.1)
    shown_scales: tuple[float, ...] = (1.0, 0.1)
    margin: float = 0.02

    def place(self, scale: float) -> dict[str, Any]:
        """Where the cells stand at one scale."""
        return {"features": self.features, "rounds": self.rounds, "radius_scale": scale}


FULL = Setting()

QUICK = Setting(seeds=(0, 1, 2, 3), scales=(1.0, 0.1))


def units(setting: Setting) -> list[Record]:
    """A unit is one seed and radius, with every n^UA, M and 𝓛."""
    return [
        calls.unit(
            seed=seed,
            **setting.place(scale),
            supported=(setting.supported,),
            unsupported=setting.unsupported,
            clips=setting.clips,
            chosen=setting.chosen,
        )
        for seed, scale in itertools.product(setting.seeds, setting.scales)
    ]


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Equivalence of ε-mOFUL's calls, trends of ε-mOFUL-IPS's, and curves of calls and regret."""
    runs = calls.frame(results)
    pairs, trends = Frame(_pairs(setting, runs)), Frame(_trends(setting, runs))
    own = ((setting.supported,), setting.unsupported, setting.clips)
    shown = [each for scale in setting.shown_scales for each in every_cell(setting.place(scale), *own)]
    tables = {
        "final": final_table(runs),
        "curves": curve_table(runs, shown),
        "pairs": pairs.columns(),
        "trends": trends.columns(),
    }
    numbers = {name: table for name, table in tables.items() if name != "curves"}
    return Analysis(numbers=numbers, tables=tables, verdicts=(_judge(setting, runs, pairs, trends),))


def _along(setting: Setting, runs: Frame, algorithm: str, scale: float, **which: Any) -> dict[float, Frame]:
    """The runs of an algorithm at one radius by n^UA; `which` are its M and 𝓛."""
    cells = {
        share: cell(algorithm, setting.place(scale), supported=setting.supported, unsupported=share, **which)
        for share in setting.unsupported
    }
    return {share: runs.where(**each) for share, each in cells.items()}


def _pairs(setting: Setting, runs: Frame) -> Iterator[Record]:
    """Differences of ε-mOFUL's calls between two values of n^UA, as shares of the rounds."""
    for scale, chosen in itertools.product(setting.scales, setting.chosen):
        found = _along(setting, runs, "eps_moful", scale, chosen=chosen)
        for one, other in itertools.combinations(setting.unsupported, 2):
            gap = found[one].less(found[other], "calls").named("difference")
            share = {name: end / setting.rounds for name, end in gap.items()}
            low, high = share["difference_low"], share["difference_high"]
            yield {
                "radius_scale": scale,
                "chosen": chosen,
                "first": one,
                "second": other,
                **share,
                "equivalent": bool(-setting.margin <= low and high <= setting.margin),
            }


def _trends(setting: Setting, runs: Frame) -> Iterator[Record]:
    """The slope of calls in n^UA, as a share of the rounds, seed by seed; positive: fewer as n^UA falls."""
    for scale, chosen, clip in itertools.product(setting.scales, setting.chosen, setting.clips):
        found = _along(setting, runs, "eps_moful_ips", scale, chosen=chosen, clip=clip).values()
        row: Record = {"radius_scale": scale, "chosen": chosen, "clip": clip}
        for name, unit in (("calls", setting.rounds), ("regret", 1)):
            values = np.array([one.values(name) for one in found]) / unit
            row |= intervals.mean(np.polyfit(setting.unsupported, values, 1)[0]).named(name)
        yield row


def _judge(setting: Setting, runs: Frame, pairs: Frame, trends: Frame) -> Verdict:
    """C3 holds in a setting if ε-mOFUL's calls are equivalent for all n^UA and the slope is above zero."""
    true = [row for row in trends if row["calls_low"] > 0 and all(_alike(pairs, row)["equivalent"])]
    first = (setting.scales[0], MOST_ROWS, setting.clips[0])
    default = [row for row in true if (row["radius_scale"], row["chosen"], row["clip"]) == first]
    texts = "; ".join(f"{_where(row)}: {_slope(row)}" for row in trends)
    even = "; ".join(
        f"{_chosen(row)}, scale {row['radius_scale']:g}: {_evenness(_alike(pairs, row))}"
        for row in trends.where(clip=setting.clips[0])
    )
    shares = ", ".join(f"{share:g}" for share in setting.unsupported)
    return Verdict(
        claim="C3",
        source="Fig. 2",
        says=f"at L = {setting.supported} ε-mOFUL does not depend on n^UA ∈ {{{shares}}}, and ε-mOFUL-IPS needs fewer calls "
        "as n^UA falls",
        measured=f"ε-mOFUL's calls equivalent within {setting.margin:g}·T (largest limit of a paired difference, in T): "
        f"{even}. Slope of ε-mOFUL-IPS's calls in n^UA (in T, from 0 to 1; positive as the paper says): {texts}. "
        + _levels(setting, runs),
        verdict=HOLDS if default else ONLY_WHEN if true else FAILS,
        when=f"both are shown at {'; '.join(map(_where, true)) or 'no setting that was run'}. With M = P90/P10, which is 1 "
        "under uniform logging, the threshold is the logged reward itself, whatever n^UA is.",
    )


def _alike(pairs: Frame, row: Record) -> Frame:
    return pairs.where(radius_scale=row["radius_scale"], chosen=row["chosen"])


def _evenness(pairs: Frame) -> str:
    """Whether all pairs are equivalent, and their largest limit."""
    largest = max(abs(end) for end in (*pairs["difference_low"], *pairs["difference_high"]))
    return f"{'yes' if all(pairs['equivalent']) else 'no'}, at most {largest:.3g}"


def _levels(setting: Setting, runs: Frame) -> str:
    """Calls and regret of ε-mOFUL-IPS for each n^UA at the first scale."""
    texts = []
    for clip in setting.clips:
        found = _along(setting, runs, "eps_moful_ips", setting.scales[0], clip=clip).values()
        shares = ", ".join(f"{one.values('calls').mean() / setting.rounds:.3g}" for one in found)
        regret = ", ".join(f"{one.values('regret').mean():.4g}" for one in found)
        texts.append(f"{M_NAMES[clip]}: {shares} (regret {regret})")
    return f"Its share of calls by n^UA at scale {setting.scales[0]:g}: {'; '.join(texts)}."


def _slope(row: Record) -> str:
    return f"{intervals.read(row, 'calls').text()} (of regret {intervals.read(row, 'regret').text()})"


def _chosen(row: Record) -> str:
    return "𝓛 by rows" if row["chosen"] == MOST_ROWS else "one 𝓛"


def _where(row: Record) -> str:
    return f"{M_NAMES[row['clip']]}, {_chosen(row)}, scale {row['radius_scale']:g}"


EXPERIMENT = Experiment(
    name="fig2",
    title="reward calls as the share of unsupported actions changes",
    quick=QUICK,
    full=FULL,
    units=units,
    run=calls.run,
    analyse=analyse,
)
