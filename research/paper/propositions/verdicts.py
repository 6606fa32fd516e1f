"""The verdicts on Propositions 1 and 2, from the numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Record, Verdict
from research.paper.intervals import LEVEL, Interval
from research.paper.propositions.setting import Setting

RATE, MARGIN = -0.5, 0.05
"""The slope of the error in N_a that theory gives, and how near to it an interval must come."""


@dataclass(frozen=True)
class Identity:
    """Proposition 1 under one logging policy.

    difference is measured − predicted bias over worlds; inside the share of cells (world, n^UA) whose own 95 %
    interval of it holds 0; size and largest the mean and largest |predicted|, error the mean |difference|; slope that
    of measured on predicted.
    """

    difference: Interval
    inside: Interval
    cells: int
    largest: float
    size: float
    error: float
    slope: float

    def to_dict(self) -> Record:
        """Plain values."""
        known = {
            "cells": self.cells,
            "largest": self.largest,
            "size": self.size,
            "error": self.error,
            "slope": self.slope,
        }
        return {"difference": self.difference.to_dict(), "inside": self.inside.to_dict(), **known}


@dataclass(frozen=True)
class Growth:
    """Proposition 2 under one logging policy.

    slope is the exponent of the error in N_a; shrunk the mean error at the largest size ÷ at the smallest; constant
    the mean of error·sqrt(N_a); left_out of actions were logged too rarely, or never: unlogged is the error of the latter.
    """

    slope: Interval
    shrunk: Interval
    constant: Interval
    left_out: int
    actions: int
    unlogged: Interval | None

    def to_dict(self) -> Record:
        """Plain values."""
        ends = {"slope": self.slope, "shrunk": self.shrunk, "constant": self.constant}
        unlogged = None if self.unlogged is None else self.unlogged.to_dict()
        return {
            **{name: interval.to_dict() for name, interval in ends.items()},
            "left_out": self.left_out,
            "actions": self.actions,
            "unlogged": unlogged,
        }


def at_once(interval: Interval, seeds: int, among: int) -> tuple[float, float]:
    """A 95 % Student interval widened so that `among` of them hold at once (Bonferroni)."""
    if np.isnan(interval.low):
        return -np.inf, np.inf
    wide, narrow = (stats.t.ppf(1 - (1 - LEVEL) / 2 / number, seeds - 1) for number in (among, 1))
    half = (interval.high - interval.value) * float(wide / narrow)
    return interval.value - half, interval.value + half


def proposition_1(setting: Setting, found: Mapping[str, Identity]) -> Verdict:
    """C9 holds under a logging policy if the difference of both sides is within sampling error of 0.

    Pooled over worlds: the interval, widened so that those of all logging policies hold at once, holds 0. World by
    world: not significantly fewer than 95 % of the 95 % intervals do.
    """
    held = []
    for support, identity in found.items():
        low, high = at_once(identity.difference, len(setting.seeds), len(found))
        if low <= 0 <= high and identity.inside.high >= LEVEL:
            held.append(support)
    measured = "; ".join(
        f"{support}: measured − predicted {identity.difference.text()}, predicted bias up to {identity.largest:.3g} in size "
        f"(mean {identity.size:.3g}), slope of measured on predicted {identity.slope:.3g}, own 95 % interval holds 0 in "
        f"{identity.inside.text()} of {identity.cells} cells"
        for support, identity in found.items()
    )
    word = HOLDS if len(held) == len(found) else ONLY_WHEN if held else FAILS
    when = (
        f"within sampling error under {', '.join(held) or 'none'}; {setting.logs} logs of {setting.rows:,} rows for each of "
        f"{len(setting.seeds)} worlds, n^UA = {', '.join(f'{share:g}' for share in setting.unsupported)}"
    )
    says = "the bias of IPS is minus the expected reward on unsupported actions"
    return Verdict("C9", "Proposition 1", says, measured, word, when)


def proposition_2(setting: Setting, found: Mapping[str, Growth]) -> Verdict:
    """C10 holds under a logging policy if the error falls with N_a at a rate within the margin of −1/2."""
    held = []
    for support, growth in found.items():
        low, high = (
            growth.slope.value if np.isnan(end) else end for end in (growth.slope.low, growth.slope.high)
        )
        if high < 0 and low <= RATE + MARGIN and high >= RATE - MARGIN:
            held.append(support)
    measured = "; ".join(
        f"{support}: slope of the error in N_a {growth.slope.text()} (theory {RATE:g}), error at {setting.sizes[-1]:,} rows "
        f"{growth.shrunk.text()} of that at {setting.sizes[0]:,}, error·sqrt(N_a) {growth.constant.text()}"
        for support, growth in found.items()
    )
    word = HOLDS if len(held) == len(found) else ONLY_WHEN if held else FAILS
    when = (
        f"under {', '.join(held) or 'none'}, for actions that are logged; left out as logged too rarely or never: "
        + ", ".join(f"{support} {growth.left_out} of {growth.actions}" for support, growth in found.items())
    )
    unlogged = {support: growth.unlogged for support, growth in found.items() if growth.unlogged is not None}
    if unlogged:
        when += "; error of never-logged actions, however long the log: " + ", ".join(
            f"{support} {interval.text()}" for support, interval in unlogged.items()
        )
    says = "least squares on the log converges to θ* as N_a grows"
    return Verdict("C10", "Proposition 2", says, measured, word, when)
