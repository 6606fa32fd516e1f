"""What Fig. 4 runs, as data."""

from dataclasses import dataclass, replace

from research.paper.experiment import Record
from research.paper.lineup import OFFLINE, ROLES


@dataclass(frozen=True)
class Setting:
    """Data sets as bandits, the shares n^UA of unsupported actions of their logs, and the learners' settings.

    60 % of a set's rows are logged (the first `rows` of them if given), 25 % are the live part, 15 % are held
    out. A run has `rounds` rounds: of the live part (`fresh`), or of the log's own contexts (`in-log`).
    L = K/2 by the most rows, points fitted to the log; S_x = 1, S_θ estimated from the log. Policy restriction
    takes most of the time: it is run at `opr_unsupported` only, with k of three and l2 among `opr_l2` (in
    deviations of the reward), chosen by `opr_folds` folds.
    """

    seeds: tuple[int, ...] = tuple(range(10))
    datasets: tuple[str, ...] = ("letter", "pendigits", "satimage")
    noisy: tuple[bool, ...] = (False, True)
    streams: tuple[str, ...] = ("in-log", "fresh")
    unsupported: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    radius_scales: tuple[float, ...] = (1.0, 0.2)
    rounds: int = 1200
    rows: int | None = None
    noise: float = 0.5
    ridge: float = 1.0
    delta: float = 0.05
    radius: str = "determinant"
    tolerance: float = 0.1
    opr_unsupported: tuple[float, ...] = (0.0, 0.4, 0.8)
    opr_l2: tuple[float, ...] = (1e-5,)
    opr_folds: int = 2


FULL = Setting()
QUICK = replace(
    FULL,
    seeds=(0, 1, 2),
    unsupported=(0.2, 0.8),
    rounds=400,
    rows=2000,
    opr_unsupported=(0.2, 0.8),
    opr_l2=(1e-4,),
)

SWEPT = ("datasets", "noisy", "unsupported", "seeds", "opr_unsupported")
"""Fields of which a unit has one value each; it runs all streams and radius scales."""


def units(setting: Setting) -> list[Record]:
    """One unit a seed, set, kind of reward and share of unsupported actions."""
    common = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(setting).items()
        if name not in SWEPT
    }
    return [
        {"dataset": dataset, "noisy": noisy, "unsupported": share, "seed": seed, **common, **ROLES}
        | {"offline": [name for name in OFFLINE if name != "opr" or share in setting.opr_unsupported]}
        for seed in setting.seeds
        for dataset in reversed(setting.datasets)  # the smallest set first
        for noisy in setting.noisy
        for share in setting.unsupported
    ]
