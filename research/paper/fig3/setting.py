"""What Fig. 3 runs, as data."""

from dataclasses import asdict, dataclass, replace

from research.paper.experiment import Record
from research.paper.lineup import OFFLINE, ROLES
from research.paper.synthetic import Synthetic

CHEAP = tuple(method for method in OFFLINE if method != "opr")
"""Offline methods that take a tenth of a second: policy restriction takes seconds."""

MAIN = "main"
VARIANTS: dict[str, Record] = {
    "d = 1": {"features": 1},
    "d = 2": {"features": 2},
    "d = 10": {"features": 10},
    "never-logged": {"support": "never-logged"},
}
"""Other settings in which the comparison is made, without policy restriction."""


PAPER = Synthetic(supported=10)


@dataclass(frozen=True)
class Setting:
    """A budget of reward calls, and the shares n^UA of unsupported actions over which it is spent.

    The rounds end when the budget is used up, or after `longest` of them. The final policies are scored by
    their expected reward over `evaluation` fresh contexts. Each of `variants` is run at `variant_unsupported`.
    Policy restriction chooses k of three and l2 among `opr_l2` (in deviations of the reward) by `opr_folds` folds.
    """

    seeds: tuple[int, ...] = tuple(range(20))
    unsupported: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    radius_scales: tuple[float, ...] = (1.0, 0.2)
    budget: int = 300
    longest: int = 30_000
    evaluation: int = 10_000
    opr_l2: tuple[float, ...] = (1e-4, 1e-3)
    opr_folds: int = 3
    variants: tuple[str, ...] = tuple(VARIANTS)
    variant_unsupported: tuple[float, ...] = (0.2,)
    synthetic: Synthetic = PAPER


FULL = Setting()
QUICK = replace(
    FULL,
    seeds=tuple(range(6)),
    unsupported=(0.0, 0.2, 0.8),
    longest=6_000,
    opr_l2=(1e-4,),
    opr_folds=2,
    variants=(),
)


def units(setting: Setting) -> list[Record]:
    """One unit a seed, variant and share of unsupported actions: all algorithms at all radius scales."""
    cells = [(MAIN, share) for share in setting.unsupported]
    cells += [(variant, share) for variant in setting.variants for share in setting.variant_unsupported]
    return [_unit(setting, variant, share, seed) for seed in setting.seeds for variant, share in cells]


def _unit(setting: Setting, variant: str, share: float, seed: int) -> Record:
    changes: Record = VARIANTS.get(variant, {})
    world = replace(setting.synthetic, unsupported=share, seed=seed, **changes)
    return {
        "variant": variant,
        "synthetic": asdict(world),
        "radius_scales": list(setting.radius_scales),
        "budget": setting.budget,
        "longest": setting.longest,
        "evaluation": setting.evaluation,
        "opr_l2": list(setting.opr_l2),
        "opr_folds": setting.opr_folds,
        **ROLES,
        "offline": list(OFFLINE if variant == MAIN else CHEAP),
    }
