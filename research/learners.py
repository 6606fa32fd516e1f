"""The learners that research compares: how each is made, and how every figure shows it."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparing.errors import UnitWarning
from sparing.learning import learn
from sparing.log import Log
from sparing.online import algorithms
from sparing.online.learner import Learner
from sparing.policies.policy import Policy
from sparing.report import figures

GREY, BLUE, RED, ORANGE, GREEN, PINK, SKY, BLACK = figures.COLOURS
INDIGO = "#332288"
DASHED, DOTTED = (0, (5, 2)), (0, (1, 1.5))

OPTIONAL = ("supported", "clip", "tolerance", "call_cost", "horizon", "calls")
"""Settings that only some learners take."""

RATIO, UNCLIPPED = "percentile-ratio", "inf"
"""M of ε-mOFUL-IPS: P90/P10 of the propensities as in the paper, or none."""

M_NAMES = {RATIO: "M = P90/P10", UNCLIPPED: "M = ∞"}


@dataclass(frozen=True)
class Participant:
    """One learner: its name to read, its colour, marker and line, and what makes it.

    algorithm is its function in `sparing.online.algorithms`, empty where it has none; takes are those of
    OPTIONAL that it needs, fixed the settings that make it what it is. A hollow marker tells a variant apart.
    """

    label: str
    colour: str
    marker: str
    line: Any = "-"
    filled: bool = True
    algorithm: str = ""
    takes: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)


LEARNERS = {
    "opr": Participant("OPR (restriction)", PINK, "v"),
    "opr-dlm": Participant("OPR (DLM)", PINK, "^", DOTTED),
    "moful": Participant("mOFUL", GREY, "o", algorithm="moful"),
    "eps_moful": Participant("ε-mOFUL", BLUE, "s", DASHED, algorithm="eps_moful", takes=("supported",)),
    "eps_moful_ips": Participant(
        "ε-mOFUL-IPS", RED, "D", algorithm="eps_moful_ips", takes=("supported", "clip")
    ),
    "eps_moful_ips_inf": Participant(
        "ε-mOFUL-IPS, M = ∞",
        *(GREEN, "d", "-."),
        algorithm="eps_moful_ips",
        takes=("supported",),
        fixed={"clip": UNCLIPPED},
    ),
    "eps_moful_ips_limit": Participant(
        "ε-mOFUL-IPS, by limits", RED, "d", DOTTED, True, "eps_moful_ips", ("supported",), {"beats": "limit"}
    ),
    "greedy": Participant(
        "greedy ridge", BLACK, "*", DOTTED, algorithm="warm_started", fixed={"center": "zero"}
    ),
    "warm_started": Participant("warm-started", ORANGE, "P", DASHED, algorithm="warm_started"),
    "certified": Participant("certified", SKY, "o", algorithm="certified", takes=("tolerance",)),
    "confident": Participant("confident", INDIGO, "h", "-.", algorithm="confident", takes=("tolerance",)),
    "economical": Participant(
        "economical", GREEN, "o", algorithm="economical", takes=("call_cost", "horizon", "calls")
    ),
    "log_alone": Participant("the log alone", BLACK, "*", DOTTED, filled=False, algorithm="confident"),
    "linucb": Participant("LinUCB, warm", PINK, ">", algorithm="linucb"),
    "squarecb": Participant("VW SquareCB", PINK, "X"),
    "regcb": Participant("VW RegCB", BLUE, "p"),
    "bayesianbandits": Participant("bayesianbandits", GREY, "s"),
    "paretobandit": Participant("ParetoBandit LinUCB", RED, "^"),
}
"""By name, in the order of legends: the paper's (M = P90/P10 where none is named), ours, then others."""

OPR = ("opr", "opr-dlm")
"""Both readings of the paper's offline baseline."""

IPS = ("eps_moful_ips", "eps_moful_ips_inf")
"""ε-mOFUL-IPS with the paper's M, and without a clip."""

LIMIT = "eps_moful_ips_limit"
"""ε-mOFUL-IPS whose `log-beats` compares with a lower confidence limit."""

OFFLINE = ("greedy", *OPR)
"""Learnt from the log alone: no reward calls, no radius."""

SCALED = ("moful", "eps_moful", *IPS, "warm_started", "certified")
"""Their confidence sets have a radius, which radius_scale multiplies."""

ROLES = {"offline": list(OFFLINE), "scaled": list(SCALED), "scale_free": ["confident"]}
"""Who takes part where the paper compares rewards and errors; the last are live learners without a radius."""


def label(name: str) -> str:
    """The name to read."""
    return LEARNERS[name].label


def start(name: str, log: Log | None, **settings: Any) -> Learner:
    """A live learner at its beginning; settings that only others take are left aside."""
    one = LEARNERS[name]
    taken = {key: value for key, value in settings.items() if key not in OPTIONAL or key in one.takes}
    with warnings.catch_warnings():  # tolerances are those of the claim, whatever the rewards' size
        warnings.simplefilter("ignore", UnitWarning)
        learner: Learner = getattr(algorithms, one.algorithm)(log, **taken, **one.fixed)
    return learner


def offline(name: str, log: Log, *, logger: Policy, l2: list[float], folds: int, seed: int) -> Policy:
    """A policy from the log alone; OPR is told by the logger U(x) of contexts that are not logged, too.

    Policy restriction chooses l2 among these, which are in deviations of the reward, by so many folds.
    """
    options: dict[str, Any] = {} if name == "greedy" else {"support": logger}
    if name == "opr":
        options |= {"l2": np.array(l2) * log.rewards.std(), "folds": folds}
    return learn(log, name, seed=seed, **options)
