"""How often intervals hold the truth when the log's support is deficient: plain ones, and ours."""

from sparing.experiments.coverage.analysis import Coverage, measure
from sparing.experiments.coverage.setting import CoverageSetting

__all__ = ["Coverage", "CoverageSetting", "measure"]
