"""Gates: conditions on an audit's numbers, such as `unsupported_share>0.2`, that must not hold."""

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparing.errors import SettingError

OPERATORS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
SHAPE = re.compile(r"\s*([a-z_]+)\s*(>=|<=|==|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


@dataclass(frozen=True)
class Gate:
    """metric OP bound."""

    metric: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> "Gate":
        """Read `metric OP number` with OP one of > >= < <= ==."""
        match = SHAPE.fullmatch(text)
        if match is None:
            raise SettingError(
                f"cannot read the condition {text!r}; expected METRIC OP NUMBER with OP one of "
                f"{' '.join(OPERATORS)}, such as 'unsupported_share>0.2'"
            )
        return cls(match[1], match[2], float(match[3]))

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.bound:g}"

    def verdict(self, metrics: Mapping[str, float | None]) -> str | None:
        """Why the gate is shut, or None where it is open; what is not known never passes."""
        if self.metric not in metrics:
            raise SettingError(f"unknown metric {self.metric!r}; known are {', '.join(metrics)}")
        value = metrics[self.metric]
        if value is None or math.isnan(value):
            return f"{self}: {self.metric} is not known for this log, and what is not known does not pass"
        if OPERATORS[self.sign](value, self.bound):
            return f"{self}: {self.metric} is {value:.6g}"
        return None
