"""Experiments from logs: a learner is made and warmed up, its state written down, and served from then on."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from sparing.errors import SettingError, SparingError
from sparing.log.log import Log
from sparing.model import supported
from sparing.online import algorithms
from sparing.online.decision import as_reward
from sparing.online.learner import Learner
from sparing.online.warm_up import LEARNERS
from sparing.service import arms, events
from sparing.service.book import Experiment, keep
from sparing.service.events import Change
from sparing.service.gapmap import described
from sparing.service.ledger import Ledger
from sparing.service.messages import NAME, RESERVED, Options
from sparing.service.model import Model
from sparing.service.problems import conflict
from sparing.service.writer import Writer

CHOICES = {"top": supported.top, "certified_within": supported.certified_within}


def make_learner(name: str, log: Log, settings: Mapping[str, Any]) -> Learner:
    """A learner of the library by its name, from a log and settings that JSON can hold, ready for its first request.

    `supported`, where a learner takes it, is "elbow", {"top": L} or {"certified_within": ε}.
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
    except (TypeError, ValueError, OverflowError) as error:  # a setting of another kind than it should be
        raise SettingError(f"learner {name}: {error}") from None
    learner.warm_up()
    return learner


def _supported(said: Any) -> Any:
    if said == "elbow":
        return supported.elbow()
    if isinstance(said, dict) and len(said) == 1 and next(iter(said)) in CHOICES:
        ((how, value),) = said.items()
        return CHOICES[how](value)
    raise SettingError(f'supported={said!r}; must be "elbow", {{"top": 10}} or {{"certified_within": 0.1}}')


def check_name(name: str) -> None:
    """Refuse a name that no path could hold."""
    if not re.fullmatch(NAME, name) or name in RESERVED:
        raise SettingError(
            f"name={name!r}; must be up to 63 letters from a to z (or A to Z), digits, `_`, `.` and `-`, and not {', '.join(RESERVED)}"
        )


def check_options(options: Options, learner: Learner) -> None:
    """Refuse options that cannot be served."""
    for name in ("holdout_policy", "fallback"):
        try:
            arms.numbered(getattr(options, name), learner.action_names)
        except SettingError as error:
            raise SettingError(f"{name}={error}") from None
    if options.aggregate == "sum" and options.reward_window is None:
        raise SettingError("aggregate='sum' adds rewards up until the window closes; give a reward_window")
    if options.default_reward is not None and options.reward_window is None:
        raise SettingError("default_reward is learnt when the window closes; give a reward_window")
    if options.default_reward is not None:
        as_reward(options.default_reward, learner.reward_range)
    if options.retention is not None and options.retention < (options.reward_window or 0.0):
        raise SettingError(
            "retention is shorter than reward_window: contexts would be erased while their rewards may still come"
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
    """Store a new experiment that begins from a learner; `config` says how the learner was made."""
    check_options(options, learner)
    store, book = writer.store, writer.book
    began = {"options": msgspec.to_builtins(options), "about": await asyncio.to_thread(described, log)}
    told = {**config, **began}

    async def operation(ledger: Ledger) -> Experiment:
        if any(known.name == name for known in book):
            raise conflict("exists", f"there is an experiment {name!r} already; choose another name", "name")
        number = await store.add_experiment(name, msgspec.json.encode(told).decode())
        model = Model(number, learner, options, store.salt)
        experiment = Experiment(number, name, told, 0, model)
        body = msgspec.json.encode(keep(store.folder, model))
        ledger.append(experiment, Change(0, number, 0, events.BASE, body, who))
        book.add(experiment)
        return experiment

    return await writer.alone(operation)
