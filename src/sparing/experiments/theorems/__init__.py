"""Theorems 1 to 3: regret against each bound, how fast it grows, and what the skipped rounds cost."""

from sparing.experiments.experiment import Experiment
from sparing.experiments.theorems.analysis import analyse, run, units
from sparing.experiments.theorems.setting import FULL, QUICK

EXPERIMENT = Experiment(
    name="theorems",
    title="Regret against the bounds of Theorems 1, 2 and 3, and our certified bound",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
