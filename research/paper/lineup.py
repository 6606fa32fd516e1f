"""Who takes part in the paper's comparisons, and the names they are shown under."""

from research.paper.experiment import Record

SHOWN = {
    "opr": "OPR (restriction)",
    "opr-dlm": "OPR (DLM)",
    "moful": "mOFUL",
    "eps_moful": "ε-mOFUL",
    "eps_moful_ips": "ε-mOFUL-IPS",
    "eps_moful_ips_inf": "ε-mOFUL-IPS, M = ∞",
    "greedy": "greedy ridge",
    "warm_started": "warm-started",
    "certified": "certified",
    "confident": "confident",
}
"""Names to read, in the order of legends: the paper's algorithms (M = P90/P10 where none is named), then others."""

OPR = ("opr", "opr-dlm")
"""Both readings of the paper's offline baseline."""

IPS = ("eps_moful_ips", "eps_moful_ips_inf")
"""ε-mOFUL-IPS with the paper's M, and without a clip."""

OFFLINE = ("greedy", *OPR)
"""Learnt from the log alone: no reward calls, no radius."""

SCALED = ("moful", "eps_moful", *IPS, "warm_started", "certified")
"""Their confidence sets have a radius, which radius_scale multiplies."""

SCALE_FREE = ("confident",)
"""Live learners without a radius."""

ROLES: Record = {"offline": list(OFFLINE), "scaled": list(SCALED), "scale_free": list(SCALE_FREE)}
