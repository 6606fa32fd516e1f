"""What the propositions are tried on, as data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """The paper's synthetic world under all four logging policies.

    Proposition 1: `logs` independent logs of `rows` rows for each world, logging policy and share n^UA; the
    policy evaluated is 0.8 on the action that θ* blurred by `blur` ranks first, and 0.2 spread evenly.
    Proposition 2: one growing log for each world and logging policy, read at `sizes` rows, with the share
    `growing_unsupported` of unsupported actions.
    """

    seeds: tuple[int, ...]
    logs: int = 50
    rows: int = 1000
    unsupported: tuple[float, ...] = (0.0, 0.2, 0.5, 0.8)
    supports: tuple[str, ...] = ("per-context", "never-logged", "region", "sharpened")
    blur: float = 0.5
    sizes: tuple[int, ...] = (2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000)
    growing_unsupported: float = 0.2
    actions: int = 20
    features: int = 5
    noise: float = 2.0


QUICK = Setting(seeds=tuple(range(4)), logs=20, unsupported=(0.0, 0.5), sizes=(2000, 4000, 8000, 16_000))
FULL = Setting(seeds=tuple(range(20)))
