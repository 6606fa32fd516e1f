"""How often intervals hold the truth when the log's support is deficient: plain ones, and ours."""

from research.paper.coverage.analysis import Coverage, measure
from research.paper.coverage.setting import CoverageSetting

__all__ = ["Coverage", "CoverageSetting", "measure"]
