"""One algorithm in one cell, over seeds: every number with its interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from research.paper.experiment import Record
from research.paper.intervals import Interval, difference, log_log_slope, mean
from research.paper.theorems.runs import CLIPS
from research.paper.theorems.setting import Setting
from research.paper.theorems.shares import share

UNKNOWN = Interval(float("nan"), float("nan"), float("nan"))


def top(interval: Interval) -> float:
    """The upper end; the value itself where one seed leaves no interval."""
    return interval.value if np.isnan(interval.high) else interval.high


def bottom(interval: Interval) -> float:
    """The lower end; the value itself where one seed leaves no interval."""
    return interval.value if np.isnan(interval.low) else interval.low


@dataclass(frozen=True)
class Summary:
    """What one algorithm did in one cell.

    slope is the log-log slope of regret on [T/10, T], beaten_slope that of the regret of `log-beats` rounds
    alone; below and printed_below are shares of runs below a bound; ratio is regret ÷ bound and vacuity
    bound ÷ worst possible regret. dearest is the dearest skipped round (of `supported` in units of εS_x);
    selected and unselected are threshold − true reward of the log's answer, over `log-beats` rounds and
    over all; beaten is the share of rounds `log-beats` answered, beaten_loss what one of them cost and
    beaten_rate its regret a round over the second half of the run. dearer and fewer_calls compare with ε-mOFUL
    on the same luck, seed by seed: regret above its, calls below its.
    """

    runs: int
    slope: Interval
    regret: Interval
    calls: Interval
    below: Interval | None = None
    ratio: Interval | None = None
    largest_ratio: float | None = None
    vacuity: Interval | None = None
    printed_below: Interval | None = None
    calls_below: Interval | None = None
    call_vacuity: Interval | None = None
    dearest: float | None = None
    supported_regret: Interval | None = None
    beaten_regret: Interval | None = None
    beaten_slope: Interval | None = None
    beaten_rate: Interval | None = None
    beaten: Interval | None = None
    beaten_loss: Interval | None = None
    selected: Interval | None = None
    unselected: Interval | None = None
    dearer: Interval | None = None
    fewer_calls: Interval | None = None

    @property
    def sublinear(self) -> bool:
        """Whether the interval of the slope ends below 1."""
        return top(self.slope) < 1

    def to_dict(self) -> Record:
        """Plain values, without what does not speak about this algorithm."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.to_dict() if isinstance(value, Interval) else value
            for name, value in named.items()
            if value is not None
        }


@dataclass(frozen=True)
class Knowing:
    """What `log-beats` costs a learner that knows every θ*: regret a round, and the share of rounds.

    least is the smallest rate of any seed.
    """

    features: int
    noise: float
    algorithm: str
    rate: Interval
    share: Interval
    least: float

    def to_dict(self) -> Record:
        """Plain values."""
        known = {"features": self.features, "noise": self.noise, "algorithm": self.algorithm}
        return {**known, "rate": self.rate.to_dict(), "share": self.share.to_dict(), "least": self.least}


def slopes(results: Sequence[Record], curve: Callable[[Record], Sequence[float]]) -> Interval:
    """The log-log slope of a curve on [T/10, T], over seeds; seeds without two positive points are left out."""
    found = []
    for result in results:
        t = np.array(result["t"])
        late = t >= t[-1] / 10
        found.append(log_log_slope(t[late], np.array(curve(result))[late]))
    return known_mean(found)


def known_mean(values: Sequence[float | None]) -> Interval:
    """The mean of the values that are there."""
    there = [value for value in values if value is not None and not np.isnan(value)]
    return mean(there) if there else UNKNOWN


def summarise(name: str, results: Sequence[Record]) -> Summary:
    """One algorithm in one cell; results are those of its seeds."""
    own = [result[name] for result in results]
    regret = np.array([found["regret"][-1] for found in own])
    rounds = results[0]["t"][-1]
    more: Record = {}
    if "bound" in own[0]:
        bound = np.array([found["bound"][-1] for found in own])
        worst = np.array([result["worst"][-1] for result in results])
        more |= {
            "below": share(int((regret <= bound).sum()), len(own)),
            "ratio": mean(regret / bound),
            "largest_ratio": float((regret / bound).max()),
            "vacuity": mean(bound / worst),
        }
    if "printed" in own[0]:
        printed = np.array([found["printed"][-1] for found in own])
        more["printed_below"] = share(int((regret <= printed).sum()), len(own))
    if "call_bound" in own[0]:
        most = np.array([found["call_bound"][-1] for found in own])
        called = np.array([found["calls"][-1] for found in own])
        more["calls_below"] = share(int((called <= most).sum()), len(own))
        more["call_vacuity"] = mean(most / rounds)
        more["dearest"] = max(found["dearest_skip"] for found in own)
    if "kinds" in own[0]:
        more |= _skipped(name, results, rounds)
    return Summary(
        runs=len(own),
        slope=slopes(results, lambda result: result[name]["regret"]),
        regret=mean(regret),
        calls=mean([found["calls"][-1] for found in own]),
        **more,
    )


def _skipped(name: str, results: Sequence[Record], rounds: int) -> Record:
    own = [result[name] for result in results]
    more: Record = {
        "supported_regret": mean([found["kinds"]["supported"]["regret"][-1] for found in own]),
        "dearest": max(found["dearest_skip"] / (found["epsilon"] * found["context_bound"]) for found in own),
    }
    if name not in CLIPS:
        return more
    beaten = [found["kinds"]["log-beats"] for found in own]
    middle = int(np.searchsorted(results[0]["t"], rounds / 2))
    late = rounds - results[0]["t"][middle]
    plain = [result["eps_moful"] for result in results]
    return more | {
        **{
            key: difference([found[curve][-1] for found in first], [found[curve][-1] for found in second])
            for key, curve, first, second in (
                ("dearer", "regret", own, plain),
                ("fewer_calls", "calls", plain, own),
            )
        },
        "beaten_regret": mean([curve["regret"][-1] for curve in beaten]),
        "beaten_slope": slopes(results, lambda result: result[name]["kinds"]["log-beats"]["regret"]),
        "beaten_rate": mean([(curve["regret"][-1] - curve["regret"][middle]) / late for curve in beaten]),
        "beaten": mean([curve["rounds"][-1] / rounds for curve in beaten]),
        "beaten_loss": known_mean([found["curse"]["lost"] for found in own]),
        "selected": known_mean([found["curse"]["selected"] for found in own]),
        "unselected": mean([found["curse"]["all"] for found in own]),
    }


def knowing_rates(setting: Setting, pairs: Sequence[tuple[Record, Record]]) -> list[Knowing]:
    """The knowing learner by d, σ and M."""
    found = []
    for d in sorted({unit["synthetic"]["features"] for unit, _ in pairs}):
        here = [result["rates"] for unit, result in pairs if unit["synthetic"]["features"] == d]
        for place, noise in enumerate(setting.noises):
            for name in CLIPS:
                rows = [rates[place][name] for rates in here]
                rate, part = (mean([row[key] for row in rows]) for key in ("rate", "share"))
                found.append(Knowing(d, noise, name, rate, part, min(row["rate"] for row in rows)))
    return found
