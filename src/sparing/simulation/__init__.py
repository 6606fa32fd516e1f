"""Simulated worlds, logging policies, the simulation loop and data sets."""

from sparing.simulation.logging_policies import LOGGING, draw_log, hidden_model_log, logging_policy
from sparing.simulation.parallel import run_many
from sparing.simulation.simulate import Trace, simulate
from sparing.simulation.worlds import (
    ChangingWorld,
    ClassificationWorld,
    LinearWorld,
    RoutingWorld,
    Stream,
    World,
)

__all__ = [
    "LOGGING",
    "ChangingWorld",
    "ClassificationWorld",
    "LinearWorld",
    "RoutingWorld",
    "Stream",
    "Trace",
    "World",
    "draw_log",
    "hidden_model_log",
    "logging_policy",
    "run_many",
    "simulate",
]
