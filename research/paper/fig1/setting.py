"""What Fig. 1 is run with, and what else it is tried with."""

from collections.abc import Iterator
from dataclasses import dataclass

from research.paper import calls
from research.paper.calls import RATIO, UNCLIPPED
from research.paper.experiment import Record
from research.paper.synthetic import Synthetic

EVERY = ("moful", "eps_moful", "eps_moful_ips")


@dataclass(frozen=True)
class Setting:
    """The figure's own cells: `features`, `rounds`, every L of `supported` and every scale of `scales`.

    Around them: other numbers of features at `other_scales` with the smallest and the largest L; other
    numbers of rounds with the largest L; and, because the share of calls that C2 speaks of varies much between
    worlds, `share_repeats` times as many seeds for it at `share_scales`.
    """

    seeds: tuple[int, ...] = tuple(range(20))
    unsupported: float = 0.2
    supported: tuple[int, ...] = (5, 10, 12)
    clips: tuple[str, ...] = (RATIO, UNCLIPPED)
    features: int = 5
    rounds: int = 3000
    scales: tuple[float, ...] = (1.0, 0.5, 0.2, 0.1, 0.05)
    shown_scales: tuple[float, ...] = (1.0, 0.1)
    other_features: tuple[int, ...] = (1, 2, 10)
    other_rounds: tuple[int, ...] = (1000, 10_000)
    other_scales: tuple[float, ...] = (1.0, 0.1)
    share_scales: tuple[float, ...] = (0.15, 0.125, 0.1, 0.09, 0.08)
    share_repeats: int = 10
    share_range: tuple[float, float] = (0.15, 0.25)


FULL = Setting()

QUICK = Setting(
    seeds=(0, 1, 2, 3),
    scales=(1.0, 0.2, 0.1),
    other_features=(2,),
    other_rounds=(1000,),
    other_scales=(1.0, 0.1),
    share_scales=(0.2, 0.1),
    share_repeats=2,
)


def units(setting: Setting) -> list[Record]:
    """A unit is one seed, radius, number of features and number of rounds; the figure's own come first."""
    return list(_units(setting))


def _units(setting: Setting) -> Iterator[Record]:
    shape = {"features": setting.features, "rounds": setting.rounds}
    ends = tuple(dict.fromkeys((setting.supported[0], setting.supported[-1])))
    for seed in setting.seeds:
        for scale in setting.scales:
            yield _unit(setting, seed, scale, shape, EVERY, setting.supported)
    for seed in setting.seeds:
        for scale in setting.other_scales:
            for features in setting.other_features:
                yield _unit(setting, seed, scale, {**shape, "features": features}, EVERY, ends)
            for rounds in setting.other_rounds:
                yield _unit(setting, seed, scale, {**shape, "rounds": rounds}, EVERY[2:], ends[-1:])
    for seed in setting.seeds:
        for scale in setting.share_scales:
            for again in range(setting.share_repeats):
                # The seeds of the figure's own cells have been run with these scales already.
                if again or scale not in setting.scales:
                    more = seed + again * len(setting.seeds)
                    yield _unit(setting, more, scale, shape, EVERY[2:], ends[-1:])


def _unit(
    setting: Setting,
    seed: int,
    scale: float,
    shape: dict[str, int],
    algorithms: tuple[str, ...],
    supported: tuple[int, ...],
) -> Record:
    return calls.unit(
        Synthetic(seed=seed, radius_scale=scale, features=shape["features"], rounds=shape["rounds"]),
        algorithms=algorithms,
        supported=supported,
        unsupported=(setting.unsupported,),
        clips=setting.clips,
    )
