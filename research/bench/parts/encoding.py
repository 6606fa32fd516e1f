"""One live request: from the JSON of twenty raw columns to a context, and to a decision, beside other tools' ways."""

import json
import time
from collections.abc import Callable
from typing import Any

import sparing
from research.bench.field import Field
from research.bench.measuring import COST, FASTER, Failure, Measurement, Outcome, ratio
from research.bench.ours.public import ACTIONS, raw_columns
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting

PARSE, OURS, KERNEL = "json.loads", "ours, encode", "ours, encode with nystroem(128)"
DECIDE, SKLEARN, VW = "ours, encode and decide", "scikit-learn ColumnTransformer", "Vowpal Wabbit, parse"
ROUND_SECONDS = 0.05


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Every contender in every round, in one process."""
    columns = raw_columns(setting.seed)
    log = sparing.read_log(columns)
    kernel = sparing.read_log(columns, features=sparing.features("auto", kernel=sparing.nystroem(128)))
    row = {name: columns[name][7] for name in log.encoder.by_column}
    text = json.dumps(row)
    learner = sparing.confident(log, prior_scale=1.0, spot_check=0.0, tolerance=10.0)
    works: dict[str, Callable[[], Any]] = {
        PARSE: lambda: json.loads(text),
        OURS: lambda: log.encoder.encode(row),
        KERNEL: lambda: kernel.encoder.encode(row),
        DECIDE: lambda: learner.decide(row),
    }
    failures = []
    for name, make in ((SKLEARN, _transformer), (VW, _vowpal_wabbit)):
        try:
            works[name] = make(columns, row)
        except ImportError as error:
            failures.append(Failure("encoding", name, f"not installed: {error}"))
    size = f"20 columns → {log.n_features} features"
    arena.say(f"encoding, {size}: {', '.join(works)}; {setting.repeats + 2} rounds")
    counts = {name: _fitting(work) for name, work in works.items()}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(setting.repeats + 2):
        for name, work in works.items():
            taken[name].append(_timed(work, counts[name]) / counts[name])
    measured = {
        name: Measurement(
            "encoding",
            size,
            name,
            f"{ACTIONS} actions, skipping" if name == DECIDE else "",
            "row",
            counts[name],
            tuple(rounds),
        )
        for name, rounds in taken.items()
    }
    ratios = [
        ratio(measured[OURS], measured[PARSE], of=COST),
        ratio(measured[DECIDE], measured[PARSE], of=COST),
    ]
    ratios += [ratio(measured[OURS], measured[name], of=FASTER) for name in (SKLEARN, VW) if name in measured]
    return Outcome(tuple(measured.values()), tuple(ratios), tuple(failures)) + _beside(setting, arena, size)


def _beside(setting: BenchmarkSetting, arena: Field, size: str) -> Outcome:
    """Ours and the older release's, each in a process of its own."""
    if arena.older is None:
        return Outcome()
    works = {"encode": OURS, "kernel": KERNEL, "decide": DECIDE}
    entries = [
        Entry("public", "encoding", title, "", {"work": work, "seed": setting.seed})
        for work, title in works.items()
    ]
    rounds = setting.repeats + 2
    return race(arena, entries, part="encoding", size=f"{size}, a child each", unit="row", rounds=rounds)


def _transformer(columns: dict[str, list[Any]], row: dict[str, Any]) -> Callable[[], Any]:
    """Scaling and one-hot, as many columns as ours, the moment apart; one row as the frame that it asks for."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pd.DataFrame({name: values for name, values in columns.items() if name in row and name != "t"})
    numbers = [name for name in frame if name.startswith(("n", "b"))]
    words = [name for name in frame if name.startswith("c")]
    transformer = ColumnTransformer(
        [("numbers", StandardScaler(), numbers), ("words", OneHotEncoder(handle_unknown="ignore"), words)]
    ).fit(frame)
    plain = {name: value for name, value in row.items() if name != "t"}
    return lambda: transformer.transform(pd.DataFrame([plain]))


def _vowpal_wabbit(columns: dict[str, list[Any]], row: dict[str, Any]) -> Callable[[], Any]:
    """The same columns as the text of one example, parsed and hashed."""
    from vowpalwabbit import pyvw

    model = pyvw.Workspace("--quiet --cb_explore 2")
    line = "| " + " ".join(
        f"{name}:{value}" if isinstance(value, float) else f"{name}={str(value).replace(':', '')}"
        for name, value in row.items()
    )

    def parse() -> None:
        model.finish_example(model.example(line))

    return parse


def _timed(work: Callable[[], Any], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        work()
    return time.process_time() - start


def _fitting(work: Callable[[], Any]) -> int:
    """Repetitions that fill a round; the first call, which may compile, is not counted."""
    work()
    count = 1
    while _timed(work, count) < ROUND_SECONDS / 4 and count < 100_000:
        count *= 4
    return count
