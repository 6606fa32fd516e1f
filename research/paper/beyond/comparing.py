"""Runs in one table; what they cost in all at each price of a call; and `economical` less the others, paired by seed."""

from collections.abc import Iterator

from research.paper.beyond.setting import Setting
from research.paper.beyond.units import BUDGET, CLASSES, ROBUST, ROUTING, WORLD
from research.paper.experiment import Columns, Pairs, Record
from research.paper.frame import Frame
from research.paper.intervals import Interval

OURS, ALONE = "economical", "log_alone"
PLACE = ("kind", "part", "place")
"""Where learners met: a size of world and a logging policy, a variant and a logging policy, a data set, a routing."""

WHO = ("name", "at")
"""A learner, and its tolerance or the price that it was told."""

METRICS = {WORLD: ("calls", "regret"), CLASSES: ("calls", "error"), ROUTING: ("calls", "reward")}
"""What the frontiers show of each kind."""


def gather(results: Pairs) -> Frame:
    """A row a run; `unit` is the deviation that prices are multiples of."""
    return Frame(_rows(results))


def _rows(results: Pairs) -> Iterator[Record]:
    for unit, result in results:
        where = {key: unit[key] for key in (*PLACE, "seed")} | {"unit": result["unit"]}
        for record, values in zip(unit["learners"], result["runs"], strict=True):
            if values is not None:
                at = record.get("tolerance", record.get("price"))
                who = {"name": record["name"], "at": at, "budget": record.get("budget")}
                yield where | who | values


def priced(setting: Setting, runs: Frame) -> Frame:
    """Each run at each price: total = regret + price·unit·calls. Ours has a run for each price, the others one for all."""
    return Frame(_priced(setting, runs.only(lambda row: row["kind"] != BUDGET)))


def _priced(setting: Setting, runs: Frame) -> Iterator[Record]:
    for row in runs:
        prices = (setting.variant_price,) if row["kind"] == ROBUST else setting.prices
        for price in (row["at"],) if row["name"] == OURS else prices:
            total = row["regret"] + price * row["unit"] * row["calls"]
            yield {key: row[key] for key in (*PLACE, *WHO, "seed")} | {"price": price, "total": total}


def totals(totalled: Frame) -> Columns:
    """A row a place, price and learner: its total, and that as a share of the log alone's, with 95 % limits."""
    names = (*PLACE, "price", *WHO)
    rows = []
    for where, there in totalled.by(*PLACE, "price").items():
        alone = there.where(name=ALONE)
        for who, found in there.by(*WHO).items():
            both = alone.among("seed", set(found["seed"]))
            scale, apart = both.mean("total").value, found.less(both, "total")
            share = Interval(*(1 + end / scale for end in (apart.value, apart.low, apart.high)))
            row = dict(zip(names, (*where, *who), strict=True)) | {"seeds": len(found)}
            rows.append(row | found.mean("total").named("total") | share.named("share"))
    return Frame(rows).columns()


def points(runs: Frame, kind: str) -> Columns:
    """A row for each learner in each place of a kind: calls and what they bought, with 95 % limits."""
    rows = []
    for where, found in runs.where(kind=kind).by("part", "place", *WHO).items():
        row: Record = dict(zip(("part", "place", *WHO), where, strict=True)) | {"seeds": len(found)}
        for metric in METRICS[kind]:
            row |= found.mean(metric).named(metric)
        rows.append(row)
    return Frame(rows).columns()


def budgets(runs: Frame) -> Columns:
    """A row for each budget, learner and place: the regret, and the calls that were made of it."""
    rows = []
    for where, found in runs.where(kind=BUDGET).by("part", "place", "name", "budget").items():
        row: Record = dict(zip(("part", "place", "name", "budget"), where, strict=True))
        rows.append(row | found.mean("calls").named("calls") | found.mean("regret").named("regret"))
    return Frame(rows).columns()


def against(frame: Frame, by: tuple[str, ...], metric: str, ours: Frame | None = None) -> Frame:
    """`economical` less each of the others, in each of the groups that these settings make; a row each."""
    rows = []
    for where, there in frame.by(*by).items():
        mine = there.where(name=OURS) if ours is None else ours.by(*by)[where]
        for (name, at), theirs in there.by(*WHO).items():
            if name != OURS:
                apart = mine.less(theirs, metric)
                rows.append(dict(zip(by, where, strict=True)) | {"other": name, "at": at} | apart.to_dict())
    return Frame(rows)


def differences(setting: Setting, runs: Frame) -> dict[str, Frame]:
    """All that is compared: totals by price, what the least price buys, calls and regret within a budget."""
    found = {"totals": against(priced(setting, runs), (*PLACE, "price"), "total")}
    for kind, (_, metric) in METRICS.items():
        there = runs.where(kind=kind)
        least = there.where(name=OURS, at=setting.prices[0])
        found[f"{kind} at the least price"] = against(there, PLACE, metric, least)
    found["budgets"] = against(runs.where(kind=BUDGET), (*PLACE, "budget"), "regret")
    return found


def sharpened(setting: Setting, runs: Frame) -> list[Record]:
    """Under `sharpened` logging, ours less ε-mOFUL-IPS in calls, and its regret as a share of theirs."""
    rows = []
    there = runs.where(kind=WORLD, place="sharpened")
    for (part,), found in there.by("part").items():
        ips = found.where(name="eps_moful_ips")
        for price in setting.prices if len(ips) else ():
            ours = found.where(name=OURS, at=price)
            share = ours.mean("regret").value / ips.mean("regret").value
            fewer = ours.less(ips, "calls").to_dict()
            rows.append({"part": part, "price": price, "regret_share": share} | fewer)
    return rows
