"""Ours against the others, paired by seed, and the outcome in sentences."""

from collections.abc import Iterator

from research.learners import LEARNERS
from research.paper.beyond.setting import Setting, Size
from research.paper.experiment import Columns, Pairs, Record
from research.paper.frame import Frame
from research.paper.intervals import Interval

METRICS = ("calls", "regret", "final")
"""Reward calls; regret (on classes: wrong answers) of the live rounds; the final policy's mean loss a context."""

PLACE = ("kind", "features", "rows", "place")
"""Where learners met: a synthetic `world` of some size under a logging policy, or a data set's `classes`."""

OURS = ("certified", "confident")
OTHERS = (
    *("greedy", "moful", "eps_moful", "eps_moful_ips", "eps_moful_ips_inf", "eps_moful_ips_given"),
    *("eps_moful_ips_inf_given", "warm_started", "linucb", "lints"),
    *("squarecb_warm", "squarecb_cold", "regcb_warm", "regcb_cold"),
)
NOTED = ("greedy", "eps_moful_ips", "linucb", "squarecb_warm", "regcb_warm")
"""The others that sentences tell of; numbers hold them all."""

CLASSES = "classes"
WORDS = {"calls": "calls", "regret": "regret", "final": "held-out error"}
MISSING = "Vowpal Wabbit is not installed here and was left out; pip install vowpalwabbit, and run again, to see it."


def told(name: str) -> str:
    """A learner's name in a sentence, which says how it begins where that could be mistaken."""
    more = {"greedy": "the log alone (greedy ridge)", "moful": "mOFUL, cold"}
    return more.get(name, LEARNERS[name].label)


def gather(setting: Setting, results: Pairs) -> Frame:
    """A row a run; those who start cold stand in every logging policy's place."""
    return Frame(_rows(setting, results))


def _rows(setting: Setting, results: Pairs) -> Iterator[Record]:
    for unit, result in results:
        where = {"kind": unit["kind"], "features": unit.get("features"), "rows": unit.get("rows")}
        places = [unit["data"]] if unit["kind"] == CLASSES else [unit["support"]]
        for record, values in zip([*unit["learners"], *unit["outside"]], result["runs"], strict=True):
            who = {"name": record["name"], "tolerance": record.get("tolerance"), "seed": unit["seed"]}
            for place in setting.supports if places == ["cold"] else places:
                yield {**where, "place": place, **who, **values}


def plain(row: Record) -> Record:
    """A row without its kind, and without a size where there is none."""
    left_out = ("kind", "features", "rows") if row["kind"] == CLASSES else ("kind",)
    return {name: value for name, value in row.items() if name not in left_out}


def points(runs: Frame, kind: str) -> Columns:
    """A row for each learner in each place: calls, regret and final loss with their 95 % limits."""
    names = (*PLACE, "name", "tolerance")
    rows = []
    for where, found in runs.where(kind=kind).by(*names).items():
        row: Record = {**dict(zip(names, where, strict=True)), "seeds": len(found)}
        for metric in METRICS:
            row |= found.mean(metric).named(metric)
        rows.append(plain(row))
    return Frame(rows).columns()


def compared(setting: Setting, runs: Frame) -> Frame:
    """Both of ours, at the tolerance to compare at, less each of the others, by place and metric."""
    return Frame(_differences(setting, runs))


def _differences(setting: Setting, runs: Frame) -> Iterator[Record]:
    for where, there in runs.by(*PLACE).items():
        place: Record = dict(zip(PLACE, where, strict=True))
        tolerance = setting.class_compared if place["kind"] == CLASSES else setting.compared
        for name in OURS:
            ours = there.where(name=name, tolerance=tolerance)
            for other in OTHERS:
                theirs = there.where(name=other)
                if len(ours) and len(theirs):
                    for metric in METRICS:
                        pair = {"ours": name, "tolerance": tolerance, "other": other, "metric": metric}
                        yield {**place, **pair, **ours.less(theirs, metric).to_dict()}


def notes(setting: Setting, differences: Frame, *, outside: bool) -> list[str]:
    """What the differences say, sentence by sentence; what is not told apart by its 95 % interval is said."""
    sentences = [] if outside else [MISSING]
    for where, part in parts(setting, differences).items():
        for (ours, tolerance, other), found in part.by("ours", "tolerance", "other").items():
            if other in NOTED:
                measured = "; ".join(
                    f"{WORDS[metric]} {_outcome(found.where(metric=metric))}"
                    for metric in ("calls", _loss(where))
                )
                who = f"{told(ours)} (tolerance {tolerance:g}) less {told(other)}"
                sentences.append(f"{where}: {who}: {measured}.")
    return sentences


def losses(setting: Setting, differences: Frame) -> dict[str, str]:
    """For each part, to whom ours surely lose in regret or held-out error, at whatever calls."""
    return {where: _lost(where, part) for where, part in parts(setting, differences).items()}


def parts(setting: Setting, differences: Frame) -> dict[str, Frame]:
    """The synthetic worlds of each size in turn, then the data sets."""
    found = {
        where(size): differences.where(kind="world", features=size.features, rows=size.rows)
        for size in setting.sizes
    }
    return found | ({CLASSES: differences.where(kind=CLASSES)} if setting.data else {})


def where(size: Size) -> str:
    """A size of synthetic world in words."""
    return f"d = {size.features}, {size.rows:,} logged rows"


def _loss(part: str) -> str:
    return "final" if part == CLASSES else "regret"


def _interval(row: Record) -> Interval:
    """A difference again; its ends are null where one seed is all there is."""
    ends = (row[name] if row[name] is not None else float("nan") for name in ("value", "low", "high"))
    return Interval(*ends)


def _lost(where: str, part: Frame) -> str:
    metric = _loss(where)
    surely = part.where(metric=metric).only(lambda row: _interval(row).low > 0)
    if not len(surely):
        return f"Nobody here has surely less {WORDS[metric]} than certified or confident at the compared tolerance."
    sentences = [
        f"{told(ours)} ({tolerance:g}) than {told(other)} on "
        + ", ".join(f"{row['place']} +{_interval(row).text()}" for row in found)
        for (ours, tolerance, other), found in surely.by("ours", "tolerance", "other").items()
    ]
    return f"Where ours lose (more {WORDS[metric]}, paired, 95 %): {'; '.join(sentences)}."


def _outcome(found: Frame) -> str:
    """Which differences are surely below zero, which above, which neither."""
    groups: dict[str, list[str]] = {"lower": [], "higher": [], "not told apart": []}
    for row in found:
        one = _interval(row)
        word = "lower" if one.high < 0 else "higher" if one.low > 0 else "not told apart"
        groups[word].append(f"{row['place']} {one.text()}")
    return ", ".join(f"{word} on {', '.join(group)}" for word, group in groups.items() if group)
