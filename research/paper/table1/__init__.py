"""Table 1: the data sets of the classification experiments, counted."""

from research.paper.experiment import Experiment
from research.paper.table1.analysis import analyse, run
from research.paper.table1.setting import FULL, QUICK, units

EXPERIMENT = Experiment(
    name="table1",
    title="Sizes of the data sets, counted and printed",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
