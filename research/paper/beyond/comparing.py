"""Ours against the others, paired by seed, and the outcome in sentences."""

from research.paper.beyond.gathering import METRICS, Gathered, Place, Who
from research.paper.beyond.setting import Setting, Size
from research.paper.intervals import Interval, difference

SHOWN = {
    "greedy": "the log alone (greedy ridge)",
    "moful": "mOFUL, cold",
    "eps_moful": "ε-mOFUL",
    "eps_moful_ips": "ε-mOFUL-IPS",
    "eps_moful_ips_inf": "ε-mOFUL-IPS, M = ∞",
    "eps_moful_ips_given": "ε-mOFUL-IPS, θ̂ given",
    "eps_moful_ips_inf_given": "ε-mOFUL-IPS, M = ∞, θ̂ given",
    "warm_started": "warm-started",
    "certified": "certified",
    "guaranteed": "certified, radius_scale 1",
    "confident": "confident",
    "linucb": "LinUCB, warm",
    "lints": "LinTS, warm",
    "squarecb_warm": "VW SquareCB, warm",
    "squarecb_cold": "VW SquareCB, cold",
    "regcb_warm": "VW RegCB, warm",
    "regcb_cold": "VW RegCB, cold",
}
"""Names to read, in the order of legends."""

OURS = ("certified", "confident")
OTHERS = tuple(name for name in SHOWN if name not in (*OURS, "guaranteed"))
NOTED = ("greedy", "eps_moful_ips", "linucb", "squarecb_warm", "regcb_warm")
"""The others that sentences tell of; numbers hold them all."""

CLASSES = "classes"
WORDS = {"calls": "calls", "regret": "regret", "final": "held-out error"}
MISSING = "Vowpal Wabbit is not installed here and was left out; pip install vowpalwabbit, and run again, to see it."

Differences = dict[tuple[Place, Who, Who, str], Interval]
"""Ours less another's, by place and metric."""


def compared(setting: Setting, gathered: Gathered) -> Differences:
    """Both of ours, at the tolerance to compare at, less each of the others."""
    found: Differences = {}
    for place in dict.fromkeys(place for place, _ in gathered):
        tolerance = setting.compared if place.kind == "world" else setting.class_compared
        for name in OURS:
            ours = Who(name, tolerance)
            for other in map(Who, OTHERS):
                if (place, ours) in gathered and (place, other) in gathered:
                    first, second = gathered[place, ours], gathered[place, other]
                    for metric in METRICS:
                        found[place, ours, other, metric] = difference(first[metric], second[metric])
    return found


def notes(setting: Setting, differences: Differences, *, outside: bool) -> list[str]:
    """What the differences say, sentence by sentence; what is not told apart by its 95 % interval is said."""
    sentences = [] if outside else [MISSING]
    for where, places in parts(setting).items():
        pairs = dict.fromkeys((ours, other) for place, ours, other, _ in differences if place in places)
        for ours, other in ((ours, other) for ours, other in pairs if other.name in NOTED):
            told = [
                f"{WORDS[metric]} {_outcome({p.name: differences[p, ours, other, metric] for p in places})}"
                for metric in ("calls", _loss(places))
            ]
            who = f"{SHOWN[ours.name]} (tolerance {ours.tolerance:g}) less {SHOWN[other.name]}"
            sentences.append(f"{where}: {who}: {'; '.join(told)}.")
    return sentences


def losses(setting: Setting, differences: Differences) -> dict[str, str]:
    """For each part, to whom ours surely lose in regret or held-out error, at whatever calls."""
    return {where: _lost(places, differences) for where, places in parts(setting).items()}


def parts(setting: Setting) -> dict[str, list[Place]]:
    """The synthetic worlds of one size, each in turn, then the data sets: their name and their places."""
    found = {
        where(size): [Place("world", name, size.features, size.rows) for name in setting.supports]
        for size in setting.sizes
    }
    found[CLASSES] = [Place("classes", name) for name in setting.data]
    return {part: places for part, places in found.items() if places}


def where(size: Size) -> str:
    """A size of synthetic world in words."""
    return f"d = {size.features}, {size.rows:,} logged rows"


def _loss(places: list[Place]) -> str:
    return "final" if places[0].kind == "classes" else "regret"


def _lost(places: list[Place], differences: Differences) -> str:
    metric = _loss(places)
    found: dict[tuple[Who, Who], list[str]] = {}
    for (place, ours, other, measured), one in differences.items():
        if place in places and measured == metric and one.low > 0:
            found.setdefault((ours, other), []).append(f"{place.name} +{one.text()}")
    if not found:
        return f"Nobody here has surely less {WORDS[metric]} than certified or confident at the compared tolerance."
    told = [
        f"{SHOWN[ours.name]} ({ours.tolerance:g}) than {SHOWN[other.name]} on {', '.join(names)}"
        for (ours, other), names in found.items()
    ]
    return f"Where ours lose (more {WORDS[metric]}, paired, 95 %): {'; '.join(told)}."


def _outcome(found: dict[str, Interval]) -> str:
    """Which differences are surely below zero, which above, which neither."""
    below = {name: one for name, one in found.items() if one.high < 0}
    above = {name: one for name, one in found.items() if one.low > 0}
    neither = {name: one for name, one in found.items() if name not in below and name not in above}
    kinds = (("lower", below), ("higher", above), ("not told apart", neither))
    return ", ".join(
        f"{word} on {', '.join(f'{name} {one.text()}' for name, one in group.items())}"
        for word, group in kinds
        if group
    )
