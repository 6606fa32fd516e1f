"""Fig. 3: what the policies earn that a budget of reward calls has bought."""

from research.paper.experiment import Experiment
from research.paper.fig3.analysis import analyse
from research.paper.fig3.running import run
from research.paper.fig3.setting import FULL, QUICK, units

EXPERIMENT = Experiment(
    name="fig3",
    title="Average reward after 300 reward calls, by the share of unsupported actions",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
