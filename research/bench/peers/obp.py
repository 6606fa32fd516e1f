"""Open Bandit Pipeline: LinUCB, and bootstrap intervals of off-policy estimates.

Importing any part of it imports all: neural networks and plots too, which are not measured. Inert modules
stand in for those, as PyTorch for PyPI's Linux is gigabytes. All that is measured is its own code.
"""

import importlib
import sys
import types
from typing import Any

UNUSED = (
    "matplotlib",
    "matplotlib.pyplot",
    "seaborn",
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.optim",
    "torch.utils",
    "torch.utils.data",
)


class _Unused(types.ModuleType):
    """A module whose every name is an empty class: enough for annotations and base classes."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}") or type(name, (), {})


for _name in UNUSED:
    sys.modules[_name] = _Unused(_name)
_obp: Any = importlib.import_module("obp")
VERSION = str(importlib.import_module("obp.version").__version__)


class LinUCB:
    """Its LinUCB; `epsilon` is what others call alpha."""

    def __init__(self, rounds: Any) -> None:
        self.policy = _obp.policy.LinUCB(
            dim=rounds.n_features, n_actions=rounds.n_actions, epsilon=1.0, random_state=0
        )

    def context(self, x: Any) -> Any:
        """As it takes them."""
        return x[None, :]

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        action = int(self.policy.select_action(x)[0])
        self.policy.update_params(action, means[action] + noise, x)


class Bootstrap:
    """IPS, SNIPS and DR with bootstrap intervals; `spec["resamples"]` is B."""

    def __init__(self, worlds: Any, spec: dict[str, Any]) -> None:
        data = worlds.Feedback(spec)
        feedback = {
            "n_rounds": len(data.actions),
            "n_actions": data.n_actions,
            "context": data.contexts,
            "action": data.actions,
            "position": None,
            "reward": data.rewards,
            "pscore": data.propensities,
        }
        ope = _obp.ope
        estimators = [
            ope.InverseProbabilityWeighting(),
            ope.SelfNormalizedInverseProbabilityWeighting(),
            ope.DoublyRobust(),
        ]
        self.evaluation = ope.OffPolicyEvaluation(bandit_feedback=feedback, ope_estimators=estimators)
        self.inputs = {
            "action_dist": data.target[:, :, None],
            "estimated_rewards_by_reg_model": data.estimated[:, :, None],
            "n_bootstrap_samples": int(spec["resamples"]),
            "random_state": 0,
        }

    def run(self, count: int) -> None:
        """All three estimators' intervals."""
        for _ in range(count):
            self.evaluation.estimate_intervals(**self.inputs)


CONTENDERS = {"LinUCB": LinUCB, "bootstrap": Bootstrap}
