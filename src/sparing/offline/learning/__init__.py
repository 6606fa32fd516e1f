"""Policies learnt from the log alone: by regression, on the support, by importance weights, or by table."""

from sparing.offline.learning.learning import METHODS, learn
from sparing.offline.learning.policies import (
    PessimisticPolicy,
    SoftmaxPolicy,
    TablePolicy,
    policy_from_table,
)
from sparing.offline.learning.saving import load_policy, save_policy
from sparing.offline.learning.supports import GivenSupport, KnownSupport

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
