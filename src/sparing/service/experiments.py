"""Create an experiment from a log, restart one from another log, rebase it on another engine."""

import asyncio
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from sparing.errors import LogError, SettingError, SparingError
from sparing.log.costs import action_costs
from sparing.log.labels import label_text, shorten
from sparing.log.log import Log
from sparing.model import confidence
from sparing.online import algorithms, drift
from sparing.online.decision import as_reward
from sparing.online.learner import Learner
from sparing.online.log_beats import LogBeats
from sparing.online.warm_up import LEARNERS
from sparing.service import events, experiment, state_files
from sparing.service import store as stores
from sparing.service.errors import ServiceError, conflict, unprocessable
from sparing.service.experiment import ExperimentState
from sparing.service.gap_map import describe_log
from sparing.service.messages import NAME, RESERVED, ImportAnswer, Options
from sparing.service.registry import Experiment, save_base
from sparing.service.store import Store
from sparing.service.store.driver import LostError
from sparing.service.transactions import TransactionHandler
from sparing.service.writer import Writer
from sparing.validation import check_rewards_inside

CHOICES = {"top": confidence.most_logged, "certified_within": confidence.certified_within}

# Reads the log with these actions in this order, or with those that occur.
LogReader = Callable[[Sequence[Hashable] | None], Log]

REWARDS = (
    "select o.seq, d.seq, d.decision_id, o.value, coalesce(o.played, d.action), d.context from outcomes o join decisions d on d.seq = o.decision_seq "
    "where o.experiment = $1 and o.seq > $2 and o.seq <= $3 and o.kind in ('reward', 'default', 'learnt') order by o.seq limit $4"
)
CHUNK = 2000
SHOWN = 20  # decisions listed in a refusal
LONGEST_RETENTION = 3.2e9  # seconds
REWARD_WINDOW = 30 * 86400.0  # seconds, of a new experiment that does not set it
SHORTEST_HALF_LIFE = 60 * events.SECOND
# Events that may be replayed under the lock, and attempts to get below that before taking it.
SHORT, PASSES = 2000, 5


def make_learner(name: str, log: Log, settings: Mapping[str, Any]) -> Learner:
    """Return a warmed-up learner of the library from a log and JSON settings.

    `supported`, for learners that take it, is "elbow", {"top": L} or {"certified_within": ε}.
    """
    if name not in LEARNERS:
        raise SettingError(f"learner={name!r}; must be one of {', '.join(LEARNERS)}")
    given = dict(settings)
    try:
        if "supported" in given:
            given["supported"] = _supported(given["supported"])
        learner: Learner = getattr(algorithms, name)(log, **given)
    except SparingError:
        raise
    except (TypeError, ValueError, OverflowError) as error:  # a setting of the wrong type
        raise SettingError(f"learner {name}: {error}") from None
    learner.warm_up()
    return learner


def _supported(said: Any) -> Any:
    if said == "elbow":
        return confidence.elbow()
    if isinstance(said, dict) and len(said) == 1 and next(iter(said)) in CHOICES:
        ((how, value),) = said.items()
        return CHOICES[how](value)
    raise SettingError(f'supported={said!r}; must be "elbow", {{"top": 10}} or {{"certified_within": 0.1}}')


def check_name(name: str) -> None:
    if not re.fullmatch(NAME, name) or name in RESERVED:
        raise SettingError(
            f"name={name!r}; must be 1 to 63 ASCII letters, digits, `_`, `.` and `-`, begin with a letter or digit, and not be {', '.join(RESERVED)}"
        )


def check_options(options: Options, learner: Learner) -> None:
    for name in ("holdout_policy", "fallback"):
        try:
            experiment.action_number(getattr(options, name), learner.action_names)
        except SettingError as error:
            raise SettingError(f"{name}={error}") from None
    if options.costs is not None:
        action_costs(options.costs, learner.action_names)
        if any(isinstance(rule, LogBeats) for rule in learner.rules):
            raise SettingError(
                "costs with eps_moful_ips: it compares with logged rewards of several actions. Use another learner"
            )
    if options.asking == "shadow" and options.explore:
        raise SettingError(
            f"asking='shadow' with explore={options.explore:g}; must be 0, since in the shadow nobody is served an experiment. Set explore=0, or "
            "asking='serve'"
        )
    if options.half_life is not None:
        drift.check_forgets(learner)
        clock, timed = experiment.half_life_clock(options.half_life)
        if timed and not SHORTEST_HALF_LIFE <= clock <= LONGEST_RETENTION * events.SECOND:
            raise SettingError(
                f"half_life={options.half_life!r}; a duration must be from 1m to a century, such as 7d. A whole number counts decisions"
            )
    if options.aggregate == "sum" and options.reward_window is None:
        raise SettingError("aggregate='sum' needs reward_window: rewards are summed until the window closes")
    if options.default_reward is not None and options.reward_window is None:
        raise SettingError("default_reward needs reward_window: it is learnt when the window closes")
    if options.default_reward is not None:
        as_reward(options.default_reward, learner.reward_range)
    if options.retention is not None and options.retention > LONGEST_RETENTION:
        raise SettingError(
            f"retention={options.retention:g} seconds; must be at most {LONGEST_RETENTION:g}, a century. Leave it out to keep contexts"
        )
    if options.retention is not None and options.retention < (options.reward_window or 0.0):
        raise SettingError(
            f"retention={options.retention:g} is shorter than reward_window={options.reward_window:g}; must be as long, or contexts are "
            "erased before their rewards arrive. Set both"
        )


def given_options(given: Any) -> dict[str, Any]:
    """Return the options that an `OptionsPatch` sets."""
    return {
        name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET
    }


def new_options(given: Any) -> Options:
    """Return the options of a new experiment from an `OptionsPatch`: calls without a reward do not stay pending for ever.

    A sum of rewards and a default reward need a window of their own, because they are learnt when it closes.
    """
    options = Options(**given_options(given))
    if (
        given.reward_window is not msgspec.UNSET
        or options.aggregate == "sum"
        or options.default_reward is not None
    ):
        return options
    return msgspec.structs.replace(
        options, reward_window=min(REWARD_WINDOW, options.retention or REWARD_WINDOW)
    )


def with_settings(options: Options, learner: Learner) -> Options:
    """Return the options with the learner's known costs of the actions that they do not price, and its half-life if they have none."""
    known = {label_text(name): cost for name, cost in (learner.costs or {}).items()}
    return msgspec.structs.replace(
        options,
        costs={**known, **(options.costs or {})} or None,
        half_life=learner.half_life if options.half_life is None else options.half_life,
    )


async def create(
    writer: Writer,
    name: str,
    log: Log,
    learner: Learner,
    options: Options,
    config: Mapping[str, Any],
    *,
    who: str,
) -> Experiment:
    """Store a new experiment that starts from a learner; `config` records how the learner was made."""
    options = with_settings(options, learner)
    check_options(options, learner)
    if options.holdout_group is None:
        options = msgspec.structs.replace(options, holdout_group=name)
    store, registry = writer.store, writer.registry
    began = {"options": msgspec.to_builtins(options), "about": await asyncio.to_thread(describe_log, log)}
    recorded = {**config, **began}

    async def operation(transaction: TransactionHandler) -> Experiment:
        if any(known.name == name for known in registry):
            raise conflict("exists", f"the experiment {name!r} already exists. Choose another name", "name")
        number = await store.add_experiment(name, msgspec.json.encode(recorded).decode())
        model = ExperimentState(number, learner, options, store.salt)
        experiment = Experiment(number, name, recorded, 0, model)
        transaction.change(experiment, events.BASE, save_base(store.folder, model), who)
        registry.add(experiment)
        return experiment

    return await writer.exclusive(operation)


class Relearning:
    """A learner from a new log, with the live rewards up to an event learnt again; `values` are corrected ones, by decision."""

    def __init__(self, learner: Learner, experiment: int, values: dict[int, float] | None = None) -> None:
        self.learner, self.experiment, self.values = learner, experiment, values
        self.seq = self.learnt = self.lost = 0
        self.refused: list[str] = []

    async def go_on(self, store: Store, upto: int) -> None:
        """Learn the rewards up to an event in order, and collect those that the learner refuses."""
        after = self.seq
        values = await store.corrections(self.experiment, upto) if self.values is None else self.values
        while rows := await store.driver.read(REWARDS, self.experiment, after, upto, CHUNK):
            for seq, decision, decision_id, value, action, context in rows:
                right: Any = values.get(decision, value)
                self._learn(decision_id, right, action, context)
                after = seq
        self.seq = upto

    def _learn(self, decision_id: bytes, value: float, action: int, context: bytes | None) -> None:
        if context is None:
            self.lost += 1
            return
        try:
            x = self.learner.context(events.unpack_context(context))
            self.learner.observe(self.learner.open_call(action, x), value)
            self.learnt += 1
        except SparingError as error:
            self.refuse(decision_id, error)

    def refuse(self, decision_id: bytes, error: SparingError) -> None:
        self.refused.append(f"{events.id_text(decision_id)}: {error}")

    def check(self) -> None:
        if self.refused:
            more = len(self.refused) - SHOWN
            listed = "\n".join([*self.refused[:SHOWN], *([f"… and {more} more"] if more > 0 else [])])
            raise unprocessable(
                f"{len(self.refused)} live decisions do not fit the new log; nothing was changed. Import a log with the same columns, or "
                f"erase these contexts first:\n{listed}",
                "log",
                "unfit_decisions",
            )


async def import_log(
    writer: Writer,
    name: str,
    log_reader: LogReader,
    settings: Mapping[str, Any] | None,
    who: str,
    *,
    config: Mapping[str, Any] | None = None,
) -> ImportAnswer:
    """Restart an experiment from a log, with these settings of its learner (None: the present ones).

    `config` has further entries of the experiment's configuration to change, such as `columns`. If the new learner refuses a live
    context or reward, or the log has rewards outside the present range, the import is refused and nothing is changed.
    """
    experiment = writer.registry.get(name)
    recorded = {**experiment.config, **(config or {})}
    if settings is not None:
        recorded["settings"] = dict(settings)
    known, since = experiment.model.learner.action_names, await _begun(writer, experiment.number)

    def prepare() -> tuple[Relearning, Learner, Log]:
        log = read_with_known_actions(log_reader, known)
        present = experiment.model.learner.reward_range
        if present is not None and log.n_rows and not {"reward_range", "allow_outside"} & {*(settings or {})}:
            check_rewards_inside(present, float(log.rewards.min()), float(log.rewards.max()))
        learner = make_learner(recorded["learner"], log, recorded.get("settings") or {})
        check_options(with_settings(experiment.model.options, learner), learner)
        made, origin = Relearning(learner, experiment.number), learner.copy()
        asyncio.run(_go_after(stores.open_store(writer.store.folder, writer.store.address), made))
        return made, origin, log

    made, origin, log = await asyncio.to_thread(prepare)
    made.check()
    about = await asyncio.to_thread(describe_log, log)
    written: list[dict[str, str]] = []

    def save(learner: Learner, model: ExperimentState) -> None:
        start = ExperimentState(model.experiment, learner, model.options, model.salt)
        written.extend(save_base(writer.store.folder, each) for each in (model, start))

    async def operation(transaction: TransactionHandler) -> ImportAnswer:
        current = writer.registry.get(name)
        same = current.number == experiment.number and current.model.learner.action_names == known
        if not same or await _begun(writer, current.number) != since:
            raise conflict(
                "changed",
                "the actions or the log of the experiment changed while the log was read. Nothing was changed; import it again",
            )
        await made.go_on(writer.store, transaction.rows.last_seq)
        model = await _taken_over(writer.store, made, current.model)
        made.check()
        check_options(model.options, model.learner)
        await asyncio.to_thread(save, origin, model)
        new = model.learner.n_actions - len(known)
        base, start = written
        body = {
            **base,
            "rows": log.n_rows,
            "new": new,
            "origin": start,
        }  # a correction starts from the origin
        transaction.change(current, events.BASE, body, who)
        current.config = {**recorded, "about": about}
        await writer.store.configure(current.number, msgspec.json.encode(current.config).decode())
        return ImportAnswer(log.n_rows, made.learnt, made.lost)

    try:
        return await writer.exclusive(operation)
    except ServiceError as error:
        if not isinstance(error.__cause__, LostError):
            for each in written:
                (writer.store.folder / each["path"]).unlink(missing_ok=True)
        raise


async def _begun(writer: Writer, number: int) -> int:
    return (await writer.registry.bases(number))[-1].seq


def read_with_known_actions(log_reader: LogReader, known: Sequence[Hashable]) -> Log:
    """Read the log with the known actions first, in their order, and new ones after them."""
    try:
        log = log_reader(list(known))
    except LogError:  # there may be new actions; any other reason is raised again below
        occurring = log_reader(None).action_names
        log = log_reader([*known, *(label for label in occurring if label not in set(known))])
    if log.action_names[: len(known)] != tuple(known):
        raise LogError(
            f"the log's actions begin with {shorten(log.action_names[:5])}; must begin with {shorten(tuple(known[:5]))}, those of the "
            "experiment. Read it with actions=[...]"
        )
    return log


async def _go_after(store: Store, made: Relearning) -> None:
    async with store.reading():
        for _ in range(PASSES):
            last = await store.last_seq()
            short = last - made.seq < SHORT
            await made.go_on(store, last)
            if short or made.refused:
                return


async def _taken_over(store: Store, made: Relearning, old: ExperimentState) -> ExperimentState:
    """Return the new learner with the retired actions, pending decisions and counters of the old state."""
    learner, model = made.learner, successor(old, made.learner)
    found = {one.decision.seq: one.decision for one in await store.find("seq", [*old.open])}
    for seq, waiting in old.open.items():
        decision = found[seq]
        assert decision.context is not None, "an erasure withdraws pending calls first"
        try:
            x = model.context(decision.context)
            action = old.learner.pending_call(waiting.call).action
            call = learner.open_call(action, x, deferred=old.deferred(waiting))
            model.add_pending(seq, waiting._replace(call=call))
        except SparingError as error:
            made.refuse(decision.decision_id, error)
    return model


def successor(old: ExperimentState, learner: Learner) -> ExperimentState:
    """Return the state of another learner with the retired actions and counters of the old state, without its pending decisions."""
    for gone in np.flatnonzero(~old.active).tolist():
        learner.retire(learner.action_names[gone])
    model = ExperimentState(old.experiment, learner, with_settings(old.options, learner), old.salt)
    drift.restart(learner)
    for name in (*state_files.NUMBERS, "digest"):
        setattr(model, name, getattr(old, name))
    model.played[: len(old.played)] = old.played
    return model


async def rebase(writer: Writer, experiment: Experiment, *, who: str = "engine") -> bool:
    """Start again from the present state if the one on disk is of another engine (compiled code, Numba, NumPy).

    Replays are equal only within one engine. Return whether it was needed.
    """

    async def operation(transaction: TransactionHandler) -> bool:
        current = writer.registry.by_id(experiment.number)
        base = (await writer.registry.bases(current.number))[-1]
        newer = [one.engine for one in await writer.store.snapshots(current.number) if one.seq > base.seq]
        if all(state_files.is_this_engine(stamp) for stamp in [base.read()["engine"], *newer[:1]]):
            return False
        body = await asyncio.to_thread(save_base, writer.store.folder, current.model)
        transaction.change(current, events.BASE, body, who)
        return True

    return await writer.exclusive(operation)
