"""The experiments by name; each is imported when it is asked for."""

import importlib
from collections.abc import Sequence

from research.paper.experiment import Experiment
from sparing.errors import SettingError

NAMES = ("fig1", "fig2", "fig3", "fig4", "table1", "theorems", "propositions", "beyond")
"""In the order in which they run and are shown."""

CLAIMS = {
    "C1": "fig1",
    "C2": "fig1",
    "C3": "fig2",
    "C4": "fig3",
    "C5": "fig4",
    "C6": "theorems",
    "C7": "theorems",
    "C8": "theorems",
    "C9": "propositions",
    "C10": "propositions",
}
"""The paper's claims, and the experiment that judges each."""


def load(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in NAMES:
        raise SettingError(
            f"no experiment is called {name!r}; there are {', '.join(NAMES)}, and all of them: all"
        )
    experiment: Experiment = importlib.import_module(f"research.paper.{name}").EXPERIMENT
    return experiment


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments named, `all` meaning every one, each once and in the order of `NAMES`."""
    wanted = (set(names) - {"all"}) | (set(NAMES) if "all" in names else set())
    loaded = {name: load(name) for name in sorted(wanted)}
    return [loaded[name] for name in NAMES if name in loaded]
