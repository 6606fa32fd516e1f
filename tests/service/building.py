"""Small experiments to try the service on, without HTTP."""

import asyncio
import contextlib
import itertools

import numpy as np

import sparing
from sparing.service import events, experiments
from sparing.service.messages import DecideRequest, Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.store import open_store
from sparing.service.transactions import Decide, Reward
from sparing.service.writer import Writer

WORLD = sparing.simulation.LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0)
LOG = sparing.simulation.draw_log(WORLD, rows=300, support="never-logged", unsupported=0.2, seed=1)
NAME = "trial"
LEARNERS = {
    "economical": {"call_cost": 0.01, "horizon": 1000},
    "confident": {"tolerance": 0.05},
    "certified": {"tolerance": 0.3, "radius_scale": 0.3},
    "warm_started": {"radius_scale": 0.3},
    "moful": {"radius_scale": 0.3},
    "eps_moful": {"supported": {"top": 3}},
    "eps_moful_ips": {"supported": {"top": 3}},
    "linucb": {},
    "lints": {},
}


class Clock:
    """A clock that is told the time, in seconds."""

    def __init__(self, seconds=1000.0):
        self.seconds = seconds

    def __call__(self):
        return round(self.seconds * events.SECOND)


@contextlib.asynccontextmanager
async def trial(folder, learner="confident", options=None, *, log=LOG, clock=None, store=None, **settings):
    """A writer with one experiment, `trial`."""
    store = store or open_store(folder, durability="process")
    await store.open(create=True)
    store.salt = bytes(range(32))
    await store.exclusive(("update store set salt = $1", [(store.salt,)]))
    LUCK.ids = itertools.count(1 + await store.last_seq())
    writer = Writer(store, ExperimentRegistry(store), clock=clock or events.now, on_lost=_raise)
    await writer.catch_up()
    if not list(writer.registry):
        said = {**LEARNERS[learner], **settings}
        made = experiments.make_learner(learner, log, said)
        config = {"learner": learner, "settings": said, "columns": {}}
        await experiments.create(writer, NAME, log, made, options or Options(), config, who="test")
    writer.start()
    try:
        yield writer
    finally:
        await writer.stop()
        await store.close()


def _raise(error):
    raise AssertionError(error)


async def replayed(writer):
    """The experiment's state as a new start from the store has it."""
    registry = ExperimentRegistry(writer.store)
    await registry.catch_up(await writer.store.last_seq())
    return registry.get(NAME).model


def same(one, other):
    """Whether two states are equal bit for bit."""
    from sparing.online.files import parts

    header, arrays = parts(one.learner)
    twin_header, twin_arrays = parts(other.learner)
    assert (one.seq, one.digest, one.rounds, one.calls) == (
        other.seq,
        other.digest,
        other.rounds,
        other.calls,
    )
    assert (one.mode, one.options, one.config_seq) == (other.mode, other.options, other.config_seq)
    assert header == twin_header
    alarms = {name for name in {*arrays, *twin_arrays} if name.startswith("alarms/")}
    assert arrays.keys() - alarms == twin_arrays.keys() - alarms
    for name in arrays:
        if name in alarms and not (name.startswith("alarms/reward") and name in twin_arrays):
            continue  # contexts of skipped decisions are not read again for it
        np.testing.assert_array_equal(arrays[name], twin_arrays[name], err_msg=name)
    assert list(one.open) == list(other.open)
    for mine, theirs in zip(one.open.values(), other.open.values(), strict=True):
        call, its = one.learner.pending_call(mine.call), other.learner.pending_call(theirs.call)
        np.testing.assert_array_equal(call.x, its.x)
        assert (call.action, call.predicted) == (its.action, its.predicted)
        assert mine._replace(call=0) == theirs._replace(call=0)
    np.testing.assert_array_equal(one.played, other.played)


class LUCK:
    """Ids of decisions, the same in every run: with the salt they are all the luck there is."""

    ids = itertools.count(1)


def asking(context, **settings):
    """A request for a decision."""
    return Decide(NAME, DecideRequest(context=list(context), **settings), next(LUCK.ids).to_bytes(16))


def contexts(seed, count):
    return np.random.default_rng(seed).random((count, WORLD.n_features))


async def decide(writer, context, **settings):
    return await writer.submit(asking(context, **settings))


async def reward(writer, answer, value, action=None):
    named = answer if isinstance(answer, str) else answer.decision_id
    return await writer.submit(Reward(NAME, named, value, action))


async def live(writer, seed, rounds, *, late=0, missing=0.0):
    """Rounds of a live loop in the world: rewards come `late` rounds later, some never; the answers."""
    rng, waiting, answers = np.random.default_rng(seed), {}, []
    for number, x in enumerate(contexts(seed, rounds)):
        answer = await decide(writer, x)
        answers.append(answer)
        noise, lost = rng.normal(0, 0.5), rng.random() < missing
        if answer.needs_reward and not lost:
            known = answer.action in LOG.action_names
            mean = float(x @ WORLD.theta[LOG.action_names.index(answer.action)]) if known else 0.3
            waiting[number] = answer, mean + noise
        for due in [key for key in waiting if key + late <= number]:
            found, value = waiting.pop(due)
            await reward(writer, found, value)
    return answers


def ran(coroutine):
    """Run to its end, in bounded time."""
    return asyncio.run(asyncio.wait_for(coroutine, 120))
