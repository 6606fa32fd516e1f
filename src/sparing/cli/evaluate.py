"""`sparing evaluate`: what a policy would have earned, and how much of that the log can support."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal

if TYPE_CHECKING:
    from sparing.evaluation import Evaluation


@reading.reads_log(
    estimates=True,
    interval=("normal", "normal, bootstrap, block-bootstrap or bernstein."),
    confidence=(0.95, "Of the intervals."),
    band=("range", "Worth of unsupported actions: range, or model."),
    clip=("percentile-ratio", "M: percentile-ratio, a number, or inf."),
    taught=("refuse", "Rows that taught the policy: refuse, or allow and mark."),
)
def evaluate(
    log: reading.GivenLog,
    policy: Annotated[
        str, typer.Option(help="uniform, action:LABEL, or a file from `sparing learn` or Learner.save.")
    ],
    methods: Annotated[str, typer.Option(help="Estimators, with commas; default: all the log allows.")] = "",
    reward_range: reading.RewardRange = "",
    fail_above: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit with code 3 if more of the policy's mass is unsupported."),
    ] = None,
    as_json: reading.AsJson = False,
    **settings: Any,
) -> None:
    """Estimate from a log what a policy would have earned.

    Its mean reward by several methods, each with bounds on what the log cannot see.

    Example: sparing evaluate log.parquet --policy uniform --reward-range 0,1
    """
    from sparing.evaluation import evaluate as evaluate_policy
    from sparing.log.tables import redact_uri

    table, target = reading.read_both(log, policy)
    with reading.walking("evaluating", table) as progress:
        found = evaluate_policy(
            table,
            target,
            methods=reading.words(methods, "methods") or None,
            reward_range=reading.pair(reward_range),
            progress=progress,
            **settings,
        )
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print(found, title=f"{policy} on {redact_uri(log.source)}")
        terminal.tell_next("what it would cost to ask live", ["plan", *log.again("estimate_support")])
    if fail_above is not None and not _within(found, fail_above):
        mass = found.unsupported_mass
        told = "unknown" if mass is None else f"{mass:.4g}"
        terminal.say(f"sparing: unsupported mass {told} is above --fail-above {fail_above:g}")
        raise typer.Exit(terminal.GATE_SHUT)


def _print(found: "Evaluation", *, title: str) -> None:
    from sparing.evaluation.result import HEADER

    terminal.print_table(title, HEADER, [estimate.cells for estimate in found.estimates])
    terminal.tell(str(found).splitlines()[0])
    terminal.tell("* effective rows, as the weights leave them")
    for line in found.unusable_lines:
        terminal.tell(line)
    for note in found.notes:
        terminal.tell(f"note: {note}")
    for warning in found.warnings:
        terminal.tell(warning)


def _within(found: "Evaluation", bound: float) -> bool:
    """Whether every unsupported mass is at most so large; what is unknown, or NaN, is not."""
    told = [e.unsupported_mass for e in found.estimates if e.unsupported_mass is not None]
    return bool(told) and all(mass <= bound for mass in told)
