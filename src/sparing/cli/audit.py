"""`sparing audit`: where a log is blind, for people, for machines, and as a gate in a pipeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal

if TYPE_CHECKING:
    from sparing.auditing import Audit


@reading.reads_log(
    error=(0.1, "ε: the certified error that an action may have."),
    rare=(0.01, "A propensity below this is rare."),
    confidence=(0.95, "Of the limits behind an estimated support."),
    noise=(float, "σ of a reward; default: estimated."),
    ridge=(1.0, "λ of the regression."),
    delta=(0.05, "Probability with which certified errors may fail."),
    radius_scale=(1.0, "Factor on the radius behind the upsides."),
    gaps=(20, "Gaps to list."),
    seed=(0, "Of the rows that are sampled."),
)
def audit(
    log: reading.GivenLog,
    policy: Annotated[
        str,
        typer.Option(help="Target: uniform, action:LABEL, or a file from `sparing learn` or Learner.save."),
    ] = "",
    as_json: reading.AsJson = False,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page to this file.")] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(help="Exit with code 3 if METRIC OP NUMBER holds or is not known; can be repeated."),
    ] = None,
    reward_range: reading.RewardRange = "",
    **settings: Any,
) -> None:
    """Say where a log is blind, and what that may be worth.

    What it tried, what it could not, in which contexts; for people, as JSON, as a page, and with --fail-on as a gate for
    pipelines.

    Example: sparing audit log.parquet --html audit.html --fail-on "unsupported_share>0.2"
    """
    from sparing.auditing import audit as look_over
    from sparing.auditing import gate
    from sparing.auditing import page as report

    gates = [gate(text) for text in fail_on or []]
    rows, target = reading.read_both(log, policy) if policy else (log.open(), None)
    with reading.walking("auditing", rows):
        found = look_over(rows, policy=target, reward_range=reading.pair(reward_range), **settings)
    shut = [verdict for judge in gates if (verdict := judge(found.metrics)) is not None]
    if html is not None:
        report.write(found, html, title=log.name)
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print(found)
        terminal.tell_next("what the log alone teaches", ["learn", *log.again(reward_range=reward_range)])
    if html is not None:
        terminal.say(f"Page: {html}")
    for verdict in shut:
        terminal.say(f"sparing: failed on {verdict}")
    if shut:
        raise typer.Exit(terminal.GATE_SHUT)


def _print(found: "Audit") -> None:
    from sparing.auditing import text

    terminal.tell(f"{found}\n")
    header, rows = text.action_table(found, most=20)
    all_shown = len(rows) == found.actions
    title = "Actions" if all_shown else f"The {len(rows)} least known of {found.actions:,} actions"
    terminal.print_table(title, header, rows)
    terminal.tell(f"{text.legend(found)}\n")
    if found.gap_map.gaps:
        terminal.print_table("Gaps", *text.gap_table(found))
        terminal.tell(text.upside(found))
    if found.assumptions is not None:
        terminal.tell(f"\nAssumed: {found.assumptions}.")
