"""One world under one logging policy: the bias of IPS over many logs, and least squares on a growing one."""

import numpy as np

from research.paper.coverage.analysis import MostlyBest
from research.paper.experiment import Record
from research.paper.intervals import mean
from sparing.evaluation import evaluate
from sparing.model.statistics import Statistics, least_squares
from sparing.policies.policy import GreedyPolicy
from sparing.simulation import LinearWorld, draw_log, logging_policy

BLUR_STREAM = 31
"""The random stream that blurs θ* for the policy that is evaluated."""

ENOUGH = 10
"""Actions with so many rows for each feature at the smallest size take part in the slope."""


def bias(unit: Record) -> Record:
    """Proposition 1 for each share n^UA.

    Each log gives an estimate of both sides whose mean is exact, because its contexts are draws of P_x:
    measured = IPS − mean_i Σ_a π(a|x_i)δ(x_i, a), predicted = −mean_i Σ_{a∈U(x_i)} π(a|x_i)δ(x_i, a).
    """
    world = _world(unit)
    rng = np.random.default_rng([unit["seed"], BLUR_STREAM])
    blurred = world.theta + unit["blur"] * rng.standard_normal(world.theta.shape)
    target = MostlyBest(GreedyPolicy(world.action_names, blurred, np.arange(len(blurred))))
    return {"shares": [_one_share(world, target, unit, share) for share in unit["unsupported"]]}


def _one_share(world: LinearWorld, target: MostlyBest, unit: Record, unsupported: float) -> Record:
    logger = logging_policy(unit["support"], world, unsupported=unsupported, seed=unit["seed"])
    measured, predicted, mass = np.empty((3, unit["logs"]))
    for number in range(unit["logs"]):
        seed = own_seed(unit, f"{unsupported:g}", number)
        log = draw_log(world, rows=unit["rows"], policy=logger, seed=seed)
        estimate = evaluate(log, target, methods=("ips",)).estimates[0].value
        chances, worth = target.probabilities(log.contexts), world.means(log.contexts)
        outside = logger.probabilities(log.contexts) == 0
        measured[number] = estimate - (chances * worth).sum(axis=1).mean()
        predicted[number] = -(chances * worth * outside).sum(axis=1).mean()
        mass[number] = (chances * outside).sum(axis=1).mean()
    difference = mean(measured - predicted)
    return {
        "unsupported": unsupported,
        "measured": mean(measured).to_dict(),
        "predicted": float(predicted.mean()),
        "difference": difference.to_dict(),
        "mass": float(mass.mean()),
    }


def growing(unit: Record) -> Record:
    """Proposition 2: N_a and ‖θ̂_a − θ*_a‖ of every action as the log grows; (sizes, K) each.

    Pieces of log are added up, so that the smaller logs are parts of the larger ones.
    """
    world = _world(unit)
    logger = logging_policy(unit["support"], world, unsupported=unit["unsupported"], seed=unit["seed"])
    sums = Statistics.zero(unit["actions"], unit["features"])
    sizes = unit["sizes"]
    counts, errors = [], []
    for piece, (before, size) in enumerate(zip([0, *sizes], sizes, strict=False)):
        log = draw_log(world, rows=size - before, policy=logger, seed=own_seed(unit, "growing", piece))
        sums = sums + Statistics.of(log)
        counts.append(sums.counts.tolist())
        errors.append(np.linalg.norm(least_squares(sums, 1.0) - world.theta, axis=1).tolist())
    return {"counts": counts, "errors": errors}


def own_seed(unit: Record, part: str, number: int) -> int:
    """A seed for one log, so that no two logs of the experiment share their luck."""
    words = [unit["seed"], number, *f"{unit['support']} {part}".encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def within_slope(counts: np.ndarray, errors: np.ndarray) -> float:
    """The exponent b of error ≈ c_a·N_a^b, one c_a for each action; arrays (sizes, actions)."""
    x, y = np.log(counts), np.log(errors)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    return float((x * y).sum() / (x * x).sum())


def _world(unit: Record) -> LinearWorld:
    return LinearWorld(
        n_actions=unit["actions"], n_features=unit["features"], noise=unit["noise"], seed=unit["seed"]
    )
