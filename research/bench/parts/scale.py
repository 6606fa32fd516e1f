"""Logs that are walked: what statistics, audit, evaluation and learning cost beside plain reading; one worker beside two."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sparing
from research.bench.field import Field
from research.bench.measuring import COST, FASTER, Failure, Measurement, Outcome, ratio
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting
from sparing.log.scan import Scan
from sparing.policies.policy import UniformPolicy

ACTIONS, NUMBERS, CITIES, DEVICES = 200, 6, 8, 3
GROUP = 2**17
READING, SCAN, SUMS, AUDIT = "plain reading", "scan: labels and features", "statistics", "audit"
EVALUATE, LEARN, ONE, TWO = "evaluate, ips and dr", "learn greedy", "Dask, 1 worker", "Dask, 2 workers"
MOST_STATISTICS, MOST_AUDIT, LEAST_SCALING = 2.5, 6.0, 1.4


def write_log(path: Path, rows: int, seed: int = 0) -> None:
    """A raw log: six numbers, two categories, 200 actions of unlike shares with their propensities, clicks."""
    theta = np.random.default_rng(seed).normal(size=(ACTIONS, NUMBERS)) / 5
    cities, devices = (
        pa.array([f"{name} {i}" for i in range(many)])
        for name, many in (("city", CITIES), ("device", DEVICES))
    )
    writer: Any = None
    for start in range(0, rows, GROUP):
        rng, many = np.random.default_rng([seed, start]), min(GROUP, rows - start)
        x = rng.normal(size=(many, NUMBERS))
        actions = np.minimum((rng.random(many) ** 2 * ACTIONS).astype(np.int64), ACTIONS - 1)
        chance = 1 / (1 + np.exp(-np.einsum("nd,nd->n", x, theta[actions])))
        columns = {f"number_{j}": x[:, j] for j in range(NUMBERS)}
        columns["city"] = cities.take(pa.array(rng.integers(0, CITIES, many)))
        columns["device"] = devices.take(pa.array(rng.integers(0, DEVICES, many)))
        columns |= {"action": actions, "reward": (rng.random(many) < chance).astype(float)}
        columns["propensity"] = np.sqrt((actions + 1) / ACTIONS) - np.sqrt(actions / ACTIONS)
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Every contender in every round, by the clock; threads are two, for reading too. Beside an older release, CPU time of both alone."""
    if arena.older is not None:
        return beside(setting, arena)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(path, setting.scale_rows, setting.seed)
        log = sparing.scan(path, workers=2)
        assert isinstance(log, Scan)
        policy = UniformPolicy(log.action_names)
        works: dict[str, Callable[[], Any]] = {
            READING: lambda: _read(path),
            SCAN: lambda: sparing.scan(path, workers=2),
            SUMS: lambda: sparing.Statistics.of(log),
            AUDIT: lambda: sparing.audit(log),
            EVALUATE: lambda: sparing.evaluate(log, policy, methods=["ips", "dr"]),
            LEARN: lambda: sparing.learn(log, "greedy"),
        }
        size = f"{setting.scale_rows:,} rows, K = {log.n_actions}, d = {log.n_features}"
        arena.say(f"scale, {size}: {', '.join(works)}; {setting.repeats} rounds")
        measured = _raced(works, size, setting.repeats)
        scaled, failures = _scaled(log, size, setting.repeats)
    ratios = [
        ratio(measured[name], measured[READING], of=COST, target=target) for name, target in _targets(setting)
    ]
    if scaled:
        target = LEAST_SCALING if setting.judged else None
        ratios.append(ratio(scaled[TWO], scaled[ONE], of=FASTER, target=target))
    return Outcome((*measured.values(), *scaled.values()), tuple(ratios), failures)


def beside(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """CPU time of ours and of the older release's, one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(path, setting.older_rows, setting.seed)
        works = {"scan": SCAN, "statistics": SUMS, "audit": AUDIT, "evaluate": EVALUATE, "learn": LEARN}
        entries = [
            Entry(
                "public", "scale", f"ours, {title}", "one thread", {"work": work, "path": str(path)}, most=1
            )
            for work, title in works.items()
        ]
        size = f"{setting.older_rows:,} rows, K = {ACTIONS}"
        return race(arena, entries, part="scale", size=size, unit="log", rounds=setting.repeats + 2)


def _targets(setting: BenchmarkSetting) -> list[tuple[str, float | None]]:
    wanted = {SUMS: MOST_STATISTICS, AUDIT: MOST_AUDIT} if setting.judged else {}
    return [(name, wanted.get(name)) for name in (SCAN, SUMS, AUDIT, EVALUATE, LEARN)]


def _raced(works: dict[str, Callable[[], Any]], size: str, repeats: int) -> dict[str, Measurement]:
    """Wall seconds of each work, in interleaved rounds, after one that compiles."""
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            taken[name].append(time.perf_counter() - start)
    return {
        name: Measurement("scale", size, name, "by the clock", "log", 1, tuple(rounds))
        for name, rounds in taken.items()
    }


def _read(path: Path) -> int:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        return sum(batch.num_rows for batch in file.iter_batches(GROUP, use_threads=True))


def _scaled(log: Scan, size: str, repeats: int) -> tuple[dict[str, Measurement], tuple[Failure, ...]]:
    """The same statistics on clusters of one and of two processes."""
    try:
        import distributed
    except ImportError as error:
        return {}, (Failure("scale", "Dask", f"not installed: {error}"),)
    works: dict[str, Callable[[], Any]] = {}
    clusters: list[Any] = []
    for name, workers in ((ONE, 1), (TWO, 2)):
        cluster: Any = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        )
        clusters.append(cluster)
        there = log.on(cluster.get_client())
        works[name] = partial(sparing.learn, there, "greedy")
    try:
        return _raced(works, size, repeats), ()
    finally:
        for cluster in clusters:
            cluster.close()
