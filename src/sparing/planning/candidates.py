"""The learners a plan compares, each started on the log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from numpy.typing import ArrayLike

from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.supported import Supported, elbow, find_elbow, given, top
from sparing.online import algorithms
from sparing.online.learner import Learner

LEARNERS = ("greedy", "confident", "certified", "eps_moful", "warm_started", "moful")
"""What a plan can compare; `greedy` plays the log's ridge estimates and never asks."""


class PlanSettings(TypedDict, total=False):
    """How the planned learners are set, as in their factories.

    `skip_confidence` is the `confidence` of `confident`. `supported` is the set 𝓛 of `eps_moful`; else
    it is `elbow()`, or, where the counts have none, the better logged half of the logged actions.
    """

    noise: float | None
    theta_bound: float | None
    context_bound: float | None
    ridge: float
    delta: float
    radius: str
    radius_scale: float
    reward_range: tuple[float, float] | None
    prior_scale: float | None
    prior_mean: ArrayLike | None
    spot_check: float
    misfit: float
    skip_confidence: float
    supported: Supported


PRIOR = ("prior_scale", "prior_mean")
OWN = (*PRIOR, "spot_check", "misfit", "skip_confidence", "supported")
"""Settings that only some learners take."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A learner at its start, the tolerance it was given, if any, and what else tells it apart."""

    name: str
    tolerance: float | None
    detail: str
    learner: Learner


def believer(log: Log, settings: PlanSettings, tolerance: float = 0.0) -> Learner:
    """The `confident` learner under these settings."""
    known: dict[str, Any] = dict(settings)
    more = {name: known[name] for name in (*PRIOR, "spot_check", "misfit") if name in known}
    if "skip_confidence" in known:
        more["confidence"] = known["skip_confidence"]
    return algorithms.confident(log, tolerance=tolerance, **more, **_common(settings))


def candidates(
    log: Log, names: Sequence[str], tolerances: Sequence[float], settings: PlanSettings
) -> tuple[Candidate, ...]:
    """Start each named learner on the log, those with a tolerance once for each tolerance."""
    common = _common(settings)
    with_tolerance: dict[str, Callable[[float], Learner]] = {
        "confident": lambda tolerance: believer(log, settings, tolerance),
        "certified": lambda tolerance: algorithms.certified(log, tolerance=tolerance, **common),
    }
    without: dict[str, Callable[[], Learner]] = {
        "greedy": lambda: _greedy(log, common),
        "eps_moful": lambda: algorithms.eps_moful(
            log, supported=settings.get("supported") or _supported(log), **common
        ),
        "warm_started": lambda: algorithms.warm_started(log, **common),
        "moful": lambda: algorithms.moful(log, **common),
    }
    found = []
    for name in names:
        if name in with_tolerance:
            found += [Candidate(name, value, "", with_tolerance[name](value)) for value in tolerances]
        else:
            learner = without[name]()
            detail = f"L = {int(learner.sets.frozen.sum())}" if name == "eps_moful" else ""
            found.append(Candidate(name, None, detail, learner))
    for candidate in found:
        # Simulated rewards are normal: a learner that refuses those out of range could not go on.
        candidate.learner.reward_range = None
    return tuple(found)


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Refuse learners that a plan cannot simulate."""
    listed = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    if not listed:
        raise SettingError(f"learners is empty; name some of {', '.join(LEARNERS)}")
    for name in listed:
        if name == "eps_moful_ips":
            raise SettingError(
                "learners has 'eps_moful_ips', which answers contexts that stand in the log; a plan has new "
                "contexts only, where it is eps_moful. Plan with 'eps_moful'"
            )
        if name not in LEARNERS:
            raise SettingError(f"learners has {name!r}; must be some of {', '.join(LEARNERS)}")
    return listed


def check_settings(settings: PlanSettings) -> None:
    """Refuse settings that no learner takes."""
    unknown = sorted(set(settings) - set(PlanSettings.__annotations__))
    if unknown:
        known = ", ".join(PlanSettings.__annotations__)
        raise SettingError(f"unknown setting {unknown[0]!r}; known are {known}")


def _common(settings: PlanSettings) -> Any:
    return {name: value for name, value in settings.items() if name not in OWN}


def _greedy(log: Log, common: Any) -> Learner:
    """Ridge on the log and no call ever: ε-mOFUL that trusts the log for all actions."""
    theta = algorithms.warm_started(log, **common).sets.theta
    return algorithms.eps_moful(
        log, supported=given(dict(zip(log.action_names, theta, strict=True))), **common
    )


def _supported(log: Log) -> Supported:
    if find_elbow(log.counts, log.n_features) is not None:
        return elbow()
    return top(max(1, int((log.counts > 0).sum()) // 2))
