"""Messages of the HTTP API: decoding and the OpenAPI document are made from these types."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

from sparing.interval import LEVEL

Label = bool | int | float | str  # of an action
Share = Annotated[float, Meta(ge=0, le=1)]
NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
RESERVED = ("experiments",)  # used in paths
Name = Annotated[str, Meta(pattern=f"^{NAME}$")]
# An id of the caller; databases have no text with NUL.
RequestKey = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00]*$")]
Seconds = Annotated[float, Meta(ge=1e-3, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=10**12)]
ContextBytes = Annotated[int, Meta(ge=1, le=2**24)]
# `$` also matches before a line break at the end.
DURATION = r"^[0-9]{1,12}(\.[0-9]{1,12})?[smhdw](?![\s\S])"
HalfLife = Annotated[str, Meta(pattern=DURATION)]
Mode = Literal["live", "shadow", "fallback", "paused"]
MAX_BATCH = 1000


class DecideRequest(Struct, forbid_unknown_fields=True):
    """A context to decide in: raw columns by name, or the numbers of an encoded context."""

    context: dict[str, Any] | list[float]
    eligible: Annotated[list[Label], Meta(min_length=1)] | None = None
    context_id: RequestKey | int | None = None
    subject: RequestKey | None = None
    request_id: RequestKey | None = None
    explain: bool = False  # whether to say what each column contributed to the estimate; not stored
    # known costs of playing the actions in this round, by label; others have those of the experiment
    costs: dict[str, float] | None = None


class WordAnswer(Struct):
    """A word's part of the contribution of its text; the empty word is the rest, less an average text."""

    word: str
    amount: float
    gap: float | None


class ContributionAnswer(Struct):
    """What a raw column contributed to an estimate and to its gap, compared with the average context.

    `interactions` are kernel features, `cost` is the known cost. `words` are the strongest ones of a text and the rest; they sum to it.
    """

    column: str
    kind: str
    value: bool | int | float | str | None
    amount: float
    gap: float | None
    note: str
    words: list[WordAnswer]


class ExplanationAnswer(Struct):
    """Why an action has its estimate: `base` and the amounts sum to `estimate`, `base_gap` and the gaps to `gap`, to rounding.

    The gap is to `against`, the eligible action with the highest estimate of the others. `base` is the estimate in the average context of
    `rows` rows, or with all features 0 if there are none. `model_seq` is the state that is explained.
    """

    action: Label
    against: Label | None
    estimate: float
    gap: float | None
    base: float
    base_gap: float | None
    contributions: list[ContributionAnswer]
    rows: int
    model_seq: int


class Also(Struct, omit_defaults=True):
    """A shadow call: an action to run in the same context and to show to nobody, whose reward is sent to this `decision_id`.

    It may be the served action, whose outcome is then at hand. `worth` is as in the answer.
    """

    decision_id: str
    action: Label
    worth: float | None
    reward_by: str | None = None


class DecideAnswer(Struct, omit_defaults=True):
    """The action to play, whether its reward is needed, why, and with which probabilities.

    From `low` to `high` is the 95 % interval of its mean reward, `value`; for learners with confidence sets, an interval that
    holds with probability 1 − δ. All three are less the known `cost` of the action, which is left out if no costs are known.
    """

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
    explanation: ExplanationAnswer | None = None  # if it was asked for
    cost: float | None = None
    # with `asking: "shadow"`, where a reward is worth buying: run this action too, and show it to nobody
    also: Also | None = None

    @property
    def is_fallback(self) -> bool:
        """Whether it is the client's own fallback: it has no id and takes no reward."""
        return not self.decision_id


class RewardRequest(Struct, forbid_unknown_fields=True):
    """The reward of a decision; `action` is the one played, if the experiment allows another than the decided one.

    Of a partial reward (`aggregate=sum`), the same `reward_id` again is a `duplicate`, so that a client can safely send it again.
    """

    value: float
    action: Label | None = None
    reward_id: RequestKey | None = None


class CorrectRequest(Struct, forbid_unknown_fields=True):
    """The right reward of a decision that has a mistaken one."""

    value: float


class RewardAnswer(Struct):
    """What the service did with a reward."""

    status: Literal["taken", "duplicate", "part", "unasked", "corrected"]
    seq: int


class Rewarded(Struct, forbid_unknown_fields=True):
    """One reward of a batch."""

    decision_id: RequestKey
    value: float
    action: Label | None = None
    reward_id: RequestKey | None = None


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
    """Decisions in the order of the request."""

    items: list[DecideItem]


class RewardItems(Struct):
    """Results of the rewards, in the order of the request."""

    items: list[RewardItem]


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """How an experiment serves; an operator can change it at any time."""

    reward_window: Seconds | None = None  # within which a reward counts
    default_reward: float | None = None  # learnt if no reward arrives within the window
    aggregate: Literal["first", "sum"] = "first"
    learn_unasked: bool = False
    allow_mismatch: bool = False
    holdout: Share = 0.0
    # `logged` (actions by their share of the log), `uniform` or `action:LABEL`
    holdout_policy: str = "logged"
    # Experiments of a store with the same group hold out the same subjects; a new experiment has its own name.
    holdout_group: str | None = None
    check: Share = 0.0
    explore: Share = 0.0
    budget_calls: Count | None = None
    budget_period: Seconds = 30 * 86400.0
    most_open: Count | None = None
    fallback: str = "logged"  # serves in the modes shadow and fallback; as `holdout_policy`
    # of a call, for the dashboard; default: the learner's call_cost
    price: Annotated[float, Meta(ge=0)] | None = None
    unit: Annotated[str, Meta(max_length=16)] = ""
    # whose reward is bought in the mode `live`: of the action that is served, or of one that nobody is served (`also`)
    asking: Literal["serve", "shadow"] = "serve"
    retention: Annotated[float, Meta(gt=0)] | None = None  # seconds until a context is erased
    max_context: ContextBytes = 2**16  # of a context by columns, as JSON; larger ones are refused
    # known cost of playing each action, by label, in units of the reward; in a change, those left out stay
    costs: dict[str, float] | None = None
    # in which every row loses half of its weight: rounds, or a duration such as "7d" or "12h"; None: nothing is forgotten
    half_life: Annotated[int, Meta(ge=20, le=10**12)] | HalfLife | None = None


OptionsPatch: Any = defstruct(
    "OptionsPatch",
    [(each.name, each.type | UnsetType, UNSET) for each in structs.fields(Options)],
    namespace={
        "__doc__": "Options to set. Those that are left out stay; of a new experiment they have their defaults, and `reward_window` is 30 days."
    },
    frozen=True,
    forbid_unknown_fields=True,
)


class LogUpload(Struct, forbid_unknown_fields=True):
    """A log as a file, and how to read it, as `read_log` does."""

    content: str  # the file in base64: Parquet, CSV, Excel, Arrow or another tool's format
    # the ending selects the format
    filename: Annotated[str, Meta(min_length=1, max_length=128)] = "log.parquet"
    columns: dict[str, str | list[str]] = {}  # by role: action, reward, propensity, …
    features: str | dict[str, Any] | None = None
    actions: list[Label] | None = None
    # one row per action: features, and the label in the action column
    items: list[dict[str, Any]] | None = None
    # of a text file; by default inferred from the header (comma, semicolon or tab)
    delimiter: str | None = None
    decimal: str | None = None  # mark of numbers as text that do not show it: "." or ","
    dates: str | None = None  # order of dates that do not show it: "day-first" or "month-first"
    encoding: str | None = None  # of a text file; by default UTF-8, or guessed
    sheet: str | int | None = None  # of a workbook, by name or number from 1


class CreateRequest(Struct, forbid_unknown_fields=True):
    """A new experiment: a learner of the library with its settings, warm-started from a log."""

    name: Name
    log: LogUpload
    learner: str = "economical"
    settings: dict[str, Any] = {}
    options: OptionsPatch = OptionsPatch()


class ImportRequest(Struct, forbid_unknown_fields=True):
    """A log to restart from, optionally with other settings; live rewards so far are learnt again on top of it."""

    log: LogUpload
    settings: dict[str, Any] | None = None


class ImportAnswer(Struct):
    """Rows of the log, live rewards learnt again, and those lost because their contexts were erased."""

    rows: int
    live_rewards: int
    lost_to_erasure: int


class ModeRequest(Struct, forbid_unknown_fields=True):
    """The mode to serve in."""

    mode: Mode


class ActionRequest(Struct, forbid_unknown_fields=True):
    """An action to add (with its item's features, if the learner has items, and its cost, if costs are known), or one to retire."""

    add: Label | None = None
    features: dict[str, Any] | list[float] | None = None
    retire: Label | None = None
    cost: float | None = None


class EraseRequest(Struct, forbid_unknown_fields=True):
    """Whose contexts to erase: exactly one of the three."""

    decision_id: RequestKey | None = None
    context_id: RequestKey | int | None = None
    subject: RequestKey | None = None


class Erased(Struct):
    """How many contexts were erased."""

    erased: int
    replay_floor: int


class About(Struct):
    """The present settings and counts of an experiment; `config_seq` is its ETag."""

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


class Record(Struct, omit_defaults=True):
    """A stored decision and its outcome; the interval of a decision made before release 0.3 is one deviation to each side.

    The probabilities, `value`, `low` and `high` are None once the context is erased.
    """

    decision_id: str
    seq: int
    time: str
    action: Label
    needs_reward: bool
    reason: str
    arm: str
    play_probability: float | None
    call_probability: float | None
    value: float | None
    low: float | None
    high: float | None
    model_seq: int
    request_id: str | None
    context_id: RequestKey | int | None
    reward: float | None
    outcome: str | None  # `reward`, `default`, `expired`, `void`, …; None while there is none
    explanation: ExplanationAnswer | None = None  # by the present state, if it was asked for
    cost: float | None = None  # known cost of the action, which `value`, `low` and `high` have subtracted
    served_id: str | None = None  # of a shadow call: the decision that was served in its context


class QueuedAsk(Struct):
    """A reward that is waited for: judge the outcome of the action in this context, and send the reward to `decision_id`.

    A shadow call has the id of the decision that was served in its context; its own action is shown to nobody.
    """

    decision_id: str
    seq: int
    time: str
    context: dict[str, Any] | list[float]  # raw columns, or the numbers of an encoded context
    context_id: RequestKey | int | None
    action: Label
    worth: float | None
    reason: str
    arm: str
    served_id: str | None
    reward_by: str | None


class AskQueue(Struct):
    """Rewards that are waited for, the oldest first; pass `next` as `after` for more."""

    asks: list[QueuedAsk]
    next: int | None


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
    """A key to exchange for a session cookie."""

    key: RequestKey


class Measured(Struct, frozen=True):
    """An estimate with its 95 % interval, which holds at every look at once, and the number of rewards behind it."""

    value: float
    low: float
    high: float
    rewards: int


class SampleRatio(Struct, frozen=True):
    """Share of the holdout: configured (`asked`), observed (`seen`), and the p-value of the difference."""

    asked: float
    seen: float
    p: float


ASSUMES = (
    "many subjects; subjects, and decisions without one, are independent of each other; "
    "rewards that have not arrived are like those that have"
)


class Headline(Struct, frozen=True):
    """Mean reward per decision, less known costs, of policy and holdout; if it cannot be measured, `why` explains what is missing.

    `interval` names the kind of their intervals, `level` is the share of histories in which they hold, and `assumes` says when.
    """

    why: str | None
    policy: Measured | None
    holdout: Measured | None
    difference: Measured | None
    checks: int
    sample_ratio: SampleRatio | None
    interval: str = "confidence sequence"
    level: float = LEVEL
    assumes: str = ASSUMES


class Reasons(Struct, frozen=True):
    """Decisions of one reason and variant."""

    reason: str
    arm: str
    asked: bool
    decisions: int
    rewarded: int
    mean: float | None


class Spend(Struct, frozen=True):
    """Cost of reward calls. `price` and what depends on it are null if no price is set; the period is that of the budget."""

    calls: int
    price: float | None
    unit: str
    spent: float | None
    not_spent: float | None
    budget_calls: int | None
    period_calls: int
    period_ends: str | None
    runs_out: str | None  # when the budget runs out at the last day's rate; None if it lasts
    open: int
    most_open: int | None


class Hour(Struct, frozen=True):
    """Decisions by reason in one bin of time, from `start` (epoch seconds)."""

    start: int
    decisions: dict[str, int]


class SoFar(Struct, frozen=True):
    """Mean rewards of policy and holdout up to a time; null if not measured."""

    end: int
    policy: Measured | None
    holdout: Measured | None


class Action(Struct, frozen=True):
    """One action: rows in the log, live rewards, decisions, and its estimate in the log's mean context, with an interval of `level`.

    The estimate is less the known `cost` of playing it, null if no costs are known.
    """

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
    cost: float | None = None


class Shift(Struct, frozen=True):
    """Shift between log and live, in units of the prior's deviation between actions; `evidence` is a log Bayes factor against none."""

    size: float
    evidence: float
    estimated: bool


class Look(Struct, frozen=True):
    """A health check: a sentence, and how serious it is."""

    level: Literal["good", "warning", "alarm"]
    text: str


class GapRow(Struct, frozen=True):
    """A segment of contexts: logged rows and live calls of each action, in the order of `Gaps.actions`; `never` marks actions never logged there."""

    where: str
    logged: list[int]
    live: list[int]
    never: list[bool]


class Gaps(Struct, frozen=True):
    """The gap map: actions with most gaps first, at most 16; `left_out` is the number of further ones."""

    actions: list[Label]
    rows: list[GapRow]
    left_out: int


class Recent(Struct, frozen=True):
    """A recent decision."""

    decision_id: str
    time: str
    action: Label
    needs_reward: bool
    reason: str
    arm: str
    reward: float | None
    outcome: str | None


class WorkerState(Struct, frozen=True):
    """The last event that a worker has applied; equal `seq` must mean equal `digest`."""

    worker: str
    seq: int
    digest: str


class Snapshot(Struct, frozen=True):
    """The newest snapshot."""

    seq: int
    time: str


class Health(Struct, frozen=True):
    """Status of the service: `degraded` if any check of the page is an alarm."""

    status: Literal["healthy", "degraded"]
    store: str
    store_bytes: int
    model_seq: int
    digest: str
    workers: list[WorkerState]
    snapshot: Snapshot | None
    last_backup: str | None
    decide_ms: tuple[float, float] | None  # from request to commit: median and 99th percentile
    started: str
    version: str


class Overview(Struct, frozen=True):
    """All data of the dashboard."""

    name: str
    time: str
    mode: str
    asking: str  # `serve`, or `shadow`: rewards are bought by shadow calls
    learner: str
    guarantee: str
    log_rows: int
    decisions: int
    asked: int
    skipped: int
    saved: float | None  # share of decisions without a reward call
    rewarded: int
    expired: int
    reasons: list[Reasons]
    headline: Headline
    spend: Spend
    step: int  # seconds per bin in `hours`
    hours: list[Hour]
    so_far: list[SoFar]
    actions: list[Action]
    level: float | None  # probability of their intervals; None: radius_scale is below 1, so none is proved
    look: list[Look]
    shift: Shift | None  # None if live rewards are taken to be like the log's
    gaps: Gaps | None
    recent: list[Recent]
    health: Health
