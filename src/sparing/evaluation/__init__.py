"""What a policy would have earned: nine estimators, four intervals, and the part no log can tell."""

from sparing.evaluation.evaluate import Estimate, Evaluation, evaluate

__all__ = ["Estimate", "Evaluation", "evaluate"]
