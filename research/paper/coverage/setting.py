"""What the coverage experiment runs, as data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CoverageSetting:
    """Seeded linear worlds, one log each, and a policy that plays the best action most of the time.

    The policy is 0.8 on the action that a blurred copy of the true parameters ranks first, plus 0.2
    spread evenly. The reward range given to the intervals is the true range of mean rewards.
    """

    n_actions: int = 6
    n_features: int = 3
    noise: float = 1.0
    rows: int = 1500
    unsupported: float = 1 / 3
    worlds: int = 100
    blur: float = 0.5
    confidence: float = 0.95
    clip: float = 2.0
    methods: tuple[str, ...] = ("dm", "ips", "clipped", "snips", "dr", "sndr", "cab", "mlips", "aipw")
