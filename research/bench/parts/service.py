"""The live service under load: its cost beside a bare handler and beside FastAPI, what sharing a commit brings, and what a worker takes."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from research.bench.field import Field
from research.bench.live.serving import FLOOR, FRAMEWORK, OURS, SINGLE
from research.bench.live.yard import Contender, Seen, Server, Yard, file_system, open_yard, race
from research.bench.measuring import COST, FASTER, Failure, Measurement, Outcome, compared
from research.bench.older import older_title
from research.bench.setting import BenchmarkSetting
from research.children import ContenderError

PART = "service"
MINE, ALONE, BARE, FASTAPI = "ours", "ours, a commit a request", "bare ASGI handler", "FastAPI"
MANY, FEW = 64, 8
"""Connections: those that keep the disk busy, and those that latencies are told for."""

SLOW = 4
"""A commit a request gets this part of the others' load."""

PAIR, REQUEST, ANSWER, BYTES, MEMORY, START = "pair", "request", "answer", "byte", "memory", "start"
"""What a number is of: the server's CPU seconds for a decision with its reward (or alone); seconds a request, by the clock; a decision's
latency; bytes of the store; bytes of memory; CPU seconds until it is ready."""

FLOOR_TARGET, GROUP_TARGET, SIZE_TARGET = 2.0, 3.0, 0.7
FRAMEWORK_RATE, FRAMEWORK_COST = 2.0, 0.5

ASKING = {"tolerance": 0.0, "confidence": 1 - 1e-9, "noise": 2.0, "prior_scale": 1.0}
"""`confident` calls unless the probability of being beaten is below 10⁻⁹: most decisions open a call, and its reward is learnt."""

SETTLED: dict[str, tuple[dict[str, Any], str]] = {
    "confident": (
        {"tolerance": 6.0, "noise": 2.0, "prior_scale": 1.0, "spot_check": 0.0},
        "tolerance 6, no spot checks",
    ),
    "economical": (
        {"call_cost": 50.0, "horizon": 20_000, "noise": 2.0, "prior_scale": 1.0},
        "price 50, 20,000 rounds in all: no call repays it",
    ),
}
"""Learners that have learnt enough from their log to ask about nothing: rewards are not sent, and nothing piles up."""


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Everything, each contender in a process of its own and the load in another."""
    with open_yard(arena.peers.get("fastapi"), arena.older) as yard:
        return pairs(setting, arena, yard) + decisions(setting, arena, yard) + workers(setting, arena, yard)


def size_of(spec: dict[str, Any]) -> str:
    """K × d."""
    return f"{spec['actions']} × {spec['features']}"


def spec_of(
    setting: BenchmarkSetting, k: int, d: int, rows: int, learner: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """The state that a store begins from."""
    world = {"actions": k, "features": d, "rows_an_action": rows, "seed": setting.seed}
    return {**world, "learner": learner, "settings": settings}


def with_older(yard: Yard, contenders: Sequence[Contender]) -> list[Contender]:
    """Ours and, where there is one, the older release's beside each."""
    twins = [replace(each, title=older_title(each.title), older=True) for each in contenders]
    pairs = zip(contenders, twins, strict=True)
    return [one for pair in pairs for one in pair] if yard.older is not None else list(contenders)


def started(yard: Yard, contenders: Sequence[Contender]) -> tuple[list[Server], list[Failure]]:
    """Those that start, and why the others did not."""
    servers, failures = [], []
    for contender in contenders:
        try:
            servers.append(yard.start(contender))
        except ContenderError as error:
            failures.append(Failure(PART, contender.title, str(error)))
    return servers, failures


def measured(
    servers: Sequence[Server],
    seen: dict[str, list[Seen]],
    what: str,
    unit: str,
    count: int,
    value: Callable[[Seen], float],
) -> tuple[Measurement, ...]:
    """One number of every load."""
    return tuple(
        Measurement(
            PART, what, each.title, each.regime, unit, count // each.part, tuple(map(value, seen[each.title]))
        )
        for each in (server.contender for server in servers)
        if each.title in seen
    )


def pairs(setting: BenchmarkSetting, arena: Field, yard: Yard) -> Outcome:
    """A decision and its reward, ours beside the floor, beside FastAPI, and beside a commit a request."""
    (k, d), rounds, count = setting.service_sizes[0], setting.service_rounds, setting.service_decisions
    contenders = _contenders(setting, yard, k, d)
    arena.say(f"service, {k} × {d}: {', '.join(each.title for each in contenders)}; {rounds} rounds")
    servers, failures = started(yard, contenders)
    many, failed = race(yard, servers, rounds=rounds, connections=MANY, decisions=count, rewards=True)
    _tell_asked(arena, many)
    size = f"{k} × {d}, {MANY} connections"
    busy = Outcome(measured(servers, many, f"CPU a pair, {size}", PAIR, count, lambda s: s.cpu))
    rate = Outcome(measured(servers, many, f"request rate, {size}", REQUEST, count, lambda s: s.request))
    alive = [server for server in servers if server.contender.title in many]
    few, failed_too = race(yard, alive, rounds=rounds, connections=FEW, decisions=count, rewards=True)
    size = f"{k} × {d}, {FEW} connections"
    late = measured(alive, few, f"latency, median, {size}", ANSWER, count, lambda s: s.median)
    late += measured(alive, few, f"latency, 99 %, {size}", ANSWER, count, lambda s: s.slow)
    return (
        busy
        + rate
        + Outcome(late + _stored(alive), failures=(*failures, *failed, *failed_too))
        + compared(busy, MINE, BARE, of=COST, target=FLOOR_TARGET)
        + compared(rate, MINE, ALONE, of=FASTER, target=GROUP_TARGET)
        + compared(rate, MINE, FASTAPI, of=FASTER, target=FRAMEWORK_RATE)
        + compared(busy, MINE, FASTAPI, of=COST, target=FRAMEWORK_COST)
    )


def _contenders(setting: BenchmarkSetting, yard: Yard, k: int, d: int) -> list[Contender]:
    """Who takes pairs."""
    rows = setting.warm_rows_an_action
    spec = spec_of(setting, k, d, rows, "confident", ASKING)
    disk = f"SQLite on {file_system(yard.folder)}, on the disk before it is answered"
    learner = f"confident, called unless the probability of being beaten is below 10⁻⁹, {rows} rows of every action, σ = 2"
    found = [
        *with_older(yard, [Contender(MINE, OURS, f"{learner}; {disk}", spec)]),
        Contender(ALONE, SINGLE, f"the same, groups of one; {disk}", spec, SLOW),
        Contender(BARE, FLOOR, f"decodes, inserts, commits in groups; {disk}", spec),
    ]
    if yard.framework is not None:
        found.append(Contender(FASTAPI, FRAMEWORK, f"our writer, store and learner; {disk}", spec))
    return found


def _tell_asked(arena: Field, seen: dict[str, list[Seen]]) -> None:
    """Say which part of the decisions asked for a reward, in the first and in the last round."""
    shares = [f"{title} {found[0].asked:.1%}–{found[-1].asked:.1%}" for title, found in seen.items() if found]
    arena.say(f"asked about, first and last round: {', '.join(shares)}")


def _stored(servers: Sequence[Server]) -> tuple[Measurement, ...]:
    """End them, and see how much they wrote."""
    return tuple(
        Measurement(
            PART,
            f"store, a pair, {size_of(server.contender.spec)}",
            server.contender.title,
            server.contender.regime,
            BYTES,
            server.decided,
            (server.close(),),
        )
        for server in servers
    )


def decisions(setting: BenchmarkSetting, arena: Field, yard: Yard) -> Outcome:
    """Decisions alone, of few actions and of many, where little is asked."""
    rows, count = setting.service_rows_an_action, setting.service_decisions
    contenders = []
    for learner, (settings, label) in SETTLED.items():
        for k, d in setting.service_sizes:
            spec = spec_of(setting, k, d, rows, learner, settings)
            regime = f"{label}; {rows} rows of every action, σ = 2; no rewards are sent"
            contenders.append(Contender(f"ours, {learner}, {k} × {d}", OURS, regime, spec))
    arena.say(f"service, decisions alone: {', '.join(each.title for each in contenders)}")
    servers, failures = started(yard, with_older(yard, contenders))
    seen, failed = race(
        yard,
        servers,
        rounds=setting.service_rounds,
        connections=MANY,
        decisions=count,
        rewards=False,
    )
    busy = Outcome(
        measured(servers, seen, f"CPU a decision, {MANY} connections", PAIR, count, lambda s: s.cpu)
    )
    rate = Outcome(
        measured(servers, seen, f"decisions, rate, {MANY} connections", REQUEST, count, lambda s: s.request)
    )
    _tell_asked(arena, seen)
    outcome = busy + rate + Outcome(failures=(*failures, *failed))
    (k, d), *larger = setting.service_sizes
    for learner in SETTLED:
        small = f"ours, {learner}, {k} × {d}"
        for n, m in larger:
            large = f"ours, {learner}, {n} × {m}"
            outcome += compared(rate, large, small, of=FASTER, target=SIZE_TARGET)
            outcome += compared(busy, large, small, of=COST)
    for server in servers:
        server.close()
    return outcome


def workers(setting: BenchmarkSetting, arena: Field, yard: Yard) -> Outcome:
    """What a worker takes: memory, time to start, bytes a decision."""
    found: dict[tuple[str, str, str, str], list[float]] = {}
    failures = []
    count = setting.service_first
    settings, label = SETTLED["confident"]
    for k, d, rows in setting.service_workers:
        title = f"ours, confident, {k} × {d}"
        contender = Contender(
            title,
            OURS,
            f"{label}; {rows} rows of every action; machine code compiled before",
            spec_of(setting, k, d, rows, "confident", settings),
        )
        arena.say(f"service, one worker: {title}; {setting.repeats} starts")
        contenders = with_older(yard, [contender])
        for number in range(setting.repeats):
            for each in list(contenders):
                try:
                    numbers = _worker(yard, each, count, number)
                except ContenderError as error:
                    failures.append(Failure(PART, each.title, str(error)))
                    contenders.remove(each)
                    continue
                for (what, unit), value in numbers.items():
                    found.setdefault((what, each.title, each.regime, unit), []).append(value)
    return Outcome(
        tuple(
            Measurement(PART, what, title, regime, unit, 1, tuple(values))
            for (what, title, regime, unit), values in found.items()
        ),
        failures=tuple(failures),
    )


def _worker(yard: Yard, contender: Contender, count: int, seed: int) -> dict[tuple[str, str], float]:
    """One start, and so many decisions."""
    server = yard.start(contender)
    begun = server.state()
    yard.load(server, connections=FEW, decisions=count, rewards=False, seed=seed)
    after, grown = server.state(), server.close()
    shutil.rmtree(server.folder)  # the largest states take hundreds of megabytes
    return {
        ("start of a worker, CPU", START): begun["cpu_seconds"],
        ("memory after the start", MEMORY): begun["memory"],
        (f"memory after {count:,} decisions", MEMORY): after["memory"],
        ("store, a decision", BYTES): grown,
    }
