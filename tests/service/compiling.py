"""What is compiled after `sparing warm-up`, in a fresh process: a line for each kernel, and none if all is as it should be.

Every learner, small and large, is made from a log and serves: single decisions and batches, with eligible actions, costs, holdouts, checks
and explanations; rewards, corrections, expired calls, added and retired actions, a half-life, reviews of a shift; saved and loaded, planned and asked for.
"""

import asyncio
import contextlib
import gc
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

import sparing
from service import building
from service.building import NAME, asking, trial
from sparing.errors import SparingError
from sparing.online.engine.state import CONSTANT
from sparing.online.warm_up import LEARNERS, SIZES, warm_up_all
from sparing.service import snapshots
from sparing.service.corrections import correct
from sparing.service.errors import ServiceError
from sparing.service.messages import Options
from sparing.service.transactions import ChangeSettings, Reward
from sparing.simulation import LinearWorld, draw_log

OPTIONS = Options(holdout=0.1, check=0.2, explore=0.1)
COSTLESS = ("eps_moful_ips",)


def kernels():
    """How many versions of each compiled function there are."""
    from numba.core.dispatcher import Dispatcher

    return {
        f"{one.py_func.__module__}.{one.py_func.__name__}": len(one.overloads)
        for one in gc.get_objects()
        if isinstance(one, Dispatcher) and one.py_func.__module__.startswith("sparing")
    }


async def served(folder, learner, log, settings):
    """A service's day, without the web."""
    d = log.n_features
    rng = np.random.default_rng(3)
    names = list(log.action_names)
    costs = {} if learner in COSTLESS else {"costs": {str(name): 0.1 for name in names}}
    async with trial(folder, learner, OPTIONS, log=log, **settings) as writer:
        last = None
        for number, x in enumerate(rng.random((40, d))):
            more = costs if number % 3 == 0 else {}
            more |= {"eligible": names[: 2 + number % 2]} if number % 4 == 0 else {}
            more |= {"context_id": number, "subject": str(number % 5)} if number % 5 == 0 else {}
            works = [asking(x, explain=number % 2 == 0, request_id=f"r{number}", **more)]
            works += [asking(y) for y in rng.random((3, d))]
            answers = await writer.submit_all(works)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                if answer.needs_reward and number % 4:
                    await writer.submit(Reward(NAME, answer.decision_id, float(rng.random())))
                    last = answer
        if last is not None:
            await correct(writer, NAME, last.decision_id, 0.25, who="test")
        await writer.submit(ChangeSettings(NAME, "retire", {"label": names[-1]}, "test"))
        experiment = writer.registry.get(NAME)
        with contextlib.suppress(ServiceError, SparingError):  # not every learner takes new actions
            await writer.submit(ChangeSettings(NAME, "action", {"label": "new", "features": None}, "test"))
        if experiment.model.learner.sets.arrays.kind == CONSTANT:  # it can forget
            forgetting = msgspec.to_builtins(experiment.model.options) | {"half_life": 20}
            await writer.submit(ChangeSettings(NAME, "options", forgetting, "test"))
        for answer in await writer.submit_all([asking(y) for y in rng.random((60, d))]):
            if answer.needs_reward:
                await writer.submit(Reward(NAME, answer.decision_id, float(rng.random())))
        await snapshots.snapshot_here(writer, experiment)
        await building.replayed(writer)
        learner = experiment.model.learner.copy()
    learner.decide_many(rng.random((5, d)))
    made = learner.decide(rng.random(d))
    if made.needs_reward:
        learner.update(made, 0.5)
    learner.save(folder / "learner.sparing")
    sparing.load(folder / "learner.sparing").explain(rng.random(d))


def main():
    warnings.simplefilter("ignore")
    warm_up_all()
    before = kernels()
    for n_actions, n_features in SIZES:
        world = LinearWorld(n_actions=n_actions, n_features=n_features, noise=0.5, seed=0)
        log = draw_log(world, rows=3 * n_actions + 50, support="never-logged", unsupported=0.2, seed=1)
        contexts = log.contexts.copy()
        contexts[:, 0] = 1.0  # a constant, as tables have it
        log = replace(log, contexts=contexts)
        for learner in LEARNERS:
            settings = {"growing": True} if learner in ("moful", "certified", "warm_started") else {}
            if learner in ("confident", "economical"):
                settings |= {"spot_check": 0.1, "shift": "auto"}
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(served(Path(folder), learner, log, settings))
            after = kernels()
            for name in sorted(after):
                if after[name] > before.get(name, 0):
                    print(f"{learner} with {n_actions} actions: {name}")
            before = after


if __name__ == "__main__":
    main()
