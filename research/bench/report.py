"""The benchmark's tables, its figure, and the page that holds them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from research.bench.measuring import COST, BenchmarkResult, Measurement, Ratio
from research.bench.older import OLDER
from research.bench.parts import growth, service, service_growth, step
from research.bench.parts.batch import SUMMING
from research.learners import LEARNERS
from research.pages import put_between
from sparing import archive
from sparing.errors import FileError
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEGIN = "<!-- table: written by `python -m research bench --page`, not by hand -->"
END = "<!-- end of table -->"

OLDER_BEGIN = "<!-- older: written by `python -m research bench --beside REVISION --page`, not by hand -->"
OLDER_END = "<!-- end of older -->"

OLDER_HEADER = ("what", "size", "measured", "older ÷ now (range)", "≥ 0.95")
LEAST = 0.95
"""An older release's time over ours, below which a row counts as slower."""

HEADER = ("what", "size", "ours", "against", "ratio (range)", "target")
SERVED = ("what", "contender", "regime", "least (quartiles)")
OUTLOOK = "CPU time, one thread. Ratios are of the minima; the range is over interleaved rounds."


def with_targets(result: BenchmarkResult) -> list[tuple[str, ...]]:
    """The ratios that have a target, as cells."""
    return [_row(each) for each in result.outcome.ratios if each.target is not None]


def others(result: BenchmarkResult) -> list[tuple[str, ...]]:
    """The ratios beyond the online step that have none, those to an older release apart."""
    found = [
        each
        for each in result.outcome.ratios
        if each.target is None and each.part != "step" and not each.other.startswith(OLDER)
    ]
    return [_row(each)[:-1] for each in found]


def beside_older(result: BenchmarkResult) -> list[tuple[str, ...]]:
    """An older release's time over ours, as cells."""
    found = [each for each in result.outcome.ratios if each.other.startswith(OLDER)]
    return [
        (
            each.part,
            each.size,
            each.ours.removeprefix("ours, "),
            f"{_figure(each.value)} ({_figure(each.low)}–{_figure(each.high)})",
            "yes" if each.value >= LEAST else "no",
        )
        for each in found
    ]


def older_caption(result: BenchmarkResult) -> str:
    """What the comparison is with."""
    return f"Release {result.settings['beside']} in the same rounds: its time over ours"


def _row(each: Ratio) -> tuple[str, ...]:
    word = "the time" if each.of == COST else "faster"
    bound = "≤" if each.of == COST else "≥"
    verdict = "met" if each.met else "missed"
    return (
        each.part,
        each.size,
        each.ours.removeprefix("ours, "),
        each.other,
        f"{_figure(each.value)} × {word} ({_figure(each.low)}–{_figure(each.high)})",
        "" if each.target is None else f"{bound} {each.target:,g}: {verdict}",
    )


def _figure(value: float) -> str:
    """Three digits, whatever the size."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def steps(result: BenchmarkResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and cells of the online step: microseconds of CPU, least and quartiles, by size."""
    measured = [m for m in result.outcome.measurements if m.part == "step"]
    sizes = list(dict.fromkeys(m.size for m in measured))
    rows = []
    for name, regime in dict.fromkeys((m.contender, m.regime) for m in measured):
        by_size = {m.size: m for m in measured if m.contender == name}
        rows.append((name, regime, *(_microseconds(by_size.get(size)) for size in sizes)))
    return ("K × d, µs", "regime", *sizes), rows


def _microseconds(measurement: Measurement | None) -> str:
    if measurement is None:
        return "–"
    low, _, high = (1e6 * value for value in measurement.quartiles)
    return f"{_figure(1e6 * measurement.minimum)} ({_figure(low)}–{_figure(high)})"


def step_ratios(result: BenchmarkResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and cells: how many times faster each of our regimes is than each other, by size."""
    found = [
        each for each in result.outcome.ratios if each.part == "step" and not each.other.startswith(OLDER)
    ]
    sizes = list(dict.fromkeys(each.size for each in found))
    rows = []
    for other, ours in dict.fromkeys((each.other, each.ours) for each in found):
        cells = {each.size: each for each in found if (each.other, each.ours) == (other, ours)}
        shown = (
            f"{_figure(cells[size].value)} ({_figure(cells[size].low)}–{_figure(cells[size].high)})"
            if size in cells
            else "–"
            for size in sizes
        )
        rows.append((other, ours.removeprefix("ours, "), *shown))
    return ("times the time of ours", "ours", *sizes), sorted(rows, key=lambda row: row[1])


def served(result: BenchmarkResult) -> list[tuple[str, ...]]:
    """The service's numbers as cells: least and quartiles, a rate as its highest."""
    found = [m for m in result.outcome.measurements if m.part == service.PART]
    return [(m.size, m.contender.removeprefix("ours, "), m.regime, _formatted(m)) for m in found]


GROWN = {
    service_growth.STORED: "The live service, by stored decisions: least CPU, and b of time = a·nᵇ",
    service_growth.OPEN: "The live service, by open calls: least CPU, and b of time = a·nᵇ",
}


def grown(result: BenchmarkResult) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Title, header and cells of the service's growth: the least CPU time at every size, and the fitted exponent."""
    tables = []
    for part, title in GROWN.items():
        found = [m for m in result.outcome.measurements if m.part == part]
        if not found:
            continue
        sizes = sorted({int(m.size) for m in found})
        rows = []
        for name in dict.fromkeys(m.contender for m in found):
            points = _curve_of(found, name)
            times = dict(points)
            cells = (_duration(times[size]) if size in times else "–" for size in sizes)
            rows.append((name, *cells, f"{service_growth.exponent(points):.2f}"))
        tables.append((title, ("what", *(f"{size:,}" for size in sizes), "b"), rows))
    return tables


def _curve_of(found: Sequence[Measurement], name: str) -> list[tuple[int, float]]:
    """(size, least seconds) of one kind of work, in order of size."""
    return sorted((int(m.size), m.minimum) for m in found if m.contender == name)


def restarted(result: BenchmarkResult) -> list[tuple[str, ...]]:
    """Starts after kill -9 as cells."""
    found = [m for m in result.outcome.measurements if m.part == service_growth.RESTART]
    return [
        (
            "start",
            m.contender,
            m.regime,
            f"{_figure(m.minimum)} s ({_figure(m.quartiles[0])}–{_figure(m.quartiles[2])})",
        )
        for m in found
    ]


def _duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    scale, unit = next(
        (s, u) for s, u in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")) if seconds * s >= 1 or u == "µs"
    )
    return f"{_figure(scale * seconds)} {unit}"


def _formatted(measurement: Measurement) -> str:
    """A number of the service in its own unit."""
    low, _, high = measurement.quartiles
    best = measurement.minimum
    if measurement.unit == service.REQUEST:
        return f"{_figure(1 / best)} a second ({_figure(1 / high)}–{_figure(1 / low)})"
    scale, unit = {
        service.PAIR: (1e6, "µs"),
        service.ANSWER: (1e3, "ms"),
        service.BYTES: (1.0, "bytes"),
        service.MEMORY: (1e-6, "MB"),
        service.START: (1.0, "s"),
    }[measurement.unit]
    return f"{_figure(scale * best)} {unit} ({_figure(scale * low)}–{_figure(scale * high)})"


def provenance(result: BenchmarkResult) -> str:
    """Where and with what it was measured."""
    machine = result.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    memory = "" if machine["memory_gigabytes"] is None else f", {machine['memory_gigabytes']:g} GB"
    peers = ", ".join(peer["requirements"][-1] for peer in result.peers if peer["installed"]) or "none"
    return (
        f"{machine['processor']}, {machine['cores']} cores{memory}, {machine['system']}, Python {machine['python']}, "
        f"{versions}. Peers: {peers}. The run took {result.seconds:,.0f} s."
    )


def markdown(result: BenchmarkResult) -> str:
    """All tables, for table.md and for the page."""
    parts = [OUTLOOK + " " + provenance(result)]
    if not result.settings["judged"]:
        parts += ["Tiny sizes: this shows that it runs, and is not worth quoting."]
    if rows := beside_older(result):
        parts += [f"**{older_caption(result)}**", _table(OLDER_HEADER, rows)]
    if rows := with_targets(result):
        parts += ["**Against the targets**", _table(HEADER, rows)]
    header, rows = steps(result)
    if rows:
        parts += ["**The online step, decide + update: least (quartiles), µs**", _table(header, rows)]
    header, rows = step_ratios(result)
    if rows:
        parts += ["**The online step: the others' time over ours (range of rounds)**", _table(header, rows)]
    if rows := served(result):
        parts += [
            "**The live service: least (quartiles); rates and latencies by the clock**",
            _table(SERVED, rows),
        ]
    for title, header, rows in grown(result):
        parts += [f"**{title}**", _table(header, rows)]
    if rows := restarted(result):
        parts += ["**The live service, a start after kill -9: least (quartiles)**", _table(SERVED, rows)]
    if rows := others(result):
        parts += ["**Compared without a target**", _table(HEADER[:-1], rows)]
    if result.outcome.failures:
        lines = [f"- {each.contender} ({each.part}): {each.reason}" for each in result.outcome.failures]
        parts += ["**Not measured**", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def put_into(text: str, table: str) -> str:
    """The page with its table renewed."""
    return put_between(text, BEGIN, END, table)


def between_markers(text: str) -> str:
    """What a page holds between its markers."""
    return text.split(BEGIN)[1].split(END)[0].strip()


def update_page(path: str | os.PathLike[str], result: BenchmarkResult) -> None:
    """Replace a page's table by this result's."""
    page = Path(path)
    if not page.is_file():
        raise FileError(f"{page} does not exist; name a page with the lines {BEGIN} and {END}")
    text = page.read_text(encoding="utf-8")
    if rows := beside_older(result):
        lines = (f"{older_caption(result)}. {OUTLOOK} {provenance(result)}", _table(OLDER_HEADER, rows))
        text = put_between(text, OLDER_BEGIN, OLDER_END, "\n\n".join(lines))
    else:
        text = put_into(text, markdown(result))
    with archive.replacing(page) as part:
        part.write_text(text, encoding="utf-8")


def draw(result: BenchmarkResult) -> "Figure":
    """How the step and the statistics grow, on logarithmic axes."""
    figure, axes = figures.panels(3, width=4.2, height=3.8)
    colour = LEARNERS["linucb"].colour
    cold: dict[str, Any] = {
        "color": colour,
        "linestyle": "--",
        "markerfacecolor": "white",
        "label": "LinUCB, cold",
    }
    warm: dict[str, Any] = {"color": colour, "linestyle": "-", "label": "LinUCB, warm"}
    steps = {step.COLD: cold, step.WARM: warm}
    file: dict[str, dict[str, Any]] = {SUMMING: {"color": figures.COLOURS[1], "label": "summing the file"}}
    panels = (
        (growth.BY_ACTIONS, steps, "Step, more actions", f"actions K, d = {growth.FEATURES}"),
        (growth.BY_FEATURES, steps, "Step, more features", f"features d, K = {growth.ACTIONS}"),
        (
            growth.BY_ROWS,
            file,
            "Statistics, more rows",
            f"rows n, d = {growth.FILE_FEATURES}, K = {growth.ACTIONS}",
        ),
    )
    with figures.styled():
        for place, (part, shown, title, label) in zip(axes, panels, strict=True):
            unit, label = (1.0, "CPU s a file") if shown is file else (1e6, "CPU µs a step")
            for name, look in shown.items():
                points = growth.curve(result.outcome.measurements, part, name)
                sizes, times = [size for size, _ in points], [unit * time for _, time in points]
                place.plot(sizes, times, marker="o", **look)
            place.set(xscale="log", yscale="log", xlabel=label, ylabel=label, title=title)
            place.legend()
    return figure


def write(result: BenchmarkResult, folder: str | os.PathLike[str]) -> list[Path]:
    """Write benchmarks.json and table.md and, where growth was measured, growth.png."""
    target = archive.folder(folder)
    document, table = target / "benchmarks.json", target / "table.md"
    with archive.replacing(document) as part:
        part.write_text(archive.strict_json(result.to_dict(), indent=1) + "\n", encoding="utf-8")
    with archive.replacing(table) as part:
        part.write_text(markdown(result), encoding="utf-8")
    written = [document, table]
    if any(m.part.startswith("growth") for m in result.outcome.measurements):
        written.append(target / "growth.png")
        figures.save_png(draw(result), written[-1])
    return written


def read(path: str | os.PathLike[str]) -> BenchmarkResult:
    """Read benchmarks.json."""
    return BenchmarkResult.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
