"""Demonstration on a classification set: some classes are never logged, and learners go live."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.auditing import Audit, audit
from sparing.demo.support_desk import ALONE, ECONOMICAL, LearnerOutcome, play_all
from sparing.engines import Progress, ProgressCounter
from sparing.errors import SettingError
from sparing.log import Log
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.report import figures, html
from sparing.simulation.datasets import Dataset
from sparing.simulation.logging_policies import draw_log
from sparing.simulation.worlds import ClassificationWorld

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNEL = "economical, kernel"  # with kernel features
HEADER = ("learner", "calls", "of rounds", "wrong live", "total cost", "wrong after")


@dataclass(frozen=True)
class DemoSetting:
    """A data set, the classes that its log never has (by default the last three), and the learners' settings.

    A right answer is worth 1, and a reward call costs `call_cost`. Contexts have unit norm, so the ridge is small. radius_scale < 1
    voids the worst-case guarantees and is common in practice.
    """

    data: str = "pendigits"
    never: tuple[str, ...] = ()
    call_cost: float = 0.05
    tolerance: float = 0.1
    landmarks: int = 128
    ridge: float = 0.1
    radius_scale: float = 0.2
    seeds: tuple[int, ...] = (0, 1, 2)

    def learners(self, log: Log, seed: int, rounds: int) -> dict[str, Learner]:
        """Return each learner at its start on a log, by its displayed name."""
        common: Any = {"ridge": self.ridge, "radius_scale": self.radius_scale, "seed": seed}
        priced: Any = {"call_cost": self.call_cost, "horizon": rounds}
        return {
            "mOFUL, cold": algorithms.moful(log, **common),
            "warm-started": algorithms.warm_started(log, **common),
            "confident": algorithms.confident(log, tolerance=self.tolerance, **common),
            ECONOMICAL: algorithms.economical(log, **priced, **common),
            KERNEL: algorithms.economical(log, kernel=self.landmarks, **priced, **common),
        }


@dataclass(frozen=True, eq=False)
class DemoResult:
    """All results of the demonstration."""

    setting: DemoSetting
    dataset: str
    source: str
    rounds: int
    audit: Audit
    outcomes: tuple[LearnerOutcome, ...]

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("dataset", "source", "rounds")}
        learners = [
            {
                "name": outcome.name,
                "calls": outcome.calls.tolist(),
                "live_error": _live_error(outcome).tolist(),
                "final_error": outcome.final_error.tolist(),
            }
            for outcome in self.outcomes
        ]
        return {"setting": asdict(self.setting), **plain, "audit": self.audit.to_dict(), "learners": learners}


def demonstrate(setting: DemoSetting, dataset: Dataset, *, progress: Progress | None = None) -> DemoResult:
    """Log a data set without some of its classes, then let each learner go live on new contexts."""
    never = setting.never or dataset.classes[-3:]
    unknown = [name for name in never if name not in dataset.classes]
    if unknown or len(never) > len(dataset.classes) - 3:
        raise SettingError(
            f"never={list(never)}; {dataset.name} has the classes {', '.join(dataset.classes)}, "
            "and at least three must be logged"
        )
    counter, logs, runs, errors = ProgressCounter(progress), [], [], []
    for seed in setting.seeds:
        world = ClassificationWorld(dataset, seed=seed)
        logs.append(draw_log(world, never=never, seed=seed))
        learners = setting.learners(logs[-1], seed, len(world.live_rows))
        counter.total = len(setting.seeds) * len(learners)
        alone = {ALONE: world.error(learners[ECONOMICAL].policy())}
        stream = world.live_stream(None, np.random.default_rng([seed, 3]))
        runs.append(play_all(learners, stream, counter))
        errors.append(alone | {name: world.error(learner.policy()) for name, learner in learners.items()})
    outcomes = tuple(
        LearnerOutcome(
            name,
            setting.call_cost,
            tuple(each[name] for each in runs),
            np.array([each[name] for each in errors]),
        )
        for name in errors[0]
    )
    rounds = len(outcomes[0].runs[0].earned)
    return DemoResult(setting, dataset.name, dataset.source, rounds, audit(logs[0]), outcomes)


def _live_error(outcome: LearnerOutcome) -> np.ndarray:
    """Share of the live rounds with the wrong class, (S,); a right answer earns 1."""
    rounds = len(outcome.runs[0].earned)
    return (rounds - outcome.earned) / rounds


def _cost(outcome: LearnerOutcome) -> np.ndarray:
    """Wrong live answers and calls together, in right answers, (S,)."""
    return len(outcome.runs[0].earned) - outcome.net


def rows(result: DemoResult) -> list[tuple[str, ...]]:
    return [
        (
            outcome.name,
            f"{outcome.calls.mean():,.0f}",
            f"{outcome.calls.mean() / result.rounds:.0%}",
            f"{_live_error(outcome).mean():.3f}",
            f"{_cost(outcome).mean():,.0f}",
            f"{outcome.final_error.mean():.3f}",
        )
        for outcome in result.outcomes
    ]


def provenance(result: DemoResult) -> str:
    setting = result.setting
    return (
        f"Computed now: means over {len(setting.seeds)} seeds ({', '.join(map(str, setting.seeds))}) of "
        f"{result.rounds:,} live rounds on {result.dataset} ({result.source}). Learners: ridge {setting.ridge:g}; "
        f"confidence radius × {setting.radius_scale:g} (below 1: no worst-case guarantee) for mOFUL "
        f"and warm-started; confident: tolerance {setting.tolerance:g}; economical has the price of a call, "
        f"{setting.call_cost:g} of a right answer, and the number of rounds; it and confident take their prior and noise from the "
        f"log; kernel: with {setting.landmarks} kernel features, all others are linear. Wrong live: share of the live rounds given the wrong class; total cost: wrong live answers + "
        f"{setting.call_cost:g} × calls; wrong after: the final policy's share of wrong classes on held-out rows. economical stops asking when the rounds left no longer repay it, so others know more after them."
    )


def headline(result: DemoResult) -> str:
    by_name = {outcome.name: outcome for outcome in result.outcomes}
    sparing, alone = by_name[KERNEL], by_name[ALONE]
    price = result.setting.call_cost
    cost = {name: _cost(outcome).mean() for name, outcome in by_name.items()}
    return (
        f"The offline policy answers {_live_error(alone).mean():.0%} of {result.rounds:,} live rounds wrong. Asking for the reward in "
        f"{sparing.calls.mean() / result.rounds:.0%} of them brings that to {_live_error(sparing).mean():.1%}; at {price:g} of a right "
        f"answer a call, that costs {cost[KERNEL]:,.0f} right answers in all, against {cost[ALONE]:,.0f} with the offline policy "
        f"and {cost['warm-started']:,.0f} (warm) or {cost['mOFUL, cold']:,.0f} (cold) when every round is paid for."
    )


def draw(result: DemoResult) -> "Figure":
    figure, (left, right) = figures.panels(2)
    with figures.styled():
        for number, outcome in enumerate(result.outcomes):
            colour, dashed = figures.COLOURS[number % len(figures.COLOURS)], number == 2
            curves, rounds = outcome.calls_over_time, np.arange(1, result.rounds + 1)
            line = (0, (5, 4)) if dashed else "-"
            left.plot(rounds, curves.mean(axis=0), color=colour, linestyle=line, zorder=3 + dashed)
            low, high = curves.min(axis=0), curves.max(axis=0)
            left.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
            error = outcome.final_error
            spread = [[error.mean() - error.min()], [error.max() - error.mean()]]
            look: Any = {"fmt": "o", "color": colour, "capsize": 3, "label": outcome.name}
            right.errorbar(outcome.calls.mean(), error.mean(), yerr=spread, **look)
        left.set(xlabel="live rounds", ylabel="reward calls so far", title="Calls paid for")
        right.set(xlabel="reward calls", ylabel="share wrong on held-out contexts")
        right.set(title="What the calls bought", ylim=(0, None))
        for axis in (left.xaxis, left.yaxis, right.xaxis):
            axis.set_major_formatter("{x:,.0f}")
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def write(result: DemoResult, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write demo.png and demo.html into a folder, which is made if needed; return both paths."""
    drawn = draw(result)
    caption = (
        "Left: reward calls over the live rounds, mean and range over seeds. Right: error of the final policy on "
        "held-out contexts against the calls it took; bars are the range over seeds. Lower and further left is better."
    )
    parts = [
        html.paragraph(headline(result), kind="lead"),
        html.heading("The log"),
        html.preformatted(str(result.audit)),
        html.heading("Going live"),
        html.table(HEADER, rows(result)),
        html.figure(figures.to_svg(drawn), caption),
        html.paragraph(provenance(result), kind="note"),
    ]
    title = "sparing: what a log does not cover, and what it costs to find out"
    return html.write_report(folder, "demo", drawn, title=title, parts=parts)
