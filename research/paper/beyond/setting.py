"""What the comparison beyond the paper runs, as data."""

from dataclasses import dataclass

from research.paper.beyond.vowpal import TUNED, Chosen

DATA = ("letter", "pendigits", "satimage", "optdigits", "texture", "segment", "vowel", "vehicle")
"""The paper's three sets, and the next five of the same source; of each at least 500 rows are logged."""


@dataclass(frozen=True)
class Size:
    """A synthetic world's actions K, features d and logged rows n."""

    actions: int
    features: int
    rows: int

    @property
    def name(self) -> str:
        """What tells it from other sizes."""
        return f"d = {self.features}"

    @property
    def text(self) -> str:
        """The size in words."""
        return f"K = {self.actions}, d = {self.features}, {self.rows:,} logged rows"


@dataclass(frozen=True)
class Variant:
    """How a world differs from what learners are told, and under which logging policies it is tried.

    The horizon and the noise that are given are so many times the true ones; never-logged actions earn `shift` more
    than they should, in deviations of the actions' mean rewards; rewards come `delay` rounds late.
    """

    name: str
    supports: tuple[str, ...] = ("never-logged", "sharpened")
    horizon: float = 1.0
    noise: float = 1.0
    shift: float = 0.0
    delay: int = 0


PLAIN = Variant("as told")
UNTRIED, SHIFT = ("never-logged",), 2.0
VARIANTS = (
    PLAIN,
    Variant("horizon × 10", horizon=10.0),
    Variant("horizon ÷ 10", horizon=0.1),
    Variant("noise ÷ 2", noise=0.5),
    Variant("untried better", UNTRIED, shift=SHIFT),
    Variant("untried worse", UNTRIED, shift=-SHIFT),
    Variant("200 rounds late", delay=200),
    Variant("1,000 rounds late", delay=1000),
)


@dataclass(frozen=True)
class Setting:
    """Synthetic worlds under four logging policies, data sets some of whose classes are never logged, and prompts
    routed to three language models of which one is never logged.

    prices are those of a call, in deviations of the noise (where there is none: of the logged rewards); the tuples named
    after learners are their tolerances in rewards. Budgets, variants and outsiders have the first size. Outsiders have the
    first so many seeds: they take seconds a run, as a budget does, whose price must be found. On `further` seeds economical
    meets the log alone in synthetic worlds, nobody else: trying what was never logged costs a little nearly always and gains much
    at times, so that a few worlds may hold none of the gain and seem sure of the loss.
    """

    seeds: tuple[int, ...]
    further: tuple[int, ...] = ()
    prices: tuple[float, ...] = (0.01, 0.05, 0.2, 1.0)
    sizes: tuple[Size, ...] = (Size(20, 10, 30_000), Size(20, 5, 3_000), Size(50, 20, 30_000))
    supports: tuple[str, ...] = ("per-context", "never-logged", "region", "sharpened")
    unsupported: float = 0.2
    rounds: int = 3000
    radius_scale: float = 0.2
    certified: tuple[float, ...] = (0.3, 1.0)
    confident: tuple[float, ...] = (0.1, 0.3, 1.0)
    budgets: tuple[int, ...] = (100, 300, 1000)
    budget_supports: tuple[str, ...] = ("never-logged", "sharpened")
    cut: float = 0.3
    variants: tuple[Variant, ...] = VARIANTS
    variant_price: float = 0.05
    data: tuple[str, ...] = DATA
    class_unsupported: float = 1 / 3
    class_rounds: int | None = None
    class_ridge: float = 0.1
    class_certified: tuple[float, ...] = (0.1, 0.4)
    class_confident: tuple[float, ...] = (0.05, 0.2)
    weights: tuple[float, ...] = (0.0, 3.0, 8.0, 15.0)
    hidden: tuple[int, ...] = (0, 1, 2)
    routed_certified: tuple[float, ...] = (0.03, 0.1)
    routed_confident: tuple[float, ...] = (0.01, 0.03, 0.1)
    outside_seeds: int = 6
    bayesian_seeds: int = 3
    tuned: Chosen = TUNED


FULL = Setting(seeds=tuple(range(100, 120)), further=tuple(range(2000, 2200)))
QUICK = Setting(
    seeds=(100, 101, 102),
    further=(2000, 2001),
    sizes=(Size(20, 5, 3_000),),
    rounds=1000,
    budgets=(30, 100),
    data=("segment", "vowel"),
    weights=(3.0,),
    outside_seeds=1,
    bayesian_seeds=1,
)
