"""From many comparisons to one word, and to where it holds."""

from collections.abc import Iterable, Mapping

from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN
from research.paper.intervals import Interval

Finding = bool | None
"""Whether one comparison bears a claim out: yes, no, or None where its interval leaves that open."""

Findings = Mapping[str, Mapping[str, Finding]]
"""Findings by a group of settings, then by the setting within it."""


def above(interval: Interval) -> Finding:
    """Is it above 0?"""
    return True if interval.low > 0 else False if interval.high <= 0 else None


def below(interval: Interval) -> Finding:
    """Is it below 0?"""
    return True if interval.high < 0 else False if interval.low >= 0 else None


def within(interval: Interval, margin: float) -> Finding:
    """Is it between −margin and margin?"""
    if -margin <= interval.low and interval.high <= margin:
        return True
    return False if interval.low > margin or interval.high < -margin else None


def every(findings: Iterable[Finding]) -> Finding:
    """Yes if all say yes, no if one says no, else open."""
    found = list(findings)
    return False if False in found else None if None in found else True


def word(findings: Findings) -> str:
    """`holds` if borne out everywhere, `does not hold` if nowhere, else `holds only when`."""
    borne_out = [found is True for group in findings.values() for found in group.values()]
    return HOLDS if all(borne_out) else ONLY_WHEN if any(borne_out) else FAILS


def counted(findings: Findings) -> str:
    """In how many settings a claim was borne out, and in how many the opposite was."""
    found = [one for group in findings.values() for one in group.values()]
    text = f"borne out in {found.count(True)} of {len(found)} settings, contradicted in {found.count(False)}"
    return text + (f", open in {found.count(None)}" if None in found else "")


def where(findings: Findings) -> str:
    """The settings in which a claim was borne out, group by group."""
    if word(findings) == HOLDS:
        return f"in every setting run ({'; '.join(_listed(*group) for group in findings.items())})"
    if word(findings) == FAILS:
        return "in no setting run"
    shown = [_listed(group, found) for group, found in findings.items() if True in found.values()]
    nowhere = [group for group, found in findings.items() if True not in found.values()]
    return "; ".join(shown) + (f"; never: {'; '.join(nowhere)}" if nowhere else "")


def _listed(group: str, found: Mapping[str, Finding]) -> str:
    return f"{group} {', '.join(setting for setting, holds in found.items() if holds)}"
