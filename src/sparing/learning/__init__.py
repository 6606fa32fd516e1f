"""Policies learnt from the log alone: by regression, on the support, by importance weights, or by table."""

from sparing.learning.learning import METHODS, learn
from sparing.policies.learnt import (
    PessimisticPolicy,
    SoftmaxPolicy,
    TablePolicy,
    policy_from_table,
)
from sparing.policies.saving import load_policy, save_policy
from sparing.policies.supports import GivenSupport, KnownSupport

__all__ = [
    "METHODS",
    "GivenSupport",
    "KnownSupport",
    "PessimisticPolicy",
    "SoftmaxPolicy",
    "TablePolicy",
    "learn",
    "load_policy",
    "policy_from_table",
    "save_policy",
]
