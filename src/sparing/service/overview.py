"""What the page shows of an experiment: one message, from which it is drawn and which anyone may read."""

from typing import Literal

from msgspec import Struct

from sparing.service.messages import Label


class Measured(Struct, frozen=True):
    """An estimate with its 95 % interval, and from how many rewards."""

    value: float
    low: float
    high: float
    rewards: int


class SampleRatio(Struct, frozen=True):
    """Whether the holdout is as large as was asked for: the share that was asked and seen, and how likely a difference so large is."""

    asked: float
    seen: float
    p: float


class Headline(Struct, frozen=True):
    """Reward a decision of the policy against the holdout's; where it is not measured, `why` says what is missing."""

    why: str | None
    policy: Measured | None
    holdout: Measured | None
    difference: Measured | None
    checks: int
    sample_ratio: SampleRatio | None


class Reasons(Struct, frozen=True):
    """Decisions of one reason and arm."""

    reason: str
    arm: str
    asked: bool
    decisions: int
    rewarded: int
    mean: float | None


class Spend(Struct, frozen=True):
    """What reward calls have cost. `price` and what follows from it are null where nobody said it; a period is a budget's."""

    calls: int
    price: float | None
    unit: str
    spent: float | None
    not_spent: float | None
    budget_calls: int | None
    period_calls: int
    period_ends: str | None
    runs_out: str | None
    """When the period's budget will be used up at the last day's rate; null where it will last."""
    open: int
    most_open: int | None


class Hour(Struct, frozen=True):
    """One step of time (`seconds` long, from `start`, epoch seconds): decisions by reason."""

    start: int
    decisions: dict[str, int]


class SoFar(Struct, frozen=True):
    """Mean reward of all up to a time, of the policy and of the holdout; null where not measured."""

    end: int
    policy: Measured | None
    holdout: Measured | None


class Action(Struct, frozen=True):
    """One action: rows in the log, live rewards, decisions, and its estimate in the log's mean context."""

    label: Label
    logged: int
    live: int
    decisions: int
    share: float
    learnt: Literal["yes", "partly", "never tried"]
    retired: bool
    value: float
    low: float
    high: float


class Look(Struct, frozen=True):
    """A sentence about something that needs a look (`warning`, `alarm`), or that is well (`good`)."""

    level: Literal["good", "warning", "alarm"]
    text: str


class GapRow(Struct, frozen=True):
    """Contexts of one kind: rows of the log and live calls since, an action each, in the order of `Gaps.actions`; `never` marks what the log never tried there."""

    where: str
    logged: list[int]
    live: list[int]
    never: list[bool]


class Gaps(Struct, frozen=True):
    """Where the log is blind: the actions with most gaps first, at most 16; `left_out` says how many more there are."""

    actions: list[Label]
    rows: list[GapRow]
    left_out: int


class Recent(Struct, frozen=True):
    """One of the last decisions."""

    time: str
    action: Label
    needs_reward: bool
    reason: str
    arm: str
    reward: float | None
    outcome: str | None


class WorkerState(Struct, frozen=True):
    """What one worker has applied: equal `seq` means equal `digest`."""

    worker: str
    seq: int
    digest: str


class Snapshot(Struct, frozen=True):
    """The last state on disk, which a replay by another process agreed with."""

    seq: int
    time: str


class Health(Struct, frozen=True):
    """Whether all is well, and the numbers behind it."""

    status: Literal["healthy", "degraded"]
    store: str
    store_bytes: int
    model_seq: int
    digest: str
    workers: list[WorkerState]
    snapshot: Snapshot | None
    last_backup: str | None
    decide_ms: tuple[float, float] | None
    """Median and 99th percentile of the last decisions here, from the request to its commit."""
    started: str
    version: str


class Overview(Struct, frozen=True):
    """Everything that the page shows."""

    name: str
    time: str
    mode: str
    learner: str
    guarantee: str
    log_rows: int
    decisions: int
    asked: int
    skipped: int
    saved: float | None
    """Share of decisions that were answered without a reward call; null before the first."""
    rewarded: int
    expired: int
    reasons: list[Reasons]
    headline: Headline
    spend: Spend
    step: int
    """Seconds of a step in `hours`."""
    hours: list[Hour]
    so_far: list[SoFar]
    actions: list[Action]
    look: list[Look]
    gaps: Gaps | None
    recent: list[Recent]
    health: Health
