"""Real data: classes of which some are never logged, and prompts for language models of which one is never logged."""

import functools

import numpy as np

from research import learners
from research.paper.beyond.meeting import Meeting, Played
from research.paper.beyond.worlds import asked
from research.paper.experiment import Record
from research.paper.synthetic import LIVE_STREAM
from sparing.log import Log
from sparing.model.confidence import most_logged
from sparing.online.learner import Learner
from sparing.simulation import ClassificationWorld, RoutingWorld, datasets, draw_log, hidden_model_log

REWARDS = (0.0, 1.0)
"""The least and the greatest reward where actions are classes."""


@functools.cache
def load(name: str) -> datasets.Dataset:
    """A data set, read once in a process."""
    return datasets.load(name)


@functools.cache
def prompts(weight: float) -> RoutingWorld:
    """Prompts and what their answers are worth, a dollar being worth `weight`; made once in a process."""
    return RoutingWorld(datasets.load("llm-routing"), cost_weight=weight, features="prompt_features")


def run_classes(unit: Record) -> Record:
    """Calls, regret (the wrong live answers) and the final policy's error on held-out rows, of each."""
    seed = unit["seed"]
    world = ClassificationWorld(load(unit["place"]), seed=seed)
    log = draw_log(world, support="never-logged", unsupported=unit["unsupported"], seed=seed)
    stream = world.live_stream(unit["rounds"], np.random.default_rng([seed, LIVE_STREAM]))
    rows = world.held_out_rows
    meeting = Meeting(log, stream, world.features[rows], float(log.rewards.std()))

    def start(record: Record) -> Learner:
        return _start(record, meeting, seed, ridge=unit["ridge"], reward_range=REWARDS)

    def error(played: Played) -> Record:
        return {"error": float((played.final != world.labels[rows]).mean())}

    return {**meeting.runs(unit, start, error), **_about(log, len(stream))}


def run_routing(unit: Record) -> Record:
    """Calls, regret and the mean reward of a live prompt, of each."""
    seed, world = unit["seed"], prompts(unit["weight"])
    log = hidden_model_log(world, hidden=world.action_names[unit["hidden"]], seed=seed)
    stream = world.live_stream(None, np.random.default_rng([seed, LIVE_STREAM]))
    meeting = Meeting(log, stream, stream.contexts[:0], float(log.rewards.std()))

    def start(record: Record) -> Learner:
        return _start(record, meeting, seed)

    def reward(played: Played) -> Record:
        return {"reward": float(stream.rewards(played.actions).mean())}

    return {**meeting.runs(unit, start, reward), **_about(log, len(stream))}


def _start(record: Record, meeting: Meeting, seed: int, **known: object) -> Learner:
    """A learner as its record says; nobody is told the noise, which rewards between 0 and 1 bound by 1/2."""
    log = meeting.log
    half = min(log.n_actions // 2, int((log.counts > 0).sum()))
    told = asked(record, meeting.unit, len(meeting.stream))
    return learners.start(record["name"], log, supported=most_logged(half), seed=seed, **known, **told)


def _about(log: Log, rounds: int) -> Record:
    return {"rounds": rounds, "logged": log.n_rows, "never": int((log.counts == 0).sum())}
