"""Beyond the paper: what calls and regret cost in all, under four logging policies, on nine data sets, outsiders included."""

from research.paper.beyond import comparing, data, telling, worlds
from research.paper.beyond.setting import FULL, QUICK, Setting
from research.paper.beyond.units import CLASSES, ROUTING, WORLD, units
from research.paper.experiment import Analysis, Experiment, Pairs, Record


def run(unit: Record) -> Record:
    """Calls, regret and what the kind of place measures beside, for each learner in the piece's order."""
    runs = {CLASSES: data.run_classes, ROUTING: data.run_routing}
    return runs.get(unit["kind"], worlds.run)(unit)


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Means over seeds, totals at each price, paired differences, and what they say in words, losses included."""
    runs = comparing.gather(results)
    found = comparing.differences(setting, runs)
    shared = runs.among("seed", setting.seeds)  # means stand side by side: on seeds that all have
    sharpened = comparing.sharpened(setting, shared)
    numbers = {
        "outside": _versions(results),
        "data": {
            unit["place"]: {key: result[key] for key in ("rounds", "logged", "never")}
            for unit, result in results
            if unit["kind"] in (CLASSES, ROUTING)
        },
        "differences": {name: rows.columns() for name, rows in found.items()},
        "sharpened": sharpened,
        "losses": telling.losses(setting, found),
        "notes": telling.notes(setting, found, sharpened),
    }
    tables = {
        "totals": comparing.totals(comparing.priced(setting, shared)),
        "budgets": comparing.budgets(shared),
        **{kind: comparing.points(shared, kind) for kind in (WORLD, CLASSES, ROUTING)},
    }
    return Analysis(numbers, tables)


def _versions(results: Pairs) -> dict[str, str | None]:
    """The version of each outsider; null where it was not installed."""
    records = (record for unit, _ in results for record in unit["learners"])
    return {record["name"]: record["version"] for record in records if "version" in record}


EXPERIMENT = Experiment(
    name="beyond",
    title="What the paper does not show: what calls and regret cost in all, for every learner and for outsiders",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
