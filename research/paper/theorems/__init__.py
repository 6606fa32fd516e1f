"""Theorems 1 to 3: regret against each bound, how fast it grows, and what the skipped rounds cost."""

from research.paper.experiment import Experiment
from research.paper.theorems.analysis import analyse, run, units
from research.paper.theorems.setting import FULL, QUICK

EXPERIMENT = Experiment(
    name="theorems",
    title="Regret against the bounds of Theorems 1, 2 and 3, and our certified bound",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
