"""Propositions 1 and 2: the bias of IPS under deficient support, and least squares on the log."""

from sparing.experiments.experiment import Experiment
from sparing.experiments.propositions.analysis import analyse, run, units
from sparing.experiments.propositions.setting import FULL, QUICK

EXPERIMENT = Experiment(
    name="propositions",
    title="The bias of IPS where support is deficient, and least squares on the log",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
