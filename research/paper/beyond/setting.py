"""What the comparison beyond the paper runs, as data."""

from dataclasses import dataclass

from research.paper.beyond.vowpal import TUNED, Chosen

DATA = ("letter", "pendigits", "satimage", "optdigits", "texture", "segment", "vowel", "vehicle")
"""The paper's three sets, and the next five of the same source; of each at least 500 rows are logged."""


@dataclass(frozen=True)
class Size:
    """A synthetic world's features d and logged rows n, and whether Vowpal Wabbit plays in it too."""

    features: int
    rows: int
    outside: bool


@dataclass(frozen=True)
class Setting:
    """Synthetic worlds under four logging policies, and data sets some of whose classes are never logged.

    supported is L, the number of actions whose points ε-mOFUL trusts; the tuples named after learners are their
    tolerances; `guaranteed` is `certified` at radius_scale 1, where its promise holds. Data sets use the
    first `class_seeds` seeds.
    """

    seeds: tuple[int, ...]
    sizes: tuple[Size, ...] = (Size(10, 30_000, outside=True), Size(5, 3_000, outside=False))
    supports: tuple[str, ...] = ("per-context", "never-logged", "region", "sharpened")
    unsupported: float = 0.2
    rounds: int = 3000
    supported: int = 10
    radius_scale: float = 0.2
    certified: tuple[float, ...] = (0.1, 0.3, 0.5, 1.0)
    guaranteed: tuple[float, ...] = (2.0, 4.0)
    confident: tuple[float, ...] = (0.1, 0.3, 0.5, 1.0)
    compared: float = 0.3
    held_out: int = 2000
    data: tuple[str, ...] = DATA
    class_seeds: int = 10
    class_unsupported: float = 1 / 3
    class_rounds: int | None = None
    class_ridge: float = 0.1
    class_certified: tuple[float, ...] = (0.1, 0.2, 0.4)
    class_confident: tuple[float, ...] = (0.05, 0.1, 0.2)
    class_compared: float = 0.1
    tuned: Chosen = TUNED


FULL = Setting(seeds=tuple(range(20)))
QUICK = Setting(
    seeds=(0, 1, 2),
    sizes=(Size(5, 3_000, outside=True),),
    rounds=1000,
    certified=(0.3, 1.0),
    guaranteed=(2.0,),
    confident=(0.3, 1.0),
    data=("segment", "vowel"),
    class_seeds=2,
    class_certified=(0.1, 0.4),
    class_confident=(0.05, 0.1),
)
