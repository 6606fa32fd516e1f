"""The verdicts on C1 and C2, in words made of the numbers."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from research.paper import intervals
from research.paper.calls import RATIO, UNCLIPPED, Cells, cell
from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Record, Verdict
from research.paper.fig1.setting import Setting
from research.paper.intervals import Interval

M_NAMES = {RATIO: "M = P90/P10", UNCLIPPED: "M = ∞"}


def judge_order(setting: Setting, cells: Cells, differences: Sequence[Record]) -> Verdict:
    """C1 holds in a setting if its two savings and its falls are shown there and nothing is reversed.

    Shown is a paired difference whose 95 % interval lies above zero: ε-mOFUL below mOFUL and ε-mOFUL-IPS below
    ε-mOFUL at the largest L, and both falling from the smallest to the largest L. Reversed is one below zero.
    """
    places = {(row["features"], row["radius_scale"]) for row in differences}
    order = sorted(places, key=lambda place: (place[0] != setting.features, place[0], -place[1]))
    found = {(*place, clip): _rows(differences, place, clip) for clip in setting.clips for place in order}
    true = [place for place, rows in found.items() if _bears_out(rows)]
    default = (setting.features, setting.scales[0], setting.clips[0])
    return Verdict(
        claim="C1",
        source="Fig. 1",
        says=f"at n^UA = {setting.unsupported:g} calls fall with L ∈ {{{', '.join(map(str, setting.supported))}}}, and "
        "mOFUL = T ≥ ε-mOFUL ≥ ε-mOFUL-IPS",
        measured=_own_calls(setting, cells, setting.scales[0]) + " " + _contradictions(differences),
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
    told = [f"{says} is reversed in {count}" for says, count in reversed_.items()]
    told += [f"{says} is not shown in {count}" for says, count in missing.items()]
    return f" In the others {', '.join(told)}." if told else ""


def _rows(differences: Sequence[Record], place: tuple[int, float], clip: str) -> list[Record]:
    """The inequalities of one setting; those of ε-mOFUL alone belong to either M."""
    return [
        row
        for row in differences
        if (row["features"], row["radius_scale"]) == place and row["clip"] in (None, clip)
    ]


def _contradictions(differences: Sequence[Record]) -> str:
    against = [row for row in differences if row["saved_share_high"] < 0]
    costly = [row for row in differences if row["regret_saved_high"] < 0 and "IPS below" in row["says"]]
    log_beats = [row for row in differences if "IPS below" in row["says"]]
    return (
        f"Of {len(differences)} inequalities in all settings {len(against)} are reversed; log-beats raises regret "
        f"(95 %) in {len(costly)} of {len(log_beats)} comparisons."
    )


def _own_calls(setting: Setting, cells: Cells, scale: float) -> str:
    place: dict[str, Any] = {"features": setting.features, "rounds": setting.rounds, "radius_scale": scale}
    known = [place | {"supported": size, "unsupported": setting.unsupported} for size in setting.supported]
    kinds = {"ε-mOFUL": [cell("eps_moful", **where) for where in known]}
    for clip in setting.clips:
        kinds[f"ε-mOFUL-IPS with {M_NAMES[clip]}"] = [
            cell("eps_moful_ips", clip=clip, **where) for where in known
        ]
    told = [f"mOFUL 1 (regret {_mean(cells, cell('moful', **place), 'regret').text()})"]
    for name, listed in kinds.items():
        calls = ", ".join(_mean(cells, one, "calls", setting.rounds).text() for one in listed)
        regret = ", ".join(_mean(cells, one, "regret").text() for one in listed)
        told.append(f"{name} {calls} (regret {regret})")
    sizes = ", ".join(map(str, setting.supported))
    return f"Calls as shares of T for L = {sizes} at radius_scale {scale:g}: {'; '.join(told)}."


def judge_share(setting: Setting, cells: Cells, shares: Sequence[Record]) -> Verdict:
    """C2 holds in a setting if the share's 95 % interval lies within the range that "about 20 %" means."""
    low, high = setting.share_range
    own = [row for row in shares if (row["features"], row["rounds"]) == (setting.features, setting.rounds)]
    own.sort(key=lambda row: (setting.clips.index(row["clip"]), -row["radius_scale"]))
    true = [row for row in shares if row["within"]]
    default = any(
        row["within"] and row["radius_scale"] == 1 and row["clip"] == setting.clips[0] for row in own
    )
    place: dict[str, Any] = {"features": setting.features, "rounds": setting.rounds}
    moful = [
        f"{_mean(cells, cell('moful', radius_scale=scale, **place), 'regret').text()} at {scale:g}"
        for scale in setting.scales
    ]
    told = "; ".join(
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
        f"{min(row['seeds'] for row in own)} to {max(row['seeds'] for row in own)} seeds: {told}. mOFUL's regret: "
        f"{', '.join(moful)}.",
        verdict=HOLDS if default else ONLY_WHEN if true else FAILS,
        when=f"the 95 % interval lies within [{low:g}, {high:g}] at {where or 'no setting that was run'}. A scale below "
        "1 voids the guarantees.",
    )


def _share(row: Record) -> str:
    share = Interval(row["share"], row["share_low"], row["share_high"])
    regret = Interval(row["regret"], row["regret_low"], row["regret_high"])
    return f"{share.text()} (regret {regret.text()})"


def _mean(cells: Cells, place: Record, name: str, of: float = 1.0) -> Interval:
    return intervals.mean(cells.values(place, name) / of)


def _places(places: Sequence[tuple[int, float, str]]) -> str:
    """Settings in words, the scales of one M and d together."""
    scales: dict[tuple[str, int], list[str]] = {}
    for features, scale, clip in places:
        scales.setdefault((clip, features), []).append(f"{scale:g}")
    return (
        "; ".join(
            f"{M_NAMES[clip]}, d = {features}, radius_scale {', '.join(listed)}"
            for (clip, features), listed in scales.items()
        )
        or "no setting that was run"
    )
