"""Fig. 1: reward calls over the rounds as 𝓛 grows (claims C1 and C2)."""

from sparing.experiments.calls import run
from sparing.experiments.experiment import Experiment
from sparing.experiments.fig1.analysis import analyse
from sparing.experiments.fig1.setting import FULL, QUICK, units

EXPERIMENT = Experiment(
    name="fig1",
    title="reward calls as the set of supported actions grows",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
