"""`sparing learn`: a policy from the log alone, and what rows that did not teach it say of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal

if TYPE_CHECKING:
    from sparing.evaluation import Estimate, Evaluation
    from sparing.log.rows import AnyLog

MOST_SHOWN = 12
"""Actions in the table for people; JSON has them all."""


@reading.reads_log(estimates=True)
def learn(
    log: reading.GivenLog,
    method: Annotated[
        str,
        typer.Option(
            help="auto (tries several), greedy, pessimistic, boosted, stacked, ipw-logistic, pi-plus, opr, opr-dlm, "
            "extrapolation, poem, norm-poem or caipwl."
        ),
    ] = "greedy",
    out: Annotated[Path, typer.Option(help="Where to save the policy.")] = Path("policy.sparing"),
    holdout: Annotated[
        float,
        typer.Option(
            help="The share of contexts to judge the policy by, not learn it from; 0: learn from all."
        ),
    ] = 0.3,
    reward_range: reading.RewardRange = "",
    option: Annotated[
        list[str] | None, typer.Option(help="A setting of the method, as NAME=VALUE; may be repeated.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Splits the contexts into folds and holds some out, draws starts.")
    ] = 0,
    as_json: reading.AsJson = False,
) -> None:
    """Learn a policy from a log alone, and save it.

    Three tenths of the contexts are held out, and the policy's value is estimated on them. Settings that are
    not given are chosen on folds of the others by the support-aware lower limit.

    Example: sparing learn log.parquet --method opr --out opr.sparing
    """
    import numpy as np

    from sparing.learning import learn as learn_policy
    from sparing.policies.files import save_policy
    from sparing.policies.policy import mean_probabilities

    table, settings = log.open(), reading.settings(option)
    if reward_range:
        settings["reward_range"] = reading.pair(reward_range)
    with reading.walking(f"learning {method}", table) as progress:
        policy: Any = learn_policy(table, method, seed=seed, holdout=holdout, progress=progress, **settings)
    with reading.walking("judging it", table):
        found = _judged(table, policy, settings.get("reward_range")) if holdout else None
        shares = mean_probabilities(policy, table)
    save_policy(policy, out)
    order = np.argsort(-shares, kind="stable")
    played = [(str(table.action_names[action]), float(shares[action])) for action in order]
    if as_json:
        record = {"method": method, "out": str(out), "notes": policy.notes, "shares": dict(played)}
        held = found and {"share": holdout, "by": policy.taught.split.by, **found.to_dict()}
        terminal.print_json({**record, "rows_taught": policy.taught.rows, "held_out": held})
        return
    _print(method, played, policy.notes)
    _tell(found, policy.taught.rows)
    terminal.tell(f"Policy: {out}", whole=True)
    if found is None:
        again, why = ["ANOTHER_LOG", *reading.options(policy=out)], "judge it by another log"
    else:
        again, why = log.again(policy=out, reward_range=reward_range), "all methods, on the rows held out"
    terminal.tell_next(why, ["evaluate", *again])


def _judged(table: "AnyLog", policy: Any, reward_range: Any) -> "Evaluation":
    """The policy's estimate on the rows held out: doubly robust, or by regression where there are no propensities."""
    from sparing.evaluation import evaluate
    from sparing.log.rows import rows_of

    method = "dm" if rows_of(table).header.propensities is None else "dr"
    return evaluate(table, policy, methods=[method], reward_range=reward_range)


def _print(method: str, played: list[tuple[str, float]], notes: tuple[str, ...]) -> None:
    rows = [(name, f"{share:.1%}") for name, share in played[:MOST_SHOWN]]
    shown = "all actions"
    if len(played) > MOST_SHOWN:
        rows = rows[: max(1, sum(share > 0 for _, share in played))]
        which = "most played" if len(rows) == MOST_SHOWN else "that it plays,"
        shown = f"the {len(rows)} {which} of {len(played):,} actions"
    terminal.print_table(f"{method} on the log's contexts, {shown}", ("action", "share of play"), rows)
    for note in notes:
        terminal.tell(f"note: {note}")


def _tell(found: "Evaluation | None", taught: int) -> None:
    if found is None:
        terminal.tell(
            f"All {taught:,} rows taught it, so none of them can say what it is worth (--holdout 0)."
        )
        return
    estimate: Estimate = found.estimates[0]
    terminal.tell(
        f"Learnt from {taught:,} rows, judged on the {found.rows:,} held out, where the log earned "
        f"{found.logged_mean:.4g}:\n  {estimate}"
    )
    for note in estimate.notes:
        terminal.tell(f"  note: {note}")
