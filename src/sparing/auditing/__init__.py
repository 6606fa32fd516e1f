"""Where the log is blind: what was tried how often, what never, and which actions it has taught."""

from sparing.auditing.estimated import SupportEstimate, estimate_support
from sparing.auditing.summary import Audit, audit

__all__ = ["Audit", "SupportEstimate", "audit", "estimate_support"]
