"""Fig. 1: reward calls over the rounds as 𝓛 grows (claims C1 and C2)."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from research.learners import M_NAMES, RATIO, UNCLIPPED
from research.paper import calls, intervals
from research.paper.calls import cell, curve_table, every_cell, final_table
from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Analysis, Experiment, Pairs, Record, Verdict
from research.paper.frame import Frame

IPS_ONLY = ("eps_moful_ips",)
NOWHERE = "no setting that was run"


@dataclass(frozen=True)
class Setting:
    """The figure's own cells: `features`, `rounds`, every L of `supported` and every scale of `scales`.

    Around them: other numbers of features at `other_scales` with the smallest and the largest L; other
    numbers of rounds with the largest L; and, because the share of calls that C2 speaks of varies much between
    worlds, `share_repeats` times as many seeds for it at `share_scales`.
    """

    seeds: tuple[int, ...] = tuple(range(20))
    unsupported: float = 0.2
    supported: tuple[int, ...] = (5, 10, 12)
    clips: tuple[str, ...] = (RATIO, UNCLIPPED)
    features: int = 5
    rounds: int = 3000
    scales: tuple[float, ...] = (1.0, 0.5, 0.2, 0.1, 0.05)
    shown_scales: tuple[float, ...] = (1.0, 0.1)
    other_features: tuple[int, ...] = (1, 2, 10)
    other_rounds: tuple[int, ...] = (1000, 10_000)
    other_scales: tuple[float, ...] = (1.0, 0.1)
    share_scales: tuple[float, ...] = (0.15, 0.125, 0.1, 0.09, 0.08)
    share_repeats: int = 10
    share_range: tuple[float, float] = (0.15, 0.25)

    @property
    def ends(self) -> tuple[int, ...]:
        """The smallest and the largest L."""
        return tuple(dict.fromkeys((self.supported[0], self.supported[-1])))

    def place(self, scale: float) -> dict[str, Any]:
        """Where the figure's own cells stand at one scale."""
        return {"features": self.features, "rounds": self.rounds, "radius_scale": scale}


FULL = Setting()

QUICK = Setting(
    seeds=(0, 1, 2, 3),
    scales=(1.0, 0.2, 0.1),
    other_features=(2,),
    other_rounds=(1000,),
    other_scales=(1.0, 0.1),
    share_scales=(0.2, 0.1),
    share_repeats=2,
)


def units(setting: Setting) -> list[Record]:
    """A unit is one seed, radius, number of features and number of rounds; the figure's own come first."""
    common: dict[str, Any] = {"unsupported": (setting.unsupported,), "clips": setting.clips}
    largest: dict[str, Any] = {**common, "algorithms": IPS_ONLY, "supported": setting.ends[-1:]}

    def listed() -> Iterator[Record]:
        for seed, scale in itertools.product(setting.seeds, setting.scales):
            yield calls.unit(seed=seed, **setting.place(scale), supported=setting.supported, **common)
        for seed, scale in itertools.product(setting.seeds, setting.other_scales):
            place = setting.place(scale)
            for features in setting.other_features:
                other = {**place, "features": features}
                yield calls.unit(seed=seed, **other, supported=setting.ends, **common)
            for rounds in setting.other_rounds:
                yield calls.unit(seed=seed, **{**place, "rounds": rounds}, **largest)
        for seed, scale in itertools.product(setting.seeds, setting.share_scales):
            for again in range(setting.share_repeats):
                # The seeds of the figure's own cells have been run with these scales already.
                if again or scale not in setting.scales:
                    more = seed + again * len(setting.seeds)
                    yield calls.unit(seed=more, **setting.place(scale), **largest)

    return list(listed())


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Paired differences for C1, shares for C2, and curves of calls and regret."""
    runs = calls.frame(results)
    differences = Frame(_differences(setting, runs))
    shares = Frame(_shares(setting, runs))
    own = (setting.supported, (setting.unsupported,), setting.clips)
    shown = [each for scale in setting.shown_scales for each in every_cell(setting.place(scale), *own)]
    tables = {
        "final": final_table(runs),
        "curves": curve_table(runs, shown),
        "differences": differences.columns(),
        "shares": shares.columns(),
    }
    numbers = {name: table for name, table in tables.items() if name != "curves"}
    verdicts = (judge_order(setting, runs, differences), judge_share(setting, runs, shares))
    return Analysis(numbers=numbers, tables=tables, verdicts=verdicts)


def _differences(setting: Setting, runs: Frame) -> Iterator[Record]:
    """Every inequality of C1 in every setting that was run: fewer calls, as a share of the rounds."""
    for scale in setting.scales:
        yield from _inequalities(setting, runs, setting.place(scale), setting.supported)
    for features, scale in itertools.product(setting.other_features, setting.other_scales):
        place = {**setting.place(scale), "features": features}
        yield from _inequalities(setting, runs, place, (setting.supported[0], setting.supported[-1]))


def _inequalities(
    setting: Setting, runs: Frame, place: dict[str, Any], sizes: Sequence[int]
) -> Iterator[Record]:
    def found(algorithm: str, size: int, clip: str | None = None) -> Frame:
        known = cell(algorithm, place, supported=size, unsupported=setting.unsupported, clip=clip)
        return runs.where(**known)

    def row(says: str, more: Frame, fewer: Frame, clip: str | None, needed: bool) -> Record:
        saved, regret = (more.less(fewer, name) for name in ("calls", "regret"))
        where = {"features": place["features"], "radius_scale": place["radius_scale"], "clip": clip}
        share = {name: end / setting.rounds for name, end in saved.named("saved_share").items()}
        return {**where, "says": says, "needed": needed, **share, **regret.named("regret_saved")}

    moful = runs.where(**cell("moful", place))
    for size in sizes:
        informed, last = found("eps_moful", size), size == sizes[-1]
        yield row(f"ε-mOFUL below mOFUL at L={size}", moful, informed, None, last)
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


def _shares(setting: Setting, runs: Frame) -> Iterator[Record]:
    """ε-mOFUL-IPS's calls at the largest L as a share of mOFUL's, which are all T."""
    names = ("features", "rounds", "radius_scale", "clip")
    low, high = setting.share_range
    largest = runs.where(algorithm="eps_moful_ips", supported=setting.supported[-1])
    for place, found in largest.by(*names).items():
        where: Record = dict(zip(names, place, strict=True))
        share = found.mean("calls", of=where["rounds"])
        yield {
            **where,
            "seeds": len(found),
            **share.named("share"),
            "within": bool(low <= share.low and share.high <= high),
            **found.mean("regret").named("regret"),
        }


def judge_order(setting: Setting, runs: Frame, differences: Frame) -> Verdict:
    """C1 holds in a setting if its two savings and its falls are shown there and nothing is reversed.

    Shown is a paired difference whose 95 % interval lies above zero: ε-mOFUL below mOFUL and ε-mOFUL-IPS below
    ε-mOFUL at the largest L, and both falling from the smallest to the largest L. Reversed is one below zero.
    """
    places = differences.by("features", "radius_scale")
    order = sorted(places, key=lambda place: (place[0] != setting.features, place[0], -place[1]))
    found = {  # the inequalities of ε-mOFUL alone belong to either M
        (*place, clip): [row for row in places[place] if row["clip"] in (None, clip)]
        for clip in setting.clips
        for place in order
    }
    true = [place for place, rows in found.items() if _bears_out(rows)]
    default = (setting.features, setting.scales[0], setting.clips[0])
    return Verdict(
        claim="C1",
        source="Fig. 1",
        says=f"at n^UA = {setting.unsupported:g} calls fall with L ∈ {{{', '.join(map(str, setting.supported))}}}, and "
        "mOFUL = T ≥ ε-mOFUL ≥ ε-mOFUL-IPS",
        measured=_own_calls(setting, runs, setting.scales[0]) + " " + _contradictions(differences),
        verdict=HOLDS if default in true else ONLY_WHEN if true else FAILS,
        when=f"shown, paired over seeds at 95 %, at {_places(true)} ({len(true)} of {len(found)} settings)."
        + _lacking([rows for place, rows in found.items() if place not in true]),
    )


def _bears_out(rows: Sequence[Record]) -> bool:
    shown = all(row["saved_share_low"] > 0 for row in rows if row["needed"])
    return shown and not any(row["saved_share_high"] < 0 for row in rows)


def _lacking(settings: Sequence[Sequence[Record]]) -> str:
    """What C1 says that was not shown, and in how many settings."""
    reversed_, missing = Counter[str](), Counter[str]()
    for rows in settings:
        reversed_.update(row["says"] for row in rows if row["saved_share_high"] < 0)
        missing.update(row["says"] for row in rows if row["needed"] and not row["saved_share_low"] > 0)
    texts = [f"{says} is reversed in {count}" for says, count in reversed_.items()]
    texts += [f"{says} is not shown in {count}" for says, count in missing.items()]
    return f" In the others {', '.join(texts)}." if texts else ""


def _contradictions(differences: Frame) -> str:
    against = [row for row in differences if row["saved_share_high"] < 0]
    log_beats = [row for row in differences if "IPS below" in row["says"]]
    costly = [row for row in log_beats if row["regret_saved_high"] < 0]
    return (
        f"Of {len(differences)} inequalities in all settings {len(against)} are reversed; log-beats raises regret "
        f"(95 %) in {len(costly)} of {len(log_beats)} comparisons."
    )


def _own_calls(setting: Setting, runs: Frame, scale: float) -> str:
    place = setting.place(scale)
    kinds: dict[str, tuple[str, str | None]] = {"ε-mOFUL": ("eps_moful", None)}
    for clip in setting.clips:
        kinds[f"ε-mOFUL-IPS with {M_NAMES[clip]}"] = ("eps_moful_ips", clip)
    texts = [f"mOFUL 1 (regret {runs.where(**cell('moful', place)).mean('regret').text()})"]
    for name, (algorithm, m) in kinds.items():
        known = [
            cell(algorithm, place, supported=size, unsupported=setting.unsupported, clip=m)
            for size in setting.supported
        ]
        found = [runs.where(**each) for each in known]
        shares = ", ".join(one.mean("calls", of=setting.rounds).text() for one in found)
        regret = ", ".join(one.mean("regret").text() for one in found)
        texts.append(f"{name} {shares} (regret {regret})")
    sizes = ", ".join(map(str, setting.supported))
    return f"Calls as shares of T for L = {sizes} at radius_scale {scale:g}: {'; '.join(texts)}."


def _places(places: Sequence[tuple[Any, ...]]) -> str:
    """Settings in words, the scales of one M and d together."""
    scales: dict[tuple[str, int], list[str]] = {}
    for features, scale, clip in places:
        scales.setdefault((clip, features), []).append(f"{scale:g}")
    texts = (
        f"{M_NAMES[clip]}, d = {features}, radius_scale {', '.join(listed)}"
        for (clip, features), listed in scales.items()
    )
    return "; ".join(texts) or NOWHERE


def judge_share(setting: Setting, runs: Frame, shares: Frame) -> Verdict:
    """C2 holds in a setting if the share's 95 % interval lies within the range that "about 20 %" means."""
    low, high = setting.share_range
    own = list(shares.where(features=setting.features, rounds=setting.rounds))
    own.sort(key=lambda row: (setting.clips.index(row["clip"]), -row["radius_scale"]))
    true = shares.where(within=True)
    first = (1, setting.clips[0])
    default = any(row["within"] and (row["radius_scale"], row["clip"]) == first for row in own)
    moful = {scale: runs.where(**cell("moful", setting.place(scale))) for scale in setting.scales}
    regret = ", ".join(f"{found.mean('regret').text()} at {scale:g}" for scale, found in moful.items())
    texts = "; ".join(
        f"{M_NAMES[clip]}: "
        + ", ".join(f"{_share(row)} at {row['radius_scale']:g}" for row in own if row["clip"] == clip)
        for clip in setting.clips
    )
    where = "; ".join(
        f"d = {row['features']}, T = {row['rounds']:,}, {M_NAMES[row['clip']]}, radius_scale {row['radius_scale']:g}: "
        f"{_share(row)}"
        for row in true
    )
    return Verdict(
        claim="C2",
        source="§5.1.1",
        says=f"at L = {setting.supported[-1]} ε-mOFUL-IPS needs about 20 % of mOFUL's calls",
        measured=f"Share of T called (and regret) by radius_scale, d = {setting.features}, T = {setting.rounds:,}, "
        f"{min(row['seeds'] for row in own)} to {max(row['seeds'] for row in own)} seeds: {texts}. mOFUL's regret: {regret}.",
        verdict=HOLDS if default else ONLY_WHEN if len(true) else FAILS,
        when=f"the 95 % interval lies within [{low:g}, {high:g}] at {where or NOWHERE}. A scale below "
        "1 voids the guarantees.",
    )


def _share(row: Record) -> str:
    return f"{intervals.read(row, 'share').text()} (regret {intervals.read(row, 'regret').text()})"


EXPERIMENT = Experiment(
    name="fig1",
    title="reward calls as the set of supported actions grows",
    quick=QUICK,
    full=FULL,
    units=units,
    run=calls.run,
    analyse=analyse,
)
