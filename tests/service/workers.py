"""Workers on a store, as the service runs them, without the web around them."""

import contextlib
import functools
import hashlib

import sparing
from sparing.service import events, experiments
from sparing.service.messages import DecideRequest, Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.store import open_store
from sparing.service.transactions import Decide, Reward
from sparing.service.writer import Writer
from sparing.simulation import LinearWorld, draw_log

CONTEXTS = [[0.5, -0.25, 1.0], [-1.0, 0.125, 0.0], [0.0, -0.0, 2.0], [1.5, 1.0, -0.75], [-0.5, -2.0, 0.25]]


class Place:
    """Where a store is; calling it gives one more way to it, not yet open."""

    def __init__(self, folder, address=None):
        self.folder, self.address = folder, address

    def __call__(self, **settings):
        return open_store(self.folder, self.address, **settings)


@functools.cache
def small_log():
    """Six actions, some of them never logged."""
    world = LinearWorld(n_actions=6, n_features=3, noise=0.5, seed=0)
    return draw_log(world, rows=300, support="never-logged", unsupported=0.2, seed=1)


@contextlib.asynccontextmanager
async def opened(place, **settings):
    """A store, open."""
    store = place(**settings)
    await store.open(create=True)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def working(place, **how):
    """A worker's writer, at work; `how` is told to it."""
    async with opened(place) as store:
        writer = Writer(store, ExperimentRegistry(store), **how)
        await writer.catch_up()
        writer.start()
        try:
            yield writer
        finally:
            await writer.stop()


async def make(writer, name="shop", learner=None, **options):
    """A new experiment, of `sparing.confident` if no other learner is given."""
    learner = sparing.confident(small_log()) if learner is None else learner
    learner.warm_up()  # nothing may be compiled while the others wait for the lock
    config = {"learner": "confident", "settings": {}, "columns": {}}
    return await experiments.create(
        writer, name, small_log(), learner, Options(**options), config, who="test"
    )


def decide(number=0, *, request_id=None, name="shop", **said):
    """A request to decide."""
    asked = DecideRequest(CONTEXTS[number % len(CONTEXTS)], request_id=request_id, **said)
    seal = None if request_id is None else hashlib.sha256(repr(asked.context).encode()).digest()
    return Decide(name, asked, events.new_id(), seal)


def reward(answer, value=1.0, *, name="shop", **said):
    """A reward of an answered decision."""
    return Reward(name, answer.decision_id, value, **said)


def digests(registry):
    """What tells states from any others: every experiment's last event and digest."""
    return {one.name: (one.model.seq, one.model.digest) for one in registry}


async def replayed(place):
    """The digests of a fresh replay, and every event in its order."""
    async with opened(place) as store:
        last = await store.last_seq()
        registry = ExperimentRegistry(store)
        await registry.catch_up(last)
        found = []
        for experiment in registry:
            async for some in store.events(experiment.number, 0, last):
                found += some
        return digests(registry), sorted(found, key=lambda one: one.seq)


async def outcomes(store, experiment):
    """Outcomes of an experiment by their kind."""
    found = await store.driver.read(
        "select kind, count(*) from outcomes where experiment = $1 group by kind", experiment
    )
    return {kind: int(count) for kind, count in found}
