"""The audit of a log: how often each action was tried, what was never tried, and where the log has no coverage."""

from sparing.auditing.audit import Audit, audit, gate
from sparing.auditing.support import SupportEstimate, estimate_support

__all__ = ["Audit", "SupportEstimate", "audit", "estimate_support", "gate"]
