"""Beyond the paper: calls against regret under four logging policies and on eight data sets, outsiders included."""

from research.paper.beyond import comparing
from research.paper.beyond.meeting import run, units
from research.paper.beyond.setting import FULL, QUICK, Setting
from research.paper.experiment import Analysis, Experiment, Pairs, Record


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Means over seeds, paired differences, and what they say in words, losses included."""
    runs = comparing.gather(setting, results)
    differences = comparing.compared(setting, runs)
    versions = sorted({record["version"] for unit, _ in results for record in unit["outside"]})
    numbers = {
        "outside": _outside(setting, ", ".join(versions)) if versions else None,
        "differences": [comparing.plain(row) for row in differences],
        "data": {
            unit["data"]: {key: result[key] for key in ("rounds", "logged", "never")}
            for unit, result in results
            if unit["kind"] == "classes"
        },
        "losses": comparing.losses(setting, differences),
        "notes": comparing.notes(setting, differences, outside=bool(versions)),
    }
    tables = {
        "frontier": comparing.points(runs, "world"),
        "classes": comparing.points(runs, "classes"),
    }
    return Analysis(numbers, tables)


def _outside(setting: Setting, version: str) -> Record:
    """Vowpal Wabbit's version and options."""
    chosen = vars(setting.tuned).items()
    return {"version": version} | {part: [one.options for one in tuned] for part, tuned in chosen}


EXPERIMENT = Experiment(
    name="beyond",
    title="What the paper does not show: calls against regret for every learner, and Vowpal Wabbit",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
