"""Off-policy evaluation: nine estimators, four intervals, and bounds on the part that the log does not support."""

from sparing.evaluation.evaluate import evaluate
from sparing.evaluation.result import Estimate, Evaluation

__all__ = ["Estimate", "Evaluation", "evaluate"]
