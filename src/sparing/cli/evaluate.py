"""`sparing evaluate`: what a policy would have earned, and how much of that the log can support."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal

if TYPE_CHECKING:
    from sparing.evaluation import Estimate, Evaluation


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
    """Estimate a policy's mean reward from a log, with bounds on what the log cannot see.

    Example: sparing evaluate log.parquet --policy uniform --reward-range 0,1
    """
    from sparing.evaluation import evaluate as evaluate_policy

    table, target = reading.read_both(log, policy)
    found = evaluate_policy(
        table,
        target,
        methods=reading.words(methods) or None,
        reward_range=reading.pair(reward_range),
        **settings,
    )
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print(found, title=f"{policy} on {log.path}")
    if fail_above is not None and not _within(found, fail_above):
        mass = found.unsupported_mass
        told = "unknown" if mass is None else f"{mass:.4g}"
        terminal.say(f"sparing: unsupported mass {told} is above --fail-above {fail_above:g}")
        raise typer.Exit(terminal.GATE_SHUT)


def _print(found: "Evaluation", *, title: str) -> None:
    header = ("method", "value", "interval", "with what the log cannot see", "mass", "effective rows")
    terminal.print_table(title, header, [_row(e) for e in found.estimates])
    terminal.tell(str(found).splitlines()[0])
    for method, reason in found.unusable.items():
        terminal.tell(f"{method}: not usable, {reason}")
    for note in found.notes:
        terminal.tell(f"note: {note}")
    if any(estimate.in_sample for estimate in found.estimates):
        terminal.tell("IN-SAMPLE: these rows taught the policy, so every value here is too high.")
    if found.flagged:
        mass = found.unsupported_mass
        part = "An unknown part of the policy" if mass is None else f"{mass:.0%} of the policy's mass"
        terminal.tell(
            f"NOT SUPPORTED: {part} lies where this log cannot tell; use the bounds, not the values (!)."
        )


def _within(found: "Evaluation", bound: float) -> bool:
    """Whether every unsupported mass is at most so large; what is unknown, or NaN, is not."""
    told = [e.unsupported_mass for e in found.estimates if e.unsupported_mass is not None]
    return bool(told) and all(mass <= bound for mass in told)


def _row(estimate: "Estimate") -> tuple[str, ...]:
    bounds = "unknown"
    if estimate.support_low is not None:
        bounds = f"[{estimate.support_low:.4g}, {estimate.support_high:.4g}]"
    mass = "unknown" if estimate.unsupported_mass is None else f"{estimate.unsupported_mass:.1%}"
    return (
        estimate.method,
        f"{estimate.value:.4g}{' !' if estimate.flagged else ''}",
        f"[{estimate.low:.4g}, {estimate.high:.4g}]",
        bounds,
        mass,
        f"{estimate.effective_sample_size:,.0f}",
    )
