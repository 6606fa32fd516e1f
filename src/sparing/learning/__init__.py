"""Policies learnt from the log alone: by regression, on the support, by importance weights, or by table."""

from sparing.learning.methods import METHODS, learn
from sparing.policies.policy import PessimisticPolicy, SoftmaxPolicy
from sparing.policies.saving import load_policy, save_policy
from sparing.policies.tables import GivenSupport, KnownSupport, TablePolicy, policy_from_table

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
