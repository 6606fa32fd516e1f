"""`sparing audit`: where a log is blind, for people, for machines, and as a gate in a pipeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparing.cli import reading

if TYPE_CHECKING:
    from sparing.auditing import Audit

GATE_SHUT = 3
"""The exit code when a --fail-on condition holds."""


@reading.reads_log()
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
    error: Annotated[float, typer.Option(help="ε: the certified error that an action may have.")] = 0.1,
    rare: Annotated[float, typer.Option(help="A propensity below this is rare.")] = 0.01,
    confidence: Annotated[float, typer.Option(help="Of the limits behind an estimated support.")] = 0.95,
    reward_range: reading.RewardRange = "",
    noise: Annotated[float | None, typer.Option(help="σ of a reward; default: estimated.")] = None,
    ridge: Annotated[float, typer.Option(help="λ of the regression.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Probability with which certified errors may fail.")] = 0.05,
    radius_scale: Annotated[float, typer.Option(help="Factor on the radius behind the upsides.")] = 1.0,
    gaps: Annotated[int, typer.Option(min=0, help="Gaps to list.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the rows that are sampled.")] = 0,
) -> None:
    """Say what a log tried, what it could not, where, and what that may be worth.

    Example: sparing audit log.parquet --html audit.html --fail-on "unsupported_share>0.2"
    """
    from sparing.auditing import audit as look_over
    from sparing.auditing import gate
    from sparing.auditing import page as report
    from sparing.cli import terminal

    gates = [gate(text) for text in fail_on or []]
    rows = log.read()
    found = look_over(
        rows,
        policy=reading.read_policy(policy, rows) if policy else None,
        error=error,
        rare=rare,
        confidence=confidence,
        reward_range=reading.pair(reward_range),
        gaps=gaps,
        noise=noise,
        ridge=ridge,
        delta=delta,
        radius_scale=radius_scale,
        seed=seed,
    )
    shut = [verdict for judge in gates if (verdict := judge(found.metrics)) is not None]
    if html is not None:
        report.write(found, html, title=log.path.name)
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print(found)
    if html is not None:
        terminal.say(f"Page: {terminal.shown(html)}")
    for verdict in shut:
        terminal.say(f"sparing: failed on {verdict}")
    if shut:
        raise typer.Exit(GATE_SHUT)


def _print(found: "Audit") -> None:
    from sparing.auditing import wording
    from sparing.cli import terminal

    terminal.tell(f"{found.headline}\n\n{found}\n")
    header, rows = wording.action_table(found, most=20)
    title = (
        "Actions" if len(rows) == found.actions else f"The {len(rows)} least known of {found.actions} actions"
    )
    terminal.print_table(title, header, rows)
    terminal.tell(f"{wording.legend(found)}\n")
    if found.gap_map.gaps:
        terminal.print_table("Gaps", *wording.gap_table(found))
        terminal.tell(wording.upside(found))
    if found.assumptions is not None:
        terminal.tell(f"\nAssumed: {found.assumptions}.")
