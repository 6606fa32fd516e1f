"""`sparing evaluate`: what a policy would have earned, and how much of that the log can support."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal

SMALLEST_SHOWN = 0.0005
"""A mass below this would be printed as 0 %."""

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Estimate from a log what a policy would have earned.

    Its mean reward by several methods, each with bounds on what the log cannot see.

    Example: sparing evaluate log.parquet --policy uniform --reward-range 0,1
    """
    from sparing.evaluation import evaluate as evaluate_policy
    from sparing.log.files import named

    table, target = reading.read_both(log, policy)
    with reading.walking("evaluating", table) as progress:
        found = evaluate_policy(
            table,
            target,
            methods=reading.words(methods) or None,
            reward_range=reading.pair(reward_range),
            progress=progress,
            **settings,
        )
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print(found, title=f"{policy} on {named(log.source)}")
        terminal.tell_next("what it would cost to ask live", ["plan", *log.again("estimate_support")])
    if fail_above is not None and not _within(found, fail_above):
        mass = found.unsupported_mass
        told = "unknown" if mass is None else f"{mass:.4g}"
        terminal.say(f"sparing: unsupported mass {told} is above --fail-above {fail_above:g}")
        raise typer.Exit(terminal.GATE_SHUT)


def _print(found: "Evaluation", *, title: str) -> None:
    header = ("method", "value", "interval", "with the unseen", "mass", "rows*")
    terminal.print_table(title, header, [_row(e) for e in found.estimates])
    terminal.tell(str(found).splitlines()[0])
    terminal.tell("* effective rows, as the weights leave them")
    for method, reason in found.unusable.items():
        terminal.tell(f"{method}: not usable, {reason}")
    for note in found.notes:
        terminal.tell(f"note: {note}")
    for warning in _warnings(found):
        terminal.tell(warning)


def _warnings(found: "Evaluation") -> "Iterator[str]":
    """What must not be overlooked, a line each."""
    few = [e.method for e in found.estimates if e.few_rows]
    if few:
        yield f"FEW ROWS: {', '.join(few)} rest on few effective rows (~); take a policy nearer to the log, or more rows."
    cut = [f"{e.method} ({e.clipped_mass:.1%})" for e in found.estimates if e.clipped_mass > 0]
    if cut:
        yield f"CLIPPED: weights were clipped, which takes this much of the policy away (^): {', '.join(cut)}."
    if any(estimate.in_sample for estimate in found.estimates):
        yield "IN-SAMPLE: these rows taught the policy, so every value here is too high."
    if not found.flagged:
        return
    mass, unknown = found.unsupported_mass, [e.method for e in found.estimates if e.unsupported_mass is None]
    if mass is not None and mass >= SMALLEST_SHOWN:
        share = f"{mass:.0%}" if mass >= 0.01 else f"{mass:.1%}"
        yield f"NOT SUPPORTED: {share} of the policy's mass lies where this log cannot tell; use the bounds, not the values (!)."
    elif unknown:
        yield (
            "NOT KNOWN: the log does not say which actions it could have taken, so how much of the policy it cannot "
            f"see is unknown to {', '.join(unknown)} (!)."
        )
    else:
        yield "NOT SUPPORTED: the policy plays actions that could have been logged but have no row (!); see the note."


def _within(found: "Evaluation", bound: float) -> bool:
    """Whether every unsupported mass is at most so large; what is unknown, or NaN, is not."""
    told = [e.unsupported_mass for e in found.estimates if e.unsupported_mass is not None]
    return bool(told) and all(mass <= bound for mass in told)


def _row(estimate: "Estimate") -> tuple[str, ...]:
    bounds = "unknown"
    if estimate.support_low is not None:
        bounds = f"[{estimate.support_low:.4g}, {estimate.support_high:.4g}]"
    mass = "unknown" if estimate.unsupported_mass is None else f"{estimate.unsupported_mass:.1%}"
    signs = ((estimate.flagged, "!"), (estimate.few_rows, "~"), (estimate.clipped_mass > 0, "^"))
    marks = "".join(sign for there, sign in signs if there)
    return (
        estimate.method,
        f"{estimate.value:.4g} {marks}".strip(),
        "none" if estimate.refused else f"[{estimate.low:.4g}, {estimate.high:.4g}]",
        "none" if estimate.refused else bounds,
        mass,
        f"{estimate.effective_sample_size:,.0f}",
    )
