"""What the theorems are tried on, as data."""

from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Cell:
    """One choice of d, radius, radius_scale and T; the log has T rows."""

    features: int = 5
    radius: str = "determinant"
    radius_scale: float = 1.0
    rounds: int = 3000

    @property
    def guaranteed(self) -> bool:
        """Whether the bounds are proved: radius_scale of 1 or more, and d ≥ 2 for the paper's radius."""
        return self.radius_scale >= 1 and (self.radius != "paper" or self.features >= 2)

    @property
    def label(self) -> str:
        """The cell in a few words."""
        return f"d={self.features}, {self.radius} × {self.radius_scale:g}, T={self.rounds:,}"


@dataclass(frozen=True)
class Setting:
    """The paper's synthetic world, run by every algorithm in every cell.

    `noises` are the σ at which the rule `log-beats` is tried by a learner that knows every θ*, on logs of
    `knowing_rows` rows. `given_rounds` is T of the runs in which 𝓛 is all actions, `contrary_rounds` is T of the world that is built against Theorem 2 as printed.
    """

    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    actions: int = 20
    noise: float = 2.0
    epsilon: float = 0.05
    ridge: float = 1.0
    delta: float = 0.05
    supported: int = 10
    unsupported: float = 0.2
    support: str = "per-context"
    tolerance: float = 0.3
    noises: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)
    knowing_rows: int = 20_000
    given_rounds: int = 3000
    contrary_rounds: int = 10_000

    @property
    def main(self) -> Cell:
        """The cell shown at length: the default radius at scale 1, d = 5, with the most rounds."""
        return max(
            (cell for cell in self.cells if cell.features == 5 and cell.radius == "determinant"),
            key=lambda cell: (cell.radius_scale >= 1, cell.rounds),
        )

    @property
    def alike(self) -> list[Cell]:
        """The main cell and the cells that differ from it in radius_scale alone."""
        main = self.main
        return [
            cell
            for cell in self.cells
            if (cell.features, cell.radius, cell.rounds) == (main.features, main.radius, main.rounds)
        ]


_RADII = ("determinant", "trace", "paper")

QUICK = Setting(
    seeds=tuple(range(4)),
    cells=(
        Cell(),
        Cell(radius_scale=0.2),
        Cell(features=2, radius="trace", rounds=1000),
        Cell(features=10, radius="paper", rounds=1000),
    ),
    knowing_rows=5000,
)

FULL = Setting(
    seeds=tuple(range(20)),
    cells=tuple(
        Cell(d, radius, scale, rounds)
        for scale, d, radius in product((1.0, 0.2), (2, 5, 10), _RADII)
        for rounds in ((3000, 10_000) if (d, radius) == (5, "determinant") else (3000,))
    ),
)
