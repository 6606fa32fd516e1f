"""Runs the parts one after the other."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from research.bench.field import Field, open_field
from research.bench.measuring import BenchmarkResult, Failure, Outcome, describe_machine
from research.bench.older import Release, beside
from research.bench.parts import batch, encoding, growth, scale, service, service_growth, startup, step
from research.bench.setting import PARTS, BenchmarkSetting, check_parts
from research.environments import PEERS, Installed, Peer

Measure = Callable[[BenchmarkSetting, Field], Outcome]

MEASURES: dict[str, Measure] = {
    "step": step.measure,
    "simulation": batch.simulation,
    "statistics": batch.statistics,
    "intervals": batch.intervals,
    "pi-plus": batch.pi_plus,
    "startup": startup.measure,
    "encoding": encoding.measure,
    "service": service.measure,
    "growth-of-service": service_growth.measure,
    "scale": scale.measure,
    "growth": growth.measure,
}
assert tuple(MEASURES) == PARTS

RIVALS = {"step": {name for name, _, _ in step.PEERS}, "intervals": {"obp"}, "service": {"fastapi"}}
"""The peers that a part is measured against, where it has any."""


def rivals(parts: Sequence[str]) -> list[Peer]:
    """The peers that these parts need."""
    return [peer for peer in PEERS if any(peer.name in RIVALS.get(part, ()) for part in parts)]


def bench(
    setting: BenchmarkSetting,
    *,
    parts: Sequence[str] = PARTS,
    peers: Sequence[Installed] = (),
    older: Release | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
) -> BenchmarkResult:
    """Measure these parts, the older release in the same rounds; a peer that is not installed, or that fails, is reported as such."""
    check_parts(parts)
    start = time.perf_counter()
    missing = tuple(
        Failure("installation", each.peer.title, f"not installed: {each.reason}")
        for each in peers
        if each.reason
    )
    interpreters: dict[str, Path] = {
        each.peer.name: each.interpreter for each in peers if each.interpreter is not None
    }
    outcome = Outcome(failures=missing)
    progress(0, len(parts))
    with open_field(interpreters, say, older) as arena:
        for done, name in enumerate(parts, start=1):
            outcome += MEASURES[name](setting, arena)
            progress(done, len(parts))
    outcome += beside(outcome.measurements)
    if not setting.judged:
        outcome = replace(outcome, ratios=tuple(replace(each, target=None) for each in outcome.ratios))
    return BenchmarkResult(
        describe_machine(),
        {**asdict(setting), "parts": list(parts), **({"beside": older.title} if older else {})},
        tuple(each.to_dict() for each in peers),
        outcome,
        round(time.perf_counter() - start, 1),
    )
