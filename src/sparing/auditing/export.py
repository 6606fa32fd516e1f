"""The audit as plain values: flat numbers for gates, nested ones for JSON."""

from collections.abc import Hashable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparing.auditing.summary import Audit


def metrics(audit: "Audit") -> dict[str, float | None]:
    """Every number by its name; those of a policy only where one was given.

    The least or largest of numbers among which one is NaN is NaN (NumPy's), not whichever came first.
    """
    rows = [action.rows for action in audit.per_action]
    errors = [a.certified_error for a in audit.per_action if a.certified_error is not None]
    rare = [action.rare for action in audit.per_action if action.rare is not None]
    implied, overlap, estimate = audit.implied_unsupported, audit.overlap, audit.estimate
    upsides = [gap.upside for gap in audit.gap_map.gaps if gap.upside is not None]
    fit = None if estimate is None else estimate.propensities
    numbers: dict[str, float | None] = {
        "rows": audit.rows,
        "actions": audit.actions,
        "features": audit.features,
        "distinct_contexts": audit.distinct_contexts,
        "smallest_count": min(rows),
        "largest_count": max(rows),
        "never_logged": len(audit.never_logged),
        "unsupported_share": audit.unsupported_share,
        "estimated_unsupported_share": audit.estimated_unsupported_share,
        "implied_unsupported_share": None if implied is None else implied[0],
        "undecided_share": None if estimate is None else estimate.undecided_share,
        "rare_share": sum(rare) / len(rare) if rare else None,
        "smallest_propensity": None if overlap is None else overlap.smallest,
        "percentile_ratio": None if overlap is None else overlap.percentile_ratio,
        "effective_sample_size": None if overlap is None else overlap.effective_sample_size,
        "calibration_error": None if fit is None else fit.calibration_error,
        "smallest_certified_error": float(np.min(errors)) if errors else None,
        "largest_certified_error": float(np.max(errors)) if errors else None,
        "certified_actions": len(audit.certified) if errors else None,
        "gaps": audit.gap_map.found,
        "largest_upside": float(np.max(upsides)) if upsides else None,
    }
    if audit.policy is not None:
        policy = audit.policy
        exact = policy.support == "exact"
        numbers |= {
            "policy_unsupported_mass": policy.unsupported_mass if exact else None,
            "policy_estimated_unsupported_mass": None if exact else policy.unsupported_mass,
            "policy_implied_unsupported_mass": None
            if policy.implied_mass is None
            else policy.implied_mass[0],
            "policy_never_logged_mass": policy.never_logged_mass,
            "policy_effective_sample_size": policy.effective_sample_size,
        }
    return numbers


def to_dict(audit: "Audit") -> dict[str, object]:
    """Everything, nested, in types that JSON has."""
    overlap, estimate, policy = audit.overlap, audit.estimate, audit.policy
    return {
        "headline": audit.headline,
        "verdict": audit.verdict,
        "support": audit.support,
        "metrics": audit.metrics,
        "counts": {plain(name): count for name, count in audit.counts.items()},
        "never_logged": [plain(name) for name in audit.never_logged],
        "elbow": audit.elbow,
        "unsupported_sizes": audit.unsupported_sizes,
        "per_action": [{**asdict(a), "name": plain(a.name)} for a in audit.per_action],
        "propensities": None if overlap is None else _without_arrays(overlap),
        "rewards": {"mean": audit.reward_mean, "range": audit.reward_range},
        "certified": {
            "error": audit.error,
            "actions": [plain(name) for name in audit.certified],
            "assumptions": None if audit.assumptions is None else asdict(audit.assumptions),
        },
        "gaps": [
            {
                "where": gap.where,
                "bounds": [
                    {"terms": bound.terms, "above": _finite(bound.low), "up_to": _finite(bound.high)}
                    for bound in gap.segment.bounds
                ],
                "actions": [plain(name) for name in gap.actions],
                "rows": gap.rows,
                "share": gap.share,
                "tried": gap.tried,
                "supported": gap.supported,
                "upside": gap.upside,
            }
            for gap in audit.gap_map.gaps
        ],
        "gap_coverage": audit.gap_map.coverage,
        "policy": None if policy is None else asdict(policy),
        "estimate": None
        if estimate is None
        else {
            "bar": estimate.bar,
            "confidence": estimate.confidence,
            "undecided_share": estimate.undecided_share,
            "agreement": estimate.agreement,
            "calibration": None
            if estimate.propensities is None
            else {
                "error": estimate.propensities.calibration_error,
                "relative_error": estimate.propensities.relative_error,
                "temperature": estimate.propensities.temperature,
                "reliability": estimate.propensities.reliability.tolist(),
            },
        },
        "notes": list(audit.notes),
    }


def plain(name: Hashable) -> str | int | float:
    """A label as JSON has it."""
    return name if isinstance(name, str | int | float) else str(name)


def _finite(number: float) -> float | None:
    return number if abs(number) < float("inf") else None


def _without_arrays(value: Any) -> dict[str, Any]:
    """A dataclass as a dictionary, its arrays as lists."""
    return {name: item.tolist() if hasattr(item, "tolist") else item for name, item in vars(value).items()}
