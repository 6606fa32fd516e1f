"""Worlds to try it in: linear and classification worlds, logging policies, the one loop, its traces."""

from sparing.simulation.logging import LOGGING as LOGGING
from sparing.simulation.logging import draw_log as draw_log
from sparing.simulation.logging import logging_policy as logging_policy
from sparing.simulation.loop import Trace as Trace
from sparing.simulation.loop import simulate as simulate
from sparing.simulation.many import run_many as run_many
from sparing.simulation.worlds import ClassificationWorld as ClassificationWorld
from sparing.simulation.worlds import LinearWorld as LinearWorld
from sparing.simulation.worlds import Stream as Stream
from sparing.simulation.worlds import World as World
