"""Worlds to try it in: linear and classification worlds, logging policies, the one loop, its traces."""

from sparing.simulation.classification import ClassificationWorld
from sparing.simulation.logging import LOGGING, draw_log, logging_policy
from sparing.simulation.loop import simulate
from sparing.simulation.many import run_many
from sparing.simulation.trace import Trace
from sparing.simulation.worlds import LinearWorld, Stream, World

__all__ = [
    "LOGGING",
    "ClassificationWorld",
    "LinearWorld",
    "Stream",
    "Trace",
    "World",
    "draw_log",
    "logging_policy",
    "run_many",
    "simulate",
]
