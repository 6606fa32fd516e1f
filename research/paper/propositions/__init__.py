"""Propositions 1 and 2: the bias of IPS under deficient support, and least squares on the log."""

from research.paper.experiment import Experiment
from research.paper.propositions.analysis import analyse, run, units
from research.paper.propositions.setting import FULL, QUICK

EXPERIMENT = Experiment(
    name="propositions",
    title="The bias of IPS where support is deficient, and least squares on the log",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
