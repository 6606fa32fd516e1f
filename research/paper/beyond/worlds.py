"""Synthetic worlds: as learners are told, or a little otherwise."""

from dataclasses import replace

import numpy as np

from research.paper.beyond.meeting import Meeting
from research.paper.experiment import Record
from research.paper.synthetic import Synthetic
from sparing.log import Log
from sparing.model.confidence import most_logged
from sparing.online.learner import Learner
from sparing.simulation import LinearWorld


def run(unit: Record) -> Record:
    """Calls and regret of each; the noise is told truly unless the variant says otherwise."""
    names = ("actions", "features", "rows", "rounds", "unsupported", "seed")
    base = Synthetic(support=unit["place"], **{name: unit[name] for name in names})
    variant = unit["variant"]
    world, log = shifted(base, variant["shift"])
    stream = base.live_stream(world, log)
    meeting = Meeting(log, stream, stream.contexts[:0], base.noise, variant["delay"])
    told = replace(base, noise=base.noise * variant["noise"])
    horizon = round(base.rounds * variant["horizon"])
    return meeting.runs(
        unit, lambda record: start(record, told, world, log, horizon, base.noise), lambda _: {}
    )


def shifted(base: Synthetic, shift: float) -> tuple[LinearWorld, Log]:
    """The world and its log; never-logged actions earn on average `shift` deviations more than they would have.

    θ ~ N(0, I), so that an action's mean reward E[x]·θ has the deviation √d/2; each coordinate is moved by shift/√d.
    """
    world = base.world()
    log = base.log(world)
    if not shift:
        return world, log
    theta = world.theta + shift / np.sqrt(base.features) * (log.counts == 0)[:, None]
    return LinearWorld(noise=base.noise, theta=theta), log


def start(
    record: Record, told: Synthetic, world: LinearWorld, log: Log, horizon: int, unit: float
) -> Learner:
    """A learner as its record says; ε-mOFUL-IPS trusts the points of half the actions."""
    return told.start(
        record["name"],
        world,
        log,
        supported=most_logged(told.actions // 2),
        **asked(record, unit, horizon),
    )


def asked(record: Record, unit: float, horizon: int) -> Record:
    """What a learner is asked to do: its tolerance, or its price of a call (in units) or budget, and the rounds ahead."""
    settings = {key: record[key] for key in ("tolerance", "radius_scale") if key in record}
    price = record["price"] * unit if "price" in record else None
    return settings | {"call_cost": price, "calls": record.get("budget"), "horizon": horizon}
