"""Where the log is blind: what was tried how often, what never, and which actions it has taught."""

from sparing.auditing.audit import Audit, audit, gate
from sparing.auditing.support import SupportEstimate, estimate_support

__all__ = ["Audit", "SupportEstimate", "audit", "estimate_support", "gate"]
