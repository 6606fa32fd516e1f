"""Fig. 2: reward calls as more actions are unsupported (claim C3)."""

from research.paper.calls import run
from research.paper.experiment import Experiment
from research.paper.fig2.analysis import analyse
from research.paper.fig2.setting import FULL, QUICK, units

EXPERIMENT = Experiment(
    name="fig2",
    title="reward calls as the share of unsupported actions changes",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
