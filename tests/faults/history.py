"""What must hold of a recorded history, and of the decisions that are stored in the end."""

import heapq
import math
from collections import Counter, defaultdict
from datetime import datetime
from typing import Any, NamedTuple

SHARED = (
    "decision_id",
    "action",
    "needs_reward",
    "reason",
    "arm",
    "play_probability",
    "call_probability",
    "value",
    "low",
    "high",
    "model_seq",
)
"""What an answer and a stored decision both say."""

ALLOWED = {
    "decide": {200, 503, None},
    "conflict": {409, 503, None},
    "reward": {200, 409, 503, None},
}
"""Statuses, by the kind of operation; None: no answer came."""

TAKEN = ("taken", "unasked", "part")


class Operation(NamedTuple):
    """One request: when it was sent, and when and how it was answered; `status` is None if it is unknown what became of it."""

    experiment: str
    kind: str
    key: str
    sent: dict[str, Any]
    began: float
    ended: float
    status: int | None
    answer: Any


class Rules(NamedTuple):
    """Whether rewards add up, whether calls may expire, and calls per period of so many seconds."""

    adds_up: bool = False
    may_expire: bool = False
    budget: int | None = None
    period: float = 1.0


PLAIN = Rules()


def violations(history, records, rules=PLAIN):
    """What is wrong with an experiment: its operations, and its stored decisions as the service lists them."""
    found = [
        f"{one.kind} of {one.key}: status {one.status}, {one.answer}"
        for one in history
        if one.status not in ALLOWED[one.kind]
    ]
    stored = {}
    for record in records:
        if record["request_id"] in stored:
            found.append(f"{record['request_id']} is stored twice")
        stored[record["request_id"]] = record
    by_key = defaultdict(lambda: defaultdict(list))
    for one in history:
        by_key[one.key][one.kind].append(one)
    found += [f"{key} was never asked for" for key in stored if key not in by_key]
    for key, kinds in by_key.items():
        record = stored.get(key)
        found += _decided(key, kinds["decide"], record)
        if record is not None:
            check = _added_up if rules.adds_up else _rewarded
            found += check(key, kinds["reward"], record)
            if record["outcome"] in ("expired", "void") and not rules.may_expire:
                found.append(f"{key} ended as {record['outcome']}")
    found += _real_time(by_key, stored)
    if rules.budget is not None:
        called = (record for record in records if record["needs_reward"])
        periods = Counter(_seconds(record["time"]) // rules.period for record in called)
        found += [
            f"{count} calls in a period, of a budget of {rules.budget}"
            for count in periods.values()
            if count > rules.budget
        ]
    return found


def _seconds(text):
    return datetime.fromisoformat(text).timestamp()


def _decided(key, operations, record):
    answers = [one.answer for one in operations if one.status == 200]
    if not answers:
        return
    if any(answer != answers[0] for answer in answers):
        yield f"{key} got different answers: {answers}"
    if record is None:
        yield f"the acknowledged decision {key} is lost"
        return
    for name in SHARED:
        if record[name] != answers[0][name]:
            yield f"{key}: {name} was answered as {answers[0][name]!r}, and is stored as {record[name]!r}"


def _rewarded(key, operations, record):
    acknowledged = {one.sent["value"] for one in operations if one.status == 200}
    possible = acknowledged or {None, *(one.sent["value"] for one in operations)}
    if len(acknowledged) > 1:
        yield f"{key}: rewards {sorted(acknowledged)} were both acknowledged"
    if record["reward"] not in possible:
        yield f"{key}: the reward is {record['reward']}; possible were {possible}"
    if sum(one.status == 200 and one.answer["status"] in TAKEN for one in operations) > 1:
        yield f"{key}: the reward was taken twice"


def _added_up(key, operations, record):
    """Parts are powers of a quarter: the digits of their sum say how often each was counted."""
    acknowledged = {one.sent["value"] for one in operations if one.status == 200}
    unknown = {one.sent["value"] for one in operations if one.status in (None, 503)}
    rest = record["reward"] or 0.0
    for value in sorted(acknowledged | unknown, reverse=True):
        times = math.floor(rest / value)
        rest -= times * value
        if times != 1 and value in acknowledged:
            yield f"{key}: the acknowledged part {value} was counted {times} times"
        elif times > 1:
            yield f"{key}: the part {value} was counted {times} times"
    if rest:
        yield f"{key}: the rewards add up to {record['reward']}, which is no sum of what was sent"


def _real_time(by_key, stored):
    """Whatever was acknowledged before a request was sent has an earlier place in the order, and the decision knows it."""
    effects = []  # when it was first sent, when it was acknowledged, its place, and the state of a decision
    for key, kinds in by_key.items():
        record = stored.get(key)
        done = [one.ended for one in kinds["decide"] if one.status == 200]
        if record is not None and done:
            began = min(one.began for one in kinds["decide"])
            effects.append((began, min(done), record["seq"], record["model_seq"], key))
        rewards = defaultdict(list)
        for one in kinds["reward"]:
            rewards[one.sent["value"]].append(one)
        for value, sent in rewards.items():
            ends = [(one.ended, one.answer["seq"]) for one in sent if one.status == 200]
            if ends:
                effects.append(
                    (min(one.began for one in sent), *min(ends), None, f"the reward {value} of {key}")
                )
    ended, before = [], 0
    for began, end, seq, state, name in sorted(effects, key=lambda effect: effect[0]):
        while ended and ended[0][0] < began:
            before = max(before, heapq.heappop(ended)[1])
        heapq.heappush(ended, (end, seq))
        if seq <= before:
            yield f"{name} has place {seq}, but was sent after {before} was acknowledged"
        if state is not None and state < before:
            yield f"{name} was decided in state {state}, but {before} had been acknowledged"
