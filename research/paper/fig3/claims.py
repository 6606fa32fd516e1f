"""What becomes of C4: five sentences of the paper about Fig. 3, each judged by paired differences."""

from itertools import pairwise

from research.paper.experiment import Verdict
from research.paper.fig3.cells import Cells
from research.paper.fig3.setting import Setting
from research.paper.intervals import Interval, difference, mean
from research.paper.judging import Findings, above, below, counted, every, where, within, word
from research.paper.lineup import IPS, OPR, SHOWN

FLAT = 0.02
"""mOFUL is flat if its reward changes by less than this share of it."""

SMALL = 0.2
"""The largest n^UA that counts as small."""

ONLINE = ("moful", "eps_moful", "eps_moful_ips")
"""The paper's algorithms beside OPR."""

BEYOND = ("greedy", "warm_started", "certified", "confident")


def judge(setting: Setting, cells: Cells) -> tuple[Verdict, ...]:
    """The verdicts on C4."""
    claims = (opr_is_worst, opr_falls, moful_is_flat, known_actions_help, ips_is_best)
    return tuple(claim(setting, cells) for claim in claims)


def opr_is_worst(setting: Setting, cells: Cells) -> Verdict:
    """OPR below mOFUL, ε-mOFUL and ε-mOFUL-IPS at every n^UA."""
    findings, gaps = {}, {}
    for scale in setting.radius_scales:
        for opr in OPR:
            found = {}
            for at in setting.unsupported:
                differences = [cells.gap(opr, other, scale, at) for other in ONLINE]
                found[f"{at:g}"] = every(map(below, differences))
                gaps[opr, scale, at] = max(differences, key=lambda gap: gap.value)
            findings[f"{SHOWN[opr]}, radius × {scale:g}, at n^UA"] = found
    ends = setting.unsupported[0], setting.unsupported[-1]
    told = [
        f"{SHOWN[opr]} less the lowest of the others at radius × {scale:g}: "
        + ", ".join(f"{gaps[opr, scale, at].text()} (n^UA {at:g})" for at in ends)
        for opr in OPR
        for scale in setting.radius_scales
    ]
    return _verdict("OPR worst", "OPR has the worst average reward for every n^UA", "; ".join(told), findings)


def opr_falls(setting: Setting, cells: Cells) -> Verdict:
    """OPR earns less at each next n^UA."""
    findings, told = {}, []
    for opr in OPR:
        values = [cells.at(opr, setting.radius_scales[0], at) for at in setting.unsupported]
        steps = [difference(after, before) for before, after in pairwise(values)]
        names = [f"{at:g}" for at in setting.unsupported[1:]]
        findings[f"{SHOWN[opr]}, on the step to n^UA"] = dict(zip(names, map(below, steps), strict=True))
        told.append(f"{SHOWN[opr]} {', '.join(mean(one).text() for one in values)}")
    levels = ", ".join(f"{at:g}" for at in setting.unsupported)
    measured = f"Reward at n^UA {levels}: {'; '.join(told)}"
    return _verdict("OPR falls", "OPR gets worse the more actions are unsupported", measured, findings)


def moful_is_flat(setting: Setting, cells: Cells) -> Verdict:
    """mOFUL earns the same at every n^UA, within 2 %."""
    findings, told = {}, []
    first, *others = setting.unsupported
    for scale in setting.radius_scales:
        start = cells.at("moful", scale, first)
        changes = {at: difference(cells.at("moful", scale, at), start) for at in others}
        margin = FLAT * abs(mean(start).value)
        findings[f"radius × {scale:g}, at n^UA"] = {
            f"{at:g}": within(change, margin) for at, change in changes.items()
        }
        largest = max(changes.values(), key=lambda one: abs(one.value))
        told.append(f"Largest change from n^UA {first:g} at radius × {scale:g}: {largest.text()}")
    measured = (
        "; ".join(told) + ". mOFUL never reads the log, and here it meets the same rounds whatever n^UA is"
    )
    return _verdict("mOFUL flat", "mOFUL earns nearly the same for all n^UA", measured, findings)


def known_actions_help(setting: Setting, cells: Cells) -> Verdict:
    """ε-mOFUL and ε-mOFUL-IPS above mOFUL."""
    findings, told = {}, []
    for scale in setting.radius_scales:
        for name in ("eps_moful", *IPS):
            gaps = {f"{at:g}": cells.gap(name, "moful", scale, at) for at in setting.unsupported}
            findings[f"{SHOWN[name]}, radius × {scale:g}, at n^UA"] = {
                at: above(gap) for at, gap in gaps.items()
            }
            told.append(f"{SHOWN[name]}, radius × {scale:g}: {_range(gaps)}")
    measured = f"Reward less mOFUL's, least to most over n^UA: {'; '.join(told)}"
    says = "ε-mOFUL and ε-mOFUL-IPS earn more than mOFUL"
    return _verdict("ε variants above mOFUL", says, measured, findings, _variants(setting, cells))


def ips_is_best(setting: Setting, cells: Cells) -> Verdict:
    """ε-mOFUL-IPS above all others of the paper where few actions are unsupported."""
    findings, told = {}, []
    for scale in setting.radius_scales:
        for name in IPS:
            found = {}
            for at in (at for at in setting.unsupported if at <= SMALL):
                gaps = {other: cells.gap(name, other, scale, at) for other in ("moful", "eps_moful", *OPR)}
                found[f"{at:g}"] = every(map(above, gaps.values()))
                best = min(gaps, key=lambda other: gaps[other].value)
                told.append(
                    f"{SHOWN[name]} at n^UA {at:g}, radius × {scale:g}: {gaps[best].text()} over {SHOWN[best]}"
                )
            findings[f"{SHOWN[name]}, radius × {scale:g}, at n^UA"] = found
    measured = f"Reward less the best of the paper's others: {'; '.join(told)}"
    says = f"ε-mOFUL-IPS earns the most for small n^UA (at most {SMALL:g})"
    return _verdict("ε-mOFUL-IPS best", says, measured, findings, f". {_beyond(setting, cells)}")


def _beyond(setting: Setting, cells: Cells) -> str:
    """Where the log's own regression and our learners stand."""
    parts = []
    for name in BEYOND:
        for scale in setting.radius_scales:
            gaps = {f"{at:g}": cells.gap(name, "eps_moful_ips", scale, at) for at in setting.unsupported}
            parts.append(f"{SHOWN[name]} {_range(gaps)} at radius × {scale:g}")
    return (
        "Not in the paper: reward less that of ε-mOFUL-IPS, least to most over n^UA (greedy ridge makes "
        f"no calls at all): {'; '.join(parts)}"
    )


def _variants(setting: Setting, cells: Cells) -> str:
    """The same comparison in other settings."""
    parts = [
        f"{variant}, radius × {scale:g} {cells.gap('eps_moful', 'moful', scale, at, variant=variant).text()}"
        for variant in setting.variants
        for at in setting.variant_unsupported
        for scale in setting.radius_scales
    ]
    levels = ", ".join(f"{at:g}" for at in setting.variant_unsupported)
    return f". ε-mOFUL less mOFUL elsewhere (n^UA {levels}): {'; '.join(parts)}" if parts else ""


def _range(gaps: dict[str, Interval]) -> str:
    ordered = sorted(gaps, key=lambda at: gaps[at].value)
    return f"{gaps[ordered[0]].text()} (n^UA {ordered[0]}) to {gaps[ordered[-1]].text()} (n^UA {ordered[-1]})"


def _verdict(part: str, says: str, measured: str, findings: Findings, when: str = "") -> Verdict:
    told = f"{counted(findings)}. {measured}"
    return Verdict("C4", f"Fig. 3: {part}", says, told, word(findings), where(findings) + when)
