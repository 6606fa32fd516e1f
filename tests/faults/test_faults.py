"""Histories with faults that the checker must find; a short run of it on each store (`make thorough`)."""

import asyncio

import pytest

from faults.client import LABELS
from faults.history import Operation, Rules, violations
from faults.run import OnPostgres, OnSqlite
from faults.services import FAKETIME

CLOCK = ["clock jump", "kill with a wrong clock"] if FAKETIME is not None else []


@pytest.mark.thorough
@pytest.mark.parametrize("store", [OnSqlite, OnPostgres])
def test_no_fault_loses_or_changes_what_was_acknowledged(store):
    faults = ["freeze", "kill", "cut connections", *CLOCK]
    faults += ["failing writes"] if store is OnSqlite else ["database crash"]
    report = asyncio.run(asyncio.wait_for(store(seed=1).run(faults), 600))
    assert report.wrong == []
    assert report.faults.total() == len(faults)
    assert report.stored > 50


def decided(key, seq, began, ended, **changed):
    """A decision of a good history: the operation, and the record of it."""
    answer = {
        "decision_id": f"id of {key}",
        "action": LABELS[0],
        "needs_reward": True,
        "reason": "explore",
        "arm": "policy",
        "play_probability": 1.0,
        "call_probability": 1.0,
        "value": 0.5,
        "low": 0.25,
        "high": 0.75,
        "model_seq": seq - 1,
    }
    record = answer | {
        "seq": seq,
        "request_id": key,
        "reward": None,
        "outcome": None,
        "time": f"2026-11-18T10:00:{seq:02d}Z",
    }
    return Operation("shop", "decide", key, {}, began, ended, 200, answer), record | changed


def rewarded(key, seq, began, ended, value=1.0, status=200, said="taken"):
    return Operation(
        "shop", "reward", key, {"value": value}, began, ended, status, {"status": said, "seq": seq}
    )


FIRST, SECOND = decided("a", 1, 0.0, 1.0), decided("b", 3, 1.5, 2.0)
GOOD = (
    [FIRST[0], rewarded("a", 2, 1.1, 1.2), SECOND[0]],
    [FIRST[1] | {"reward": 1.0, "outcome": "reward"}, SECOND[1]],
)


def changed(place, **fields):
    """The good records, one of them changed."""
    return [record | (fields if number == place else {}) for number, record in enumerate(GOOD[1])]


@pytest.mark.parametrize(
    ("operations", "records", "rules", "said"),
    [
        (GOOD[0], GOOD[1][:1], Rules(), "the acknowledged decision b is lost"),
        (GOOD[0], [*GOOD[1], SECOND[1]], Rules(), "b is stored twice"),
        (GOOD[0], [*GOOD[1], decided("c", 4, 0, 0)[1]], Rules(), "c was never asked for"),
        (GOOD[0], changed(1, action="blue"), Rules(), "action was answered as 'red'"),
        (GOOD[0], changed(0, reward=0.0), Rules(), "the reward is 0.0"),
        (GOOD[0], changed(0, reward=None), Rules(), "the reward is None"),
        (GOOD[0], changed(1, outcome="expired"), Rules(), "ended as expired"),
        ([*GOOD[0], SECOND[0]._replace(answer=FIRST[0].answer)], GOOD[1], Rules(), "different answers"),
        ([*GOOD[0], rewarded("a", 2, 3, 4)], GOOD[1], Rules(), "taken twice"),
        ([*GOOD[0], rewarded("a", 2, 3, 4, 0.0)], GOOD[1], Rules(), "both acknowledged"),
        ([*GOOD[0], SECOND[0]._replace(status=500)], GOOD[1], Rules(), "status 500"),
        ([*GOOD[0], SECOND[0]._replace(kind="conflict")], GOOD[1], Rules(), "status 200"),
        (GOOD[0], changed(0, seq=4), Rules(), "but was sent after 4"),
        ([FIRST[0], GOOD[0][1], SECOND[0]._replace(answer=SECOND[0].answer | {"model_seq": 1})], changed(1, model_seq=1), Rules(), "had been acknowledged"),
        (GOOD[0], GOOD[1], Rules(budget=1, period=60.0), "2 calls in a period"),
        ([FIRST[0], rewarded("a", 2, 1.1, 1.2, 0.25, said="part")], changed(0, reward=0.5)[:1], Rules(adds_up=True), "counted 2 times"),
        ([FIRST[0], rewarded("a", 2, 1.1, 1.2, 0.25, said="part")], changed(0, reward=0.0)[:1], Rules(adds_up=True), "counted 0 times"),
        ([FIRST[0], rewarded("a", 2, 1.1, 1.2, 0.25, None)], changed(0, reward=0.5)[:1], Rules(adds_up=True), "counted 2 times"),
        ([FIRST[0], rewarded("a", 2, 1.1, 1.2, 0.25, said="part")], changed(0, reward=0.3125)[:1], Rules(adds_up=True), "no sum"),
    ],
)  # fmt: skip
def test_faults_of_a_history_are_found(operations, records, rules, said):
    assert any(said in text for text in violations(operations, records, rules))


def test_a_good_history_is_found_good():
    assert list(violations(*GOOD)) == []
    assert list(violations(GOOD[0], GOOD[1], Rules(budget=2, period=60.0))) == []
    unknown = [*GOOD[0], rewarded("b", 4, 3, 4, status=None), rewarded("b", 4, 3, 4, 0.0, status=503)]
    for reward in (None, 1.0, 0.0):
        assert list(violations(unknown, changed(1, reward=reward))) == []
    parts = [FIRST[0], rewarded("a", 2, 1.1, 1.2, 1.0, said="part"), rewarded("a", 2, 1.1, 1.2, 0.25, None)]
    for reward in (1.0, 1.25):
        assert list(violations(parts, changed(0, reward=reward)[:1], Rules(adds_up=True))) == []
