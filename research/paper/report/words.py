"""What both pages say of an experiment: its size, settings, data and findings in parts."""

import re

from research.paper.experiment import Record
from research.paper.report.folder import RESULTS

TITLE = "The paper, run again"
READ = (
    "Measured values stand with 95 % intervals over seeds; reward calls are shown with regret, never alone. What the paper leaves "
    "unstated is a setting with a default, listed with each experiment."
)


def parts_of(text: str) -> list[str]:
    """The parts of a finding, each a line of its own."""
    return [part.strip() for part in re.split(r"(?<=[;.]) (?=[^a-z(]|[a-z]+[ :])", text) if part.strip()]


def name_of(verdict: Record) -> str:
    """A claim and where the paper makes it."""
    return f"{verdict['claim']} ({verdict['source']})" if verdict["source"] else verdict["claim"]


def says(verdict: Record) -> str:
    """The claim with its symbols."""
    who = "We say" if verdict["claim"] in ("ours", "mended") else "The paper says"
    return f"{who}: {verdict['says']}."


def provenance(record: Record) -> str:
    """Which code computed this."""
    versions = ", ".join(f"{name} {number}" for name, number in record["libraries"].items())
    return f"Computed by sparing {record['version']} with {versions}. All numbers: {RESULTS}."


def about(result: Record) -> str:
    """How much of an experiment was run."""
    size = (
        "the full setting"
        if result["full"]
        else "not the full setting, so that less may be shown than there is"
    )
    return f"{len(result['seeds'])} seeds, {result['pieces']} pieces of work: {size}."


def settings(result: Record) -> list[tuple[str, str]]:
    """Names and values of a setting."""
    return [(name.replace("_", " "), _value(value)) for name, value in result["setting"].items()]


def _value(value: object) -> str:
    if isinstance(value, list):
        return _span(value) or ", ".join(map(_value, value))
    if isinstance(value, dict):
        return "; ".join(f"{name} {_value(inner)}" for name, inner in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _span(values: list[object]) -> str:
    """Whole numbers that follow one another, by their ends; nothing if they are not that."""
    whole = [value for value in values if type(value) is int]
    if len(values) < 4 or len(whole) < len(values) or whole != list(range(whole[0], whole[-1] + 1)):
        return ""
    return f"{whole[0]} to {whole[-1]}"


def data_files(name: str, result: Record) -> list[str]:
    """The data behind an experiment's figures."""
    return [*(f"{name}/{table}.parquet" for table in result["tables"]), f"{name}/{RESULTS}"]


def counted(result: Record) -> tuple[tuple[str, ...], list[tuple[str, ...]]] | None:
    """The data sets that an experiment counted, as a table; None if it did not."""
    sets = result["numbers"].get("datasets")
    if not sets:
        return None
    header = ("data set", "rows", "classes", "features", "rows a class")
    rows: list[tuple[str, ...]] = [
        (
            name,
            f"{one['rows']:,}",
            str(one["classes"]),
            str(one["features"]),
            f"{one['smallest_class']:,} to {one['largest_class']:,}",
        )
        for name, one in sets.items()
    ]
    return header, rows
