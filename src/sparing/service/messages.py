"""What is asked and answered over HTTP: one type a message, from which decoding and OpenAPI are made."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

Label = bool | int | float | str
"""An action's label, as JSON can say it."""

Share = Annotated[float, Meta(ge=0, le=1)]
NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
RESERVED = ("experiments",)
"""Names that paths need for themselves."""

Name = Annotated[str, Meta(pattern=f"^{NAME}$")]
RequestKey = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00]*$")]
"""An id of the caller's; databases know no text with a NUL in it."""

Seconds = Annotated[float, Meta(ge=1e-3, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=10**12)]
Mode = Literal["live", "shadow", "fallback", "paused"]
MAX_BATCH = 1000
"""Items in a batch."""


class DecideRequest(Struct, forbid_unknown_fields=True):
    """A context to decide in: raw columns by name, or the numbers of an encoded context."""

    context: dict[str, Any] | list[float]
    eligible: Annotated[list[Label], Meta(min_length=1)] | None = None
    context_id: RequestKey | int | None = None
    subject: RequestKey | None = None
    request_id: RequestKey | None = None


class DecideAnswer(Struct):
    """What to do, whether its reward is wanted, why, and how likely that was."""

    decision_id: str
    action: Label
    needs_reward: bool
    reason: str
    play_probability: float
    call_probability: float
    value: float
    low: float
    high: float
    worth: float | None
    arm: str
    model_seq: int
    reward_by: str | None

    @property
    def is_fallback(self) -> bool:
        """Whether it is the client's own, because the service did not answer in time: it has no id, and its reward goes nowhere."""
        return not self.decision_id


class RewardRequest(Struct, forbid_unknown_fields=True):
    """The reward of a decision; `action` is what was played, where that may be another one."""

    value: float
    action: Label | None = None


class RewardAnswer(Struct):
    """What became of a reward."""

    status: Literal["taken", "duplicate", "part", "unasked"]
    seq: int


class Rewarded(Struct, forbid_unknown_fields=True):
    """One reward of a batch."""

    decision_id: RequestKey
    value: float
    action: Label | None = None


class DecideBatch(Struct, forbid_unknown_fields=True):
    """Contexts to decide in."""

    decisions: Annotated[list[DecideRequest], Meta(min_length=1, max_length=MAX_BATCH)]


class RewardBatch(Struct, forbid_unknown_fields=True):
    """Rewards of many decisions."""

    rewards: Annotated[list[Rewarded], Meta(min_length=1, max_length=MAX_BATCH)]


class DecideItem(Struct, omit_defaults=True):
    """One decision of a batch: its own status, and the answer or the problem."""

    status: int
    answer: DecideAnswer | None = None
    problem: dict[str, Any] | None = None


class RewardItem(Struct, omit_defaults=True):
    """One reward of a batch: its own status, and the answer or the problem."""

    status: int
    answer: RewardAnswer | None = None
    problem: dict[str, Any] | None = None


class DecideItems(Struct):
    """Decisions in the order asked."""

    items: list[DecideItem]


class RewardItems(Struct):
    """What became of rewards, in the order sent."""

    items: list[RewardItem]


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """How an experiment serves: what an operator may change while it runs."""

    reward_window: Seconds | None = None
    """Seconds within which a reward counts."""
    default_reward: float | None = None
    """Learnt where none came within the window; without one nothing is learnt."""
    aggregate: Literal["first", "sum"] = "first"
    learn_unasked: bool = False
    allow_mismatch: bool = False
    holdout: Share = 0.0
    holdout_policy: str = "logged"
    """Who serves the holdout: `logged` (actions by their share of the log), `uniform` or `action:LABEL`."""
    check: Share = 0.0
    explore: Share = 0.0
    budget_calls: Count | None = None
    budget_period: Seconds = 30 * 86400.0
    most_open: Count | None = None
    fallback: str = "logged"
    """Who serves in the modes shadow and fallback, as `holdout_policy`."""
    price: Annotated[float, Meta(ge=0)] | None = None
    """What a reward call costs, for the page; the learner's own call_cost if it is not said."""
    unit: Annotated[str, Meta(max_length=16)] = ""
    retention: Annotated[float, Meta(gt=0)] | None = None
    """Seconds after which a decision's context is erased."""


OptionsPatch: Any = defstruct(
    "OptionsPatch",
    [(each.name, each.type | UnsetType, UNSET) for each in structs.fields(Options)],
    namespace={"__doc__": "Options to change; those that are left out stay."},
    forbid_unknown_fields=True,
)


class LogUpload(Struct, forbid_unknown_fields=True):
    """A log as a file, and how to read it, as `read_log` does."""

    content: str
    """The file in base64: Parquet, CSV, Arrow or a peer's format."""
    filename: Annotated[str, Meta(min_length=1, max_length=128)] = "log.parquet"
    """Its ending tells the format of a table."""
    columns: dict[str, str | list[str]] = {}
    """Which column plays which role: action, reward, propensity, distribution, eligible, context_id, contexts."""
    features: str | dict[str, Any] | None = None
    actions: list[Label] | None = None
    items: list[dict[str, Any]] | None = None
    """A row an action: its features, and its label under the action column's name."""
    delimiter: str | None = None
    """What parts the cells of a text file, if not what its header line tells (comma, semicolon or tab)."""
    decimal: str | None = None
    """"," if its numbers have a decimal comma."""


class CreateRequest(Struct, forbid_unknown_fields=True):
    """A new experiment: a learner of the library with its settings, warm-started from a log."""

    name: Name
    log: LogUpload
    learner: str = "economical"
    settings: dict[str, Any] = {}
    options: Options = Options()


class ImportRequest(Struct, forbid_unknown_fields=True):
    """A log to begin again from, perhaps with other settings of the learner; live rewards so far are learnt on top of it."""

    log: LogUpload
    settings: dict[str, Any] | None = None


class ImportAnswer(Struct):
    """What an import taught: the log's rows, live rewards learnt again, and those whose contexts were erased."""

    rows: int
    live_rewards: int
    lost_to_erasure: int


class ModeRequest(Struct, forbid_unknown_fields=True):
    """How to serve from now on."""

    mode: Mode


class ActionRequest(Struct, forbid_unknown_fields=True):
    """An action to add (with its item's features, where the learner has items) or to retire: one of both."""

    add: Label | None = None
    features: dict[str, Any] | list[float] | None = None
    retire: Label | None = None


class EraseRequest(Struct, forbid_unknown_fields=True):
    """Whose contexts to erase: one of the three."""

    decision_id: RequestKey | None = None
    context_id: RequestKey | int | None = None
    subject: RequestKey | None = None


class Erased(Struct):
    """How many contexts were erased."""

    erased: int
    replay_floor: int


class About(Struct):
    """An experiment as it is now; `config_seq` is its ETag."""

    name: str
    mode: str
    learner: str
    guarantee: str
    actions: list[Label]
    retired: list[Label]
    features: list[str]
    options: Options
    config_seq: int
    model_seq: int
    digest: str
    decisions: int
    calls: int
    open: int


class Record(Struct):
    """One stored decision and what became of it."""

    decision_id: str
    seq: int
    time: str
    action: Label
    needs_reward: bool
    reason: str
    arm: str
    play_probability: float
    call_probability: float
    value: float
    low: float
    high: float
    model_seq: int
    request_id: str | None
    context_id: RequestKey | int | None
    reward: float | None
    outcome: str | None
    """`reward`, `default`, `expired`, `void`, or nothing while it is open or was never asked for."""


class Records(Struct):
    """Stored decisions in order; pass `next` as `after` for more."""

    decisions: list[Record]
    next: int | None


class Listed(Struct):
    """An experiment in a list."""

    name: str
    mode: str


class Experiments(Struct):
    """The experiments of a store."""

    experiments: list[Listed]


class SessionRequest(Struct, forbid_unknown_fields=True):
    """A key to be swapped for a cookie."""

    key: RequestKey


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
