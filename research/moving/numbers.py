"""What the pictures are drawn from: curves of runs, averaged over seeds and over stretches of rounds."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.running import libraries
from research.paper.synthetic import LIVE_STREAM
from research.tables import forgetting, shift
from sparing.engines import Progress
from sparing.interval import deviations, watched_deviations
from sparing.online import algorithms
from sparing.service.comparison import MeanEstimate, difference, mean_reward
from sparing.service.subject_sums import PAIRS
from sparing.simulation.parallel import run_many
from sparing.simulation.simulate import play

CUT, TRADED, WATCHED = "cut", "traded", "watched"
"""A model loses half of its quality after the log; actions trade places half-way; an interval is looked at again and again."""

DIGITS = 6
"""Decimals that are kept."""


@dataclass(frozen=True)
class Setting:
    """As the tables have it (`shift`, `forgetting`), each point a mean over `stretch` rounds.

    Histories: `decisions` rewards of 0 or 1 with this mean, `held_out` of them the holdout's and `checked` of the others' known.
    """

    seeds: tuple[int, ...] = shift.Setting.seeds
    new: str = "llama"
    stretch: int = 57
    half_lives: tuple[int, ...] = (0, 1500)
    long_stretch: int = 150
    histories: int = 300
    decisions: int = 10_000
    every: int = 20
    mean: float = 0.3
    held_out: float = 0.1
    checked: float = 0.1
    pieces: int = 10


FULL = Setting()


def units(setting: Setting) -> list[Record]:
    """A picture's curve, and a seed or a part of the histories, each."""
    common = asdict(setting)
    curves = [(CUT, how) for how in ("none", "auto")] + [(TRADED, how) for how in setting.half_lives]
    runs: list[Record] = [
        {"picture": one, "how": how, "seed": seed} for one, how in curves for seed in setting.seeds
    ]
    parts: list[Record] = [{"picture": WATCHED, "how": "", "seed": part} for part in range(setting.pieces)]
    return [{**each, **common} for each in (*runs, *parts)]


def run(unit: Record) -> list[list[float]]:
    """Curves: what was earned, the losses, or the histories that each interval has been wrong about so far."""
    made = {CUT: _earned, TRADED: _lost, WATCHED: _wrong}[unit["picture"]](unit)
    return [[round(value, DIGITS) for value in curve.tolist()] for curve in made]


def _earned(unit: Record) -> Iterator[np.ndarray]:
    """The mean reward of a prompt, stretch by stretch; then that of the best single model."""
    base = asdict(shift.Setting())
    log, stream, _ = shift.routed({**base, "place": unit["new"], "change": shift.CUT, "seed": unit["seed"]})
    learner = algorithms.economical(
        log,
        call_cost=base["price"],
        horizon=len(stream),
        shift=None if unit["how"] == "none" else unit["how"],
        seed=unit["seed"],
    )
    trace, rows = play(learner, stream), np.arange(len(stream))
    yield stretches(stream.means[rows, trace.actions], unit["stretch"])
    yield stretches(stream.means[:, stream.means.mean(axis=0).argmax()], unit["stretch"])


def _lost(unit: Record) -> Iterator[np.ndarray]:
    """The loss of a round, stretch by stretch."""
    base = asdict(forgetting.Setting())
    _, losses = forgetting.played({**base, "change": forgetting.TRADED, "seed": unit["seed"]}, unit["how"])
    yield stretches(losses, unit["long_stretch"])


def stretches(values: np.ndarray, length: int) -> np.ndarray:
    """Means of stretches of so many rounds; what is left over at the end is left out."""
    whole = len(values) // length
    return values[: whole * length].reshape(whole, length).mean(axis=1)


def _wrong(unit: Record) -> Iterator[np.ndarray]:
    """Of some histories, how many an interval of either kind has been wrong about, at each look; no policy differs from its holdout."""
    many = unit["histories"] // unit["pieces"]
    looks = np.arange(unit["every"], unit["decisions"] + 1, unit["every"])
    every, once = (np.zeros(len(looks)) for _ in range(2))
    for history in range(many):
        rng = np.random.default_rng([unit["seed"] * many + history, LIVE_STREAM])
        n = unit["decisions"]
        rewards = (rng.random(n) < unit["mean"]).astype(float)
        held, checked = rng.random(n) < unit["held_out"], rng.random(n) < unit["checked"]
        gap = difference(_policy(rewards, held, checked, looks), _holdout(rewards, held, looks))
        far = np.abs(gap.value) / np.sqrt(gap.variance)
        with np.errstate(invalid="ignore"):
            every += np.maximum.accumulate(far > watched_deviations(gap.free, gap.spread / gap.variance))
            once += np.maximum.accumulate(far > deviations(freedom=gap.free))
    yield every
    yield once


def _policy(rewards: np.ndarray, held: np.ndarray, checked: np.ndarray, looks: np.ndarray) -> MeanEstimate:
    """The dashboard's estimate of a policy that skips every reward, and has some checked."""
    return _estimate(rewards, ~held, 1, checked & ~held, looks)


def _holdout(rewards: np.ndarray, held: np.ndarray, looks: np.ndarray) -> MeanEstimate:
    """The dashboard's estimate of the holdout, whose rewards are all known."""
    return _estimate(rewards, held, 0, held, looks)


def _estimate(
    rewards: np.ndarray, mine: np.ndarray, stratum: int, known: np.ndarray, looks: np.ndarray
) -> MeanEstimate:
    """A variant's mean at each look, from the sums that the store keeps; no subject comes back."""
    strata = np.zeros((len(rewards), 2, 3))
    strata[:, stratum] = np.stack([mine, known, rewards * known], axis=1)
    each = strata.reshape(len(rewards), 6)
    more = np.zeros((len(rewards), 3))
    more[:, stratum], more[:, 2] = rewards**2 * known, known * (stratum == 1)
    one, other = PAIRS
    sums = np.cumsum(np.concatenate([each, more, each[:, one] * each[:, other]], axis=1), axis=0)
    return mean_reward(sums[looks - 1])


def numbers(setting: Setting, *, workers: int | None = None, progress: Progress | None = None) -> Record:
    """All that the pictures show, as plain values."""
    todo = units(setting)
    results = run_many(run, todo, workers=workers, progress=progress)
    curves: dict[tuple[str, Any], list[np.ndarray]] = {}
    for unit, result in zip(todo, results, strict=True):
        curves.setdefault((unit["picture"], unit["how"]), []).append(np.array(result))
    found = {
        "what": "Rewards and losses while rewards change, and histories in which an interval has been wrong.",
        "command": "python -m research moving",
        "libraries": libraries(),
        "setting": asdict(setting),
        CUT: {how: _summary([one[0] for one in curves[CUT, how]]) for how in ("none", "auto")},
        "best": _summary([one[1] for one in curves[CUT, "none"]]),
        TRADED: {str(how): _summary([one[0] for one in curves[TRADED, how]]) for how in setting.half_lives},
        WATCHED: dict(zip(("every", "once"), np.sum(curves[WATCHED, ""], axis=0).tolist(), strict=True)),
    }
    return dict(json.loads(json.dumps(found)))


def _summary(curves: list[np.ndarray]) -> Record:
    """The mean over the seeds, and the tenth and ninetieth of a hundred."""
    low, high = np.quantile(curves, [0.1, 0.9], axis=0)
    parts = {"mean": np.mean(curves, axis=0), "low": low, "high": high}
    return {name: [round(value, DIGITS) for value in values.tolist()] for name, values in parts.items()}
