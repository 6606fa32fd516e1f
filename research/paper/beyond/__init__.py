"""Beyond the paper: calls against regret under four logging policies and on eight data sets, outsiders included."""

from research.paper.beyond.analysis import analyse, run, units
from research.paper.beyond.setting import FULL, QUICK
from research.paper.experiment import Experiment

EXPERIMENT = Experiment(
    name="beyond",
    title="What the paper does not show: calls against regret for every learner, and Vowpal Wabbit",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
