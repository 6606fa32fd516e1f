"""`sparing learn`: a policy from the log alone."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sparing.cli import reading, terminal

MOST_SHOWN = 12
"""Actions in the table for people; JSON has them all."""


@reading.reads_log(estimates=True)
def learn(
    log: reading.GivenLog,
    method: Annotated[
        str,
        typer.Option(
            help="auto (tries several), greedy, pessimistic, boosted, ipw-logistic, pi-plus, opr, opr-dlm, extrapolation, "
            "poem, norm-poem or caipwl."
        ),
    ] = "greedy",
    out: Annotated[Path, typer.Option(help="Where to save the policy.")] = Path("policy.sparing"),
    option: Annotated[
        list[str] | None, typer.Option(help="A setting of the method, as NAME=VALUE; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Splits the contexts into folds, draws starts.")] = 0,
    as_json: reading.AsJson = False,
) -> None:
    """Learn a policy from a log without asking for a single reward, and save it.

    Settings that are not given are chosen on held-out contexts by the support-aware lower limit.

    Example: sparing learn log.parquet --method opr --out opr.sparing
    """
    import numpy as np

    from sparing.learning import learn as learn_policy
    from sparing.policies.saving import save_policy

    table = log.read()
    with terminal.progress_bar(f"learning {method}") as progress:
        policy: Any = learn_policy(table, method, seed=seed, progress=progress, **reading.settings(option))
    save_policy(policy, out)
    shares = policy.probabilities(table.contexts).mean(axis=0)
    order = np.argsort(-shares, kind="stable")
    played = [(str(table.action_names[action]), float(shares[action])) for action in order]
    if as_json:
        terminal.print_json(
            {"method": method, "out": str(out), "notes": policy.notes, "shares": dict(played)}
        )
        return
    rows = [(name, f"{share:.1%}") for name, share in played[:MOST_SHOWN]]
    few = len(played) <= MOST_SHOWN
    shown = "all actions" if few else f"the {MOST_SHOWN} most played of {len(played)} actions"
    terminal.print_table(f"{method} on the log's contexts, {shown}", ("action", "share of play"), rows)
    for note in policy.notes:
        terminal.tell(f"note: {note}")
    saved = terminal.shown(out)
    terminal.tell(f"Policy: {saved}\nNext:   sparing evaluate {terminal.shown(log.path)} --policy {saved}")
