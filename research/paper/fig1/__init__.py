"""Fig. 1: reward calls over the rounds as 𝓛 grows (claims C1 and C2)."""

from research.paper.calls import run
from research.paper.experiment import Experiment
from research.paper.fig1.analysis import analyse
from research.paper.fig1.setting import FULL, QUICK, units

EXPERIMENT = Experiment(
    name="fig1",
    title="reward calls as the set of supported actions grows",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
