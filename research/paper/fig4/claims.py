"""What becomes of C5: three sentences of the paper about Fig. 4, each judged by paired differences."""

from collections.abc import Iterator
from itertools import combinations

from research.paper.experiment import FAILS, Verdict
from research.paper.fig4.cells import Cells, places
from research.paper.fig4.setting import Setting
from research.paper.intervals import Interval, mean
from research.paper.judging import Finding, above, below, counted, every, within, word
from research.paper.lineup import IPS, OPR, SHOWN

NEARLY = 0.02
"""Errors that differ by no more are nearly the same."""

MOSTLY = 0.9
"""A condition suffices if this share of the settings that meet it bear a claim out."""

PAPER = (*OPR, "moful", "eps_moful", "eps_moful_ips")
BEYOND = ("greedy", "warm_started", "certified", "confident")
MEASURES = {"held_out": "held-out error", "live": "error live"}

Levels = tuple[str, ...]
"""A setting in words."""

Placed = dict[Levels, Finding]


def judge(setting: Setting, cells: Cells) -> tuple[Verdict, ...]:
    """The verdicts on C5."""
    claims = (ips_is_lowest, opr_is_highest, points_change_little)
    return tuple(claim(setting, cells) for claim in claims)


def ips_is_lowest(setting: Setting, cells: Cells) -> Verdict:
    """ε-mOFUL-IPS below all others of the paper; on fresh contexts it is ε-mOFUL, so only in-log can tell."""
    others = tuple(name for name in PAPER if name not in IPS)
    findings = {
        (SHOWN[ips], *levels): every(map(below, gaps.values()))
        for ips in IPS
        for levels, gaps in _gaps(setting, cells, ips, others)
        if "in-log" in levels
    }
    beyond = "; ".join(f"{SHOWN[name]} {_beats(setting, cells, name)}" for name in BEYOND)
    more = (
        "On fresh contexts ε-mOFUL-IPS is ε-mOFUL, step for step, and cannot be lower. Not in the paper: held-out "
        f"error below that of ε-mOFUL-IPS: {beyond}"
    )
    says = "ε-mOFUL-IPS has the lowest classification error on all three sets, noiseless and noisy"
    return _verdict("ε-mOFUL-IPS lowest", says, findings, _example(setting, cells), more)


def opr_is_highest(setting: Setting, cells: Cells) -> Verdict:
    """OPR above all others of the paper."""
    others = tuple(name for name in PAPER if name not in OPR)
    findings, smallest = {}, {}
    for opr in OPR:
        for levels, gaps in _gaps(setting, cells, opr, others):
            findings[SHOWN[opr], *levels] = every(map(above, gaps.values()))
            smallest[SHOWN[opr], *levels] = min(gaps.values(), key=lambda gap: gap.value)
    told = f"OPR less the highest of the others: {_range(smallest)}"
    says = "OPR has the highest classification error on all three sets"
    return _verdict("OPR highest", says, findings, told)


def points_change_little(setting: Setting, cells: Cells) -> Verdict:
    """ε-mOFUL within .02 of mOFUL."""
    gaps = {levels: one["moful"] for levels, one in _gaps(setting, cells, "eps_moful", ("moful",))}
    findings = {levels: within(gap, NEARLY) for levels, gap in gaps.items()}
    lower = [below(gap) for gap in gaps.values()]
    more = (
        f"ε-mOFUL's error is below mOFUL's in {lower.count(True)} of {len(lower)} settings, above it in "
        f"{lower.count(False)}"
    )
    says = f"ε-mOFUL and mOFUL have nearly the same error (within {NEARLY:g})"
    return _verdict("ε-mOFUL near mOFUL", says, findings, f"ε-mOFUL less mOFUL: {_range(gaps)}", more)


def _gaps(
    setting: Setting, cells: Cells, name: str, others: tuple[str, ...]
) -> Iterator[tuple[Levels, dict[str, Interval]]]:
    """One algorithm less each of the others, for both errors and every setting where it was run."""
    for metric, shown in MEASURES.items():
        for place in (place for place in places(setting) if cells.has(name, place)):
            there = (other for other in others if cells.has(other, place))
            yield (shown, *place.levels()), {other: cells.gap(name, other, place, metric) for other in there}


def _range(gaps: dict[Levels, Interval]) -> str:
    ordered = sorted(gaps, key=lambda levels: gaps[levels].value)
    ends = (f"{gaps[levels].text()} ({', '.join(levels)})" for levels in (ordered[0], ordered[-1]))
    return " to ".join(ends)


def conditions(findings: Placed) -> list[Levels]:
    """Single levels, and pairs of others, under which nine in ten settings or more bear a claim out."""
    axes = [list(dict.fromkeys(dimension)) for dimension in zip(*findings, strict=True)]
    levels = [level for axis in axes if len(axis) > 1 for level in axis]
    single = [(level,) for level in levels if _fraction(findings, (level,)) >= MOSTLY]
    pairs = [
        pair
        for pair in combinations(levels, 2)
        if not any(set(one) <= set(pair) for one in single) and _fraction(findings, pair) >= MOSTLY
    ]
    return [*single, *pairs]


def _fraction(findings: Placed, levels: Levels) -> float:
    """Of the settings with these levels, how many bear a claim out; 0 where there are none."""
    chosen = [found is True for place, found in findings.items() if set(levels) <= set(place)]
    return sum(chosen) / len(chosen) if chosen else 0.0


def _margins(findings: Placed) -> str:
    """Shares of settings in which a claim was borne out, by each level of each dimension."""
    parts = []
    for dimension in zip(*findings, strict=True):
        levels = list(dict.fromkeys(dimension))
        if len(levels) > 1:
            parts.append(", ".join(f"{level} {_share(findings, level)}" for level in levels))
    return f"borne out: {'; '.join(parts)}"


def _share(findings: Placed, level: str) -> str:
    chosen = [found for levels, found in findings.items() if level in levels]
    return f"{chosen.count(True)}/{len(chosen)}"


def _beats(setting: Setting, cells: Cells, name: str) -> str:
    found = [below(cells.gap(name, "eps_moful_ips", place, "held_out")) for place in places(setting)]
    return f"in {found.count(True)} of {len(found)} settings (above in {found.count(False)})"


def _verdict(part: str, says: str, findings: Placed, told: str, more: str = "") -> Verdict:
    """Holds if borne out everywhere; only when, if one or two levels suffice for nine in ten settings."""
    flat = {"": {" ".join(levels): found for levels, found in findings.items()}}
    enough = conditions(findings)
    verdict = word(flat) if enough else FAILS
    when = "; ".join(" and ".join(levels) for levels in enough) or "no one or two of these settings suffice"
    when = f"{when} ({_margins(findings)})" + (f". {more}" if more else "")
    return Verdict("C5", f"Fig. 4: {part}", says, f"{counted(flat)}. {told}", verdict, when)


def _example(setting: Setting, cells: Cells) -> str:
    """Held-out errors of the paper's algorithms in one column of the sweep."""
    shares = [at for at in setting.unsupported if at in setting.opr_unsupported] or setting.unsupported
    share = shares[len(shares) // 2]
    stream, scale = setting.streams[0], setting.radius_scales[-1]
    rows = []
    for place in places(setting):
        if (place.stream, place.scale, place.unsupported) == (stream, scale, share):
            there = [name for name in PAPER if cells.has(name, place)]
            told = [f"{SHOWN[name]} {mean(cells.at(name, place, 'held_out')).text()}" for name in there]
            rows.append(f"{place.dataset} {place.rewards}: {', '.join(told)}")
    return f"Held-out errors at n^UA {share:g}, {stream}, radius × {scale:g}: {'; '.join(rows)}"
