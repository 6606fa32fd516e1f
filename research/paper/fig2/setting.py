"""What Fig. 2 is run with, and what else it is tried with."""

from dataclasses import dataclass

from research.paper import calls
from research.paper.calls import MOST_ROWS, RATIO, SAME, UNCLIPPED
from research.paper.experiment import Record
from research.paper.synthetic import Synthetic


@dataclass(frozen=True)
class Setting:
    """n^UA in `unsupported` at one L, at every scale and with every M.

    `chosen` says how 𝓛 comes about: by rows in each log, so that it changes with n^UA by chance; or one 𝓛
    for all of them. `margin`, a share of T, is the difference that counts as none.
    """

    seeds: tuple[int, ...] = tuple(range(20))
    unsupported: tuple[float, ...] = (0.6, 0.4, 0.2)
    supported: int = 4
    clips: tuple[str, ...] = (RATIO, UNCLIPPED)
    chosen: tuple[str, ...] = (MOST_ROWS, SAME)
    features: int = 5
    rounds: int = 3000
    scales: tuple[float, ...] = (1.0, 0.2, 0.1)
    shown_scales: tuple[float, ...] = (1.0, 0.1)
    margin: float = 0.02


FULL = Setting()

QUICK = Setting(seeds=(0, 1, 2, 3), scales=(1.0, 0.1))


def units(setting: Setting) -> list[Record]:
    """A unit is one seed and radius, with every n^UA, M and 𝓛."""
    return [
        calls.unit(
            Synthetic(seed=seed, radius_scale=scale, features=setting.features, rounds=setting.rounds),
            algorithms=("moful", "eps_moful", "eps_moful_ips"),
            supported=(setting.supported,),
            unsupported=setting.unsupported,
            clips=setting.clips,
            chosen=setting.chosen,
        )
        for seed in setting.seeds
        for scale in setting.scales
    ]
