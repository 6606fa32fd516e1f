"""Per-action sums of a log on disk, against merely reading it."""

import tempfile
from pathlib import Path

from research.bench.children import Field
from research.bench.house.data import write_table
from research.bench.measuring import COST, Outcome, ratio, shown
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting

OURS, READING = "ours, summing the file", "reading the file"
TARGET = 2.5


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """One Parquet file, in the page cache after the first reading."""
    n, k, d = setting.statistics_rows, setting.statistics_actions, setting.statistics_features
    with tempfile.TemporaryDirectory(prefix="sparing-bench-") as folder:
        path = Path(folder) / "log.parquet"
        write_table(path, rows=n, actions=k, features=d, seed=setting.seed)
        spec = {"path": str(path)}
        raced = race(
            arena,
            [
                Entry("ours", "statistics", OURS, "plain columns, uncompressed", spec, most=1),
                Entry("plain", READING, READING, "batches of 131,072 rows, one thread", spec, most=1),
            ],
            part="statistics",
            size=f"{n:,} rows, d = {d}, K = {k}",
            unit="file",
            rounds=setting.repeats,
        )
    ours, reading = shown(OURS, raced.measurements), shown(READING, raced.measurements)
    if ours is None or reading is None:
        return raced
    return raced + Outcome(ratios=(ratio(ours, reading, of=COST, target=TARGET),))
