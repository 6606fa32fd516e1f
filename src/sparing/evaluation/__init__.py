"""What a policy would have earned: nine estimators, four intervals, and the part no log can tell."""

from sparing.evaluation.evaluate import evaluate
from sparing.evaluation.result import Estimate, Evaluation

__all__ = ["Estimate", "Evaluation", "evaluate"]
