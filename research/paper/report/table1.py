"""Table 1 has no figure: its counts are a table of words in the pages."""

from research.paper.experiment import Analysis
from research.paper.report.plate import Plate
from research.paper.table1 import Setting


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """Nothing."""
    return {}
