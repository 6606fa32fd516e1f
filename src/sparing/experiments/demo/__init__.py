"""The demonstration: a real data set, classes the log never tried, and what each learner makes of it."""

from sparing.experiments.demo.analysis import DemoResult, Outcome, demonstrate
from sparing.experiments.demo.setting import DemoSetting

__all__ = ["DemoResult", "DemoSetting", "Outcome", "demonstrate"]
