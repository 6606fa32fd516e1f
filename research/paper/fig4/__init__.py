"""Fig. 4: classification of three UCI sets as a bandit problem."""

from research.paper.experiment import Experiment
from research.paper.fig4.analysis import analyse
from research.paper.fig4.running import run
from research.paper.fig4.setting import FULL, QUICK, units

EXPERIMENT = Experiment(
    name="fig4",
    title="Classification error on letter, pendigits and satimage, by the share of unsupported actions",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
