"""`sparing demo`: compare learners on a simulated support desk, or on a real data set."""

import textwrap
from pathlib import Path
from typing import Any

from sparing.cli import options, terminal
from sparing.errors import SettingError


@options.takes(
    data=("", "Use a real data set: pendigits, satimage, letter, digits, …"),
    never=("", "With --data: classes that are never logged, separated by commas; default: the last three."),
    call_cost=(float, "Cost of a reward call; default: 0.80 EUR, with --data 0.05 of a right answer."),
    tolerance=(float, "Tolerance of confident; default: its own, with --data 0.1."),
    seeds=(int, "Number of runs to average; default: 10, with --data 3.", {"min": 1}),
    out=(Path("sparing-demo"), "Folder for the log, the figure and the page."),
    as_json=options.JSON,
)
def demo(*, data: str, never: str, seeds: int | None, out: Path, as_json: bool, **given: Any) -> None:
    """Compare learners that pay for few rewards with those that pay for all, on a simulated support desk.

    Results are in euros; no network is needed. With --data it uses a real data set with classes that were never logged.

    Example: sparing demo --call-cost 0.40 --seeds 3
    """
    from sparing.archive import check_folder

    check_folder(out)
    given["seeds"] = seeds and tuple(range(seeds))
    settings = {name: value for name, value in given.items() if value is not None}
    if data:
        _classes(data, tuple(options.words(never, "never")), settings, out, as_json=as_json)
    elif never:
        raise SettingError(f"never={never!r} names classes of a real data set. Name the data set with --data")
    else:
        _run_support_desk(settings, out, as_json=as_json)


def _run_support_desk(settings: dict[str, Any], out: Path, *, as_json: bool) -> None:
    from sparing import archive
    from sparing.demo import support_desk
    from sparing.demo import support_desk_page as page

    def show(*texts: str) -> None:
        if not as_json:
            terminal.print_text(*texts)

    setting = support_desk.DeskSetting(**settings)
    table, log = support_desk.first_table(setting), out / "tickets.csv"
    archive.folder(out)
    support_desk.write_table(table, log)
    show(f"{page.filled(page.opening(setting))}\n\n{page.sample_text(table)}\n")
    begun = support_desk.begin(setting, table)
    show("{}\n".format("\n  ".join(page.audit_text(begun))))
    with terminal.progress_bar("learning live") as progress:
        result = support_desk.go_live(begun, progress=progress)
    after = [f"{terminal.program()} {command}" for command in page.commands(setting, log)]
    written = terminal.drawn(lambda: page.write(result, out, after))
    if as_json:
        terminal.print_json({**result.to_dict(), "verdict": page.verdict(result), "next": after})
        terminal.print_status(f"Log:    {log}\n{written}")
        return
    terminal.print_table(page.title(result), page.HEADER, page.rows(result))
    texts = page.verdict(result), page.method(result), f"The truth: {support_desk.TRUTH_TEXT}"
    show(*(f"{page.filled(text)}\n" for text in texts), f"Log:    {log}\n{written}\n\nNext:")
    terminal.print_text("\n".join(f"  {command}" for command in after), whole=True)


def _classes(
    data: str, never: tuple[str, ...], settings: dict[str, Any], out: Path, *, as_json: bool
) -> None:
    from sparing.demo import classification as report
    from sparing.simulation import datasets

    dataset = datasets.load(data, fallback=data == "pendigits", say=terminal.print_status)
    setting = report.DemoSetting(data, never, **settings)
    with terminal.progress_bar("learning live") as progress:
        result = report.demonstrate(setting, dataset, progress=progress)
    written = terminal.drawn(lambda: report.write(result, out))
    if as_json:
        terminal.print_json(result.to_dict())
        terminal.print_status(written)
        return
    audit = textwrap.indent(str(result.audit), "  ")
    terminal.print_text(f"A log of {result.dataset}, its first seed:\n{audit}\n")
    terminal.print_table("Going live", report.HEADER, report.rows(result))
    terminal.print_text(f"{report.headline(result)}\n\n{report.provenance(result)}\n\n{written}")
