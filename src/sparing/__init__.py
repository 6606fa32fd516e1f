"""Learn the best action for each context from a log that never tried everything.

And ask the live world for a reward only where the log is blind. Names load on first use, so that
`import sparing` is quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sparing import errors as errors
    from sparing import simulation as simulation
    from sparing.auditing import Audit as Audit
    from sparing.auditing import audit as audit
    from sparing.auditing import estimate_support as estimate_support
    from sparing.auditing.supported import certified_within as certified_within
    from sparing.auditing.supported import elbow as elbow
    from sparing.auditing.supported import given as given
    from sparing.auditing.supported import top as top
    from sparing.log import Log as Log
    from sparing.log import Support as Support
    from sparing.log import read_log as read_log
    from sparing.log import write_log as write_log
    from sparing.offline.evaluation import Estimate as Estimate
    from sparing.offline.evaluation import Evaluation as Evaluation
    from sparing.offline.evaluation.evaluate import evaluate as evaluate
    from sparing.offline.learning import learn as learn
    from sparing.offline.learning import load_policy as load_policy
    from sparing.offline.learning import save_policy as save_policy
    from sparing.offline.pi_plus import pi_plus as pi_plus
    from sparing.offline.statistics import Statistics as Statistics
    from sparing.offline.statistics import Summary as Summary
    from sparing.offline.streaming import summarise as summarise
    from sparing.online.algorithms import certified as certified
    from sparing.online.algorithms import confident as confident
    from sparing.online.algorithms import eps_moful as eps_moful
    from sparing.online.algorithms import eps_moful_ips as eps_moful_ips
    from sparing.online.algorithms import lints as lints
    from sparing.online.algorithms import linucb as linucb
    from sparing.online.algorithms import moful as moful
    from sparing.online.algorithms import warm_started as warm_started
    from sparing.online.decision import Decision as Decision
    from sparing.online.learner import Learner as Learner
    from sparing.online.saving import load as load
    from sparing.simulation import datasets as datasets
    from sparing.simulation.loop import simulate as simulate
    from sparing.simulation.planning import plan as plan
    from sparing.simulation.planning_result import Plan as Plan
    from sparing.simulation.trace import Trace as Trace

_HOMES = {
    "Audit": "auditing",
    "Decision": "online.decision",
    "Estimate": "offline.evaluation",
    "Evaluation": "offline.evaluation",
    "Learner": "online.learner",
    "Log": "log",
    "Plan": "simulation.planning_result",
    "Statistics": "offline.statistics",
    "Summary": "offline.statistics",
    "Support": "log",
    "Trace": "simulation.trace",
    "audit": "auditing",
    "certified": "online.algorithms",
    "certified_within": "auditing.supported",
    "confident": "online.algorithms",
    "elbow": "auditing.supported",
    "eps_moful": "online.algorithms",
    "eps_moful_ips": "online.algorithms",
    "estimate_support": "auditing",
    "evaluate": "offline.evaluation",
    "given": "auditing.supported",
    "learn": "offline.learning",
    "lints": "online.algorithms",
    "linucb": "online.algorithms",
    "load": "online.saving",
    "load_policy": "offline.learning",
    "moful": "online.algorithms",
    "pi_plus": "offline.pi_plus",
    "plan": "simulation.planning",
    "read_log": "log",
    "save_policy": "offline.learning",
    "simulate": "simulation.loop",
    "summarise": "offline.streaming",
    "top": "auditing.supported",
    "warm_started": "online.algorithms",
    "write_log": "log",
}
_MODULES = {"datasets": "simulation.datasets", "errors": "errors", "simulation": "simulation"}

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(f"sparing.{_MODULES[name]}")
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"sparing.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'sparing' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
