"""Sums by subject of decisions and rewards, from which policy and holdout are compared.

Who serves a decision is drawn by subject, so subjects are what is independent, not decisions; a decision without a subject is one
of its own. Of each subject six sums are kept: n decisions, m rewards and s, their sum, of reward calls (or of the holdout: n1, m1,
s1), and of skipped decisions, where m2 and s2 are of the checks. The comparison needs them only added up over subjects, and their
products, added up: Σ aᵢaᵢᵀ. Both change by what the subject of an event changes, so that no look reads all subjects.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sparing.service import events
from sparing.service.events import DecisionEvent

# Of the policy: called by itself, skipped, and skipped but checked; and the holdout.
CALLED, SKIPPED, CHECKED, HOLDOUT = range(4)
STRATUM_2 = (SKIPPED, CHECKED)
POLICY_ARM, HOLDOUT_ARM = "policy", "holdout"

SUMS = ("n1", "m1", "s1", "n2", "m2", "s2")
SQUARES = ("q1", "q2")  # Σr²
CHECKS = "c2"  # skipped decisions that were checked
PAIRS = np.triu_indices(len(SUMS))
PRODUCTS = tuple(SUMS[j] + SUMS[k] for j, k in zip(*PAIRS, strict=True))
COLUMNS = (*SUMS, *SQUARES, CHECKS, *PRODUCTS)
PLACES = {name: place for place, name in enumerate(COLUMNS)}

# Options that decide which decisions are comparable.
SHARES = ("check", "holdout", "holdout_policy", "holdout_group")


def kind(reason: str, arm: str, asked: bool) -> int:
    """Return what decisions are in the comparison, by their reason, variant and whether there was a reward call; −1 for none."""
    if arm == HOLDOUT_ARM:
        return HOLDOUT if asked else -1
    if arm != POLICY_ARM:
        return -1
    if not asked:
        return SKIPPED
    return CHECKED if reason == events.CHECK else CALLED


class Count(NamedTuple):
    """What one event adds: a decision, its reward, or the reward in the place of a mistaken one (`replaced`).

    `since` is the event after which decisions are compared.
    """

    experiment: int
    since: int
    arm: str
    subject: bytes | None
    seq: int  # of the decision
    kind: int
    reward: float | None
    replaced: float | None


def count(
    decision: DecisionEvent,
    since: int,
    check: float,
    reward: float | None = None,
    replaced: float | None = None,
) -> Count | None:
    """Return what a decision, or its reward, adds; None if it is not compared. Rewards are counted less known costs.

    Decisions made while no call was allowed are left out, in both variants: no check stands for them. They are those without any
    probability of a call, though skipped decisions are checked.
    """
    what = kind(decision.reason, decision.arm, decision.needs_reward)
    if what < 0 or decision.seq <= since or (reward is not None and what == SKIPPED):
        return None
    if decision.call_probability == 0 and (check > 0 or decision.reason == events.BUDGET):
        return None
    cost = decision.cost or 0.0
    return Count(
        decision.experiment,
        since,
        decision.arm,
        decision.subject,
        decision.seq,
        what,
        None if reward is None else reward - cost,
        None if replaced is None else replaced - cost,
    )


SubjectKey = tuple[int, bytes]  # experiment, subject
SubjectSums = tuple[int, int, list[float]]  # since; the last decision; the sums in the order of `SUMS`
ArmKey = tuple[int, int, str]  # experiment, since, variant


def settle(
    counts: Sequence[Count], known: Mapping[SubjectKey, SubjectSums]
) -> tuple[dict[ArmKey, list[float]], dict[SubjectKey, SubjectSums]]:
    """Return what counts add to the sums of each variant, in the order of `COLUMNS`, and the new sums of their subjects.

    `known` has the present sums of subjects; those of another `since` are of no use.
    """
    subjects: dict[SubjectKey, tuple[ArmKey, list[float]]] = {}
    last: dict[SubjectKey, int] = {}
    pairs: dict[ArmKey, list[tuple[list[float], list[float]]]] = {}
    singles: dict[tuple[int, int, str, int], list[float]] = {}
    others: dict[ArmKey, list[float]] = {}
    for one in counts:
        experiment, since, name, subject, _, what, reward, replaced = one
        if subject is None and replaced is None:  # most are: they need no sums of their own
            single = singles.get((experiment, since, name, what))
            if single is None:
                single = singles[experiment, since, name, what] = [0.0] * 4
            if reward is None:
                single[0] += 1
            else:
                single[1] += 1
                single[2] += reward
                single[3] += reward * reward
            continue
        arm = experiment, since, name
        more, part = others.setdefault(arm, [0.0, 0.0, 0.0]), 3 * (what in STRATUM_2)
        own = [0.0] * len(SUMS)  # what was counted of this decision before
        if reward is not None:
            own[part] = 1.0
        if replaced is not None:
            own[part + 1], own[part + 2] = 1.0, replaced
        if subject is None:
            old, new = own, own.copy()
            pairs.setdefault(arm, []).append((old, new))
        else:
            key = experiment, subject
            if key not in subjects:
                valid, last[key], old = known.get(key, (-1, 0, own))
                old = old if valid == since else own
                subjects[key] = arm, old.copy()
                pairs.setdefault(arm, []).append((old, subjects[key][1]))
            new, last[key] = subjects[key][1], max(last[key], one.seq)
        if reward is None:
            new[part] += 1
            more[2] += what == CHECKED
        else:
            before = 0.0 if replaced is None else replaced
            new[part + 1] += replaced is None
            new[part + 2] += reward - before
            more[part // 3] += reward * reward - before * before
    added = {arm: _added(pairs[arm], more) for arm, more in others.items()}
    for (experiment, since, name, what), single in singles.items():
        sums = added.setdefault((experiment, since, name), [0.0] * len(COLUMNS))
        _add_singles(sums, what, *single)
    return added, {key: (arm[1], last[key], new) for key, (arm, new) in subjects.items()}


def _add_singles(
    added: list[float], what: int, decisions: float, rewards: float, total: float, squares: float
) -> None:
    """Add decisions and rewards without subjects to the sums of a variant: (1, 0, 0) each, and (1, 1, r) less (1, 0, 0)."""
    stratum = int(what in STRATUM_2)
    n, m, s = SUMS[3 * stratum : 3 * stratum + 3]
    changes = {n: decisions, m: rewards, s: total, SQUARES[stratum]: squares}
    changes |= {n + n: decisions, n + m: rewards, n + s: total, m + m: rewards, m + s: total, s + s: squares}
    changes |= {CHECKS: decisions} if what == CHECKED else {}
    for name, change in changes.items():
        added[PLACES[name]] += change


def _added(pairs: Sequence[tuple[list[float], list[float]]], more: list[float]) -> list[float]:
    """Return what the sums change by."""
    sums = np.array(pairs)
    old, new = sums[:, 0], sums[:, 1]
    products = (new.T @ new - old.T @ old)[PAIRS]
    return np.concatenate([(new - old).sum(axis=0), more, products]).tolist()


class SumsByHour(NamedTuple):
    """What each hour added to the sums of policy and holdout: hours (n,), sums (n, 2, 30), the policy first."""

    hours: np.ndarray
    added: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[tuple[int, str, Sequence[float]]]) -> "SumsByHour":
        hours = sorted({hour for hour, _, _ in rows})
        place = {hour: i for i, hour in enumerate(hours)}
        added = np.zeros((len(hours), 2, len(COLUMNS)))
        for hour, arm, numbers in rows:
            added[place[hour], int(arm == HOLDOUT_ARM)] += numbers
        return cls(np.array(hours, dtype=np.int64), added)

    def until(self, place: np.ndarray, places: int) -> np.ndarray:
        """Return the sums up to the end of each place, (places, 2, 30), where `place` (n,) has that of each hour."""
        found = np.zeros((places, *self.added.shape[1:]))
        np.add.at(found, np.clip(place, 0, places - 1), self.added)
        return found.cumsum(axis=0)
