"""What Table 1 says, as data."""

from dataclasses import dataclass

from research.paper.experiment import Record


@dataclass(frozen=True)
class Printed:
    """A column of the paper's table."""

    dataset: str
    classes: int
    rows: int


@dataclass(frozen=True)
class Setting:
    """The columns of the paper's table. Nothing in it is random, so there are no seeds."""

    seeds: tuple[int, ...] = ()
    printed: tuple[Printed, ...] = (
        Printed("letter", classes=26, rows=20_000),
        Printed("pendigits", classes=10, rows=10_992),
        Printed("satimage", classes=6, rows=6_435),
    )


FULL = QUICK = Setting()


def units(setting: Setting) -> list[Record]:
    """One unit a data set."""
    return [{"dataset": column.dataset} for column in setting.printed]
