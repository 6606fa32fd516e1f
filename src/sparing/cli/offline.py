"""`sparing audit`, `learn`, `evaluate` and `plan`: commands that need a log and no service."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import options, terminal
from sparing.errors import LogError

if TYPE_CHECKING:
    from sparing.asking.ask import Queue
    from sparing.auditing import Audit
    from sparing.evaluation import Estimate, Evaluation
    from sparing.log.rows import AnyLog

MAX_SHOWN = 12  # actions in the table for people; JSON has them all


@options.reads_log(
    policy=("", "Target: uniform, action:LABEL, or a file from `sparing learn` or Learner.save."),
    as_json=options.JSON,
    html=(Path, "Write a self-contained page to this file."),
    fail_on=(
        list[str],
        "Exit with code 3 if METRIC OP NUMBER holds or is unknown; may be repeated.",
    ),
    reward_range=options.REWARD_RANGE,
    error=(0.1, "ε: largest certified error of a supported action's mean."),
    rare=(0.01, "Propensities below this count as rare."),
    confidence=(0.95, "Confidence of the limits of an estimated support."),
    noise=(float, "Standard deviation of a reward around its mean; default: estimated."),
    ridge=(1.0, "λ of the regression."),
    delta=(0.05, "Probability that a certified error bound fails."),
    radius_scale=(1.0, "Factor on the confidence radius of the upsides."),
    gaps=(20, "Number of gaps to list."),
    seed=(0, "Seed of the sampled rows."),
)
def audit(
    log: options.GivenLog,
    *,
    policy: str,
    as_json: bool,
    html: Path | None,
    fail_on: list[str] | None,
    reward_range: str,
    **settings: Any,
) -> None:
    """Report what a log does not cover, and what that may be worth.

    It lists actions that were never or rarely logged, and in which contexts: as text, as JSON, as a page, and with
    --fail-on as a gate for pipelines.

    Example: sparing audit log.parquet --html audit.html --fail-on "unsupported_share>0.2"
    """
    from sparing.auditing import audit as audit_log
    from sparing.auditing import gate
    from sparing.auditing import page as report

    gates = [gate(text) for text in fail_on or []]
    rows, target = options.read_both(log, policy) if policy else (log.open(), None)
    with options.progress_of("auditing", rows):
        found = audit_log(rows, policy=target, reward_range=options.pair(reward_range), **settings)
    failed = [verdict for check in gates if (verdict := check(found.metrics)) is not None]
    if html is not None:
        report.write(found, html, title=log.name)
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print_audit(found)
        terminal.print_next_step(
            "what can be learnt offline, from this log",
            [
                "learn",
                *log.repeat_options(
                    reward_range=reward_range, method="posterior" if "items" in log.given else None
                ),
            ],
        )
    if html is not None:
        terminal.print_status(f"Page: {html}")
    for verdict in failed:
        terminal.print_status(f"sparing: failed on {verdict}")
    if failed:
        raise typer.Exit(terminal.EXIT_GATE_FAILED)


def _print_audit(found: "Audit") -> None:
    from sparing.auditing import text

    terminal.print_text(f"{found}\n")
    header, rows = text.action_table(found, most=20)
    all_shown = len(rows) == found.actions
    title = "Actions" if all_shown else f"The {len(rows)} least known of {found.actions:,} actions"
    terminal.print_table(title, header, rows)
    terminal.print_text(f"{text.legend(found)}\n")
    if found.gap_map.gaps:
        terminal.print_table("Gaps", *text.gap_table(found))
        if limits := text.upside(found):
            terminal.print_text(limits)
    if found.assumptions is not None:
        terminal.print_text(f"\nAssumed: {found.assumptions}.")


@options.reads_log(
    estimate_support=options.ESTIMATED_BY_DEFAULT,
    method=(
        "greedy",
        "auto (tries several), greedy, posterior (with --items too), pessimistic, boosted, stacked, ipw-logistic, pi-plus, opr, opr-dlm, "
        "extrapolation, poem, norm-poem or caipwl.",
    ),
    out=(Path("policy.sparing"), "Where to save the policy."),
    holdout=(0.3, "Share of contexts held out to evaluate the policy; 0: learn from all."),
    reward_range=options.REWARD_RANGE,
    option=(list[str], "A setting of the method, as NAME=VALUE; may be repeated."),
    answers=options.ANSWERS,
    seed=(0, "Seed of folds, held-out contexts and random starts."),
    as_json=options.JSON,
)
def learn(
    log: options.GivenLog,
    *,
    method: str,
    out: Path,
    holdout: float,
    reward_range: str,
    option: list[str] | None,
    answers: list[str] | None,
    seed: int,
    as_json: bool,
) -> None:
    """Learn a policy offline, from a log, and save it.

    By default 30 % of the contexts are held out to estimate the policy's value. Settings that are not given are chosen
    by cross-validation on the others, by the support-aware lower limit.

    Example: sparing learn log.parquet --method opr --out opr.sparing
    """
    import numpy as np

    from sparing.asking.answers import with_actions
    from sparing.errors import SettingError
    from sparing.evaluation import evaluate as evaluate_policy
    from sparing.learning import METHODS, USE_ITEMS
    from sparing.learning import learn as learn_policy
    from sparing.log.rows import as_rows
    from sparing.policies.files import save_policy
    from sparing.policies.policy import mean_probabilities

    if "items" in log.given and method in METHODS and method not in USE_ITEMS:
        raise SettingError(
            f"--items with --method {method}, which does not use features of actions. "
            f"Use --method {' or '.join(USE_ITEMS)}, or leave --items out"
        )
    table, settings, estimates = log.open(), options.settings(option), log.options["estimate_support"]
    judged = log.judged(table, answers, reward_range)
    if judged is not None:
        table = with_actions(as_rows(table).read(), judged.action_names)
        settings["judged"] = judged
    if reward_range:
        settings["reward_range"] = options.pair(reward_range)
    with options.progress_of(f"learning {method}", table) as progress:
        policy: Any = learn_policy(
            table,
            method,
            seed=seed,
            holdout=holdout,
            estimate_support=estimates is not False,
            progress=progress,
            **settings,
        )
    notes, known, found = list(policy.notes), table, None
    with options.progress_of("evaluating it", table):
        if holdout:
            if estimates is None:
                known, said = _with_support(table, seed)
                notes += [note for note in said if note not in notes]
            how = ["dm" if as_rows(table).header.propensities is None else "dr"]
            found = evaluate_policy(known, policy, methods=how, reward_range=settings.get("reward_range"))
        shares = mean_probabilities(policy, table)
    save_policy(policy, out)
    order = np.argsort(-shares, kind="stable")
    played = [(str(table.action_names[action]), float(shares[action])) for action in order]
    if as_json:
        record = {"method": method, "out": str(out), "notes": notes, "shares": dict(played)}
        held = found and {"share": holdout, "by": policy.trained_on.split.by, **found.to_dict()}
        terminal.print_json({**record, "rows_taught": policy.trained_on.rows, "held_out": held})
        return
    _print_shares(method, played, notes)
    _print_held_out(found, policy.trained_on.rows)
    terminal.print_text(f"Policy: {out}", whole=True)
    if found is None:
        again, why = ["ANOTHER_LOG", *options.options(policy=out)], "evaluate it on another log"
    else:
        names = options.listed(table.action_names) if judged is not None else None
        again, why = (
            log.repeat_options(
                "estimate_support",
                *(() if judged is None else ("actions",)),
                policy=out,
                actions=names,
                reward_range=reward_range,
                estimate_support=True if estimates or known is not table else None,
            ),
            "all methods, on the rows held out",
        )
    terminal.print_next_step(why, ["evaluate", *again])


def _with_support(table: "AnyLog", seed: int) -> "tuple[AnyLog, list[str]]":
    """Return a log with its support estimated if it was not logged, and a note; its propensities stay as they are."""
    from sparing.auditing.support import estimate_support, estimated_note
    from sparing.log import Log

    if not isinstance(table, Log) or table.support.known:
        return table, []
    try:
        known = estimate_support(table, seed=seed)[0]
    except LogError as error:  # too few rows
        return table, [f"The support is unknown: {error}"]
    return replace(known, propensities=table.propensities), [estimated_note(table)]


def _print_shares(method: str, played: list[tuple[str, float]], notes: list[str]) -> None:
    rows = [(name, f"{share:.1%}") for name, share in played[:MAX_SHOWN]]
    shown = "all actions"
    if len(played) > MAX_SHOWN:
        rows = rows[: max(1, sum(share > 0 for _, share in played))]
        which = "most played" if len(rows) == MAX_SHOWN else "that it plays,"
        shown = f"the {len(rows)} {which} of {len(played):,} actions"
    terminal.print_table(f"{method} on the log's contexts, {shown}", ("action", "share of play"), rows)
    terminal.print_text(*(f"note: {note}" for note in notes))


def _print_held_out(found: "Evaluation | None", n_rows: int) -> None:
    if found is None:
        terminal.print_text(f"Trained on all {n_rows:,} rows, so none is left to evaluate it (--holdout 0).")
        return
    estimate: Estimate = found.estimates[0]
    terminal.print_text(
        f"Trained on {n_rows:,} rows, evaluated on the {found.rows:,} held out, where the log earned "
        f"{found.logged_mean:.4g}:\n  {estimate}",
        *(f"  note: {note}" for note in estimate.notes),
    )


@options.reads_log(
    estimates=True,
    policy=(options.REQUIRED, "uniform, action:LABEL, or a file from `sparing learn` or Learner.save."),
    methods=("", "Estimators, separated by commas; default: all that the log allows."),
    reward_range=options.REWARD_RANGE,
    fail_above=(
        float,
        "Exit with code 3 if the policy's probability on unsupported actions is larger.",
        {"min": 0, "max": 1},
    ),
    as_json=options.JSON,
    taught=("", "", {"hidden": True}),
    interval=("normal", "normal, bootstrap, block-bootstrap or bernstein."),
    confidence=(0.95, "Confidence of the intervals."),
    band=("range", "Bounds on the value of unsupported actions: range, or model."),
    clip=("percentile-ratio", "Largest importance weight: percentile-ratio, a number, or inf."),
    training_rows=("refuse", "Rows that the policy was trained on: refuse, or allow and mark."),
)
def evaluate(
    log: options.GivenLog,
    *,
    policy: str,
    methods: str,
    reward_range: str,
    fail_above: float | None,
    as_json: bool,
    taught: str,
    **settings: Any,
) -> None:
    """Estimate from a log what a policy would have earned.

    It reports the mean reward by several methods, each with bounds for actions that the log does not support.

    Example: sparing evaluate log.parquet --policy uniform --reward-range 0,1
    """
    from sparing.evaluation import evaluate as evaluate_policy
    from sparing.log.tables import redact_uri

    if taught:
        terminal.print_status("sparing: --taught is now --training-rows; the next release drops the old name")
        settings["training_rows"] = taught
    table, target = options.read_both(log, policy)
    with options.progress_of("evaluating", table) as progress:
        found = evaluate_policy(
            table,
            target,
            methods=options.words(methods, "methods") or None,
            reward_range=options.pair(reward_range),
            progress=progress,
            **settings,
        )
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        title = f"{policy} on {redact_uri(log.source)}"
        terminal.print_table(title, found.header, [estimate.cells for estimate in found.estimates])
        notes = [f"note: {note}" for note in found.notes]
        first, marks = str(found).splitlines()[0], "* effective number of rows, given the weights"
        terminal.print_text(first, marks, *found.unusable_lines, *notes, *found.warnings)
        terminal.print_next_step(
            "what live reward calls would cost", ["plan", *log.repeat_options("estimate_support")]
        )
    masses = [e.unsupported_mass for e in found.estimates if e.unsupported_mass is not None]
    if fail_above is not None and not (masses and all(mass <= fail_above for mass in masses)):
        mass = found.unsupported_mass
        text = "unknown" if mass is None else f"{mass:.4g}"
        terminal.print_status(
            f"sparing: the policy's probability on unsupported actions, {text}, is above --fail-above {fail_above:g}"
        )
        raise typer.Exit(terminal.EXIT_GATE_FAILED)


@options.reads_log(
    call_cost=(float, "Cost of a reward call, in units of the reward; default: try a few."),
    horizon=(int, "Number of live rounds; default: the number of rows of the log."),
    budget=(int, "Largest number of reward calls; default: no limit."),
    tolerances=(
        "",
        "Largest losses of a skipped round, separated by commas; default: 0.05, 0.2 and 0.5 of the noise.",
    ),
    learners=("", "Learners to compare, separated by commas; default: economical,confident,certified."),
    out=(Path, "Folder for plan.png and plan.html; default: none."),
    as_json=options.JSON,
    regret=(float, "Find the cheapest option with at most this regret."),
    worlds=(40, "Number of simulated environments, drawn from the log's posterior."),
    confidence=(0.9, "Confidence of the prediction intervals."),
    noise=(float, "Standard deviation of a reward around its mean; default: estimated."),
    prior_scale=(float, "Standard deviation of a parameter between actions; default: from the log."),
    ridge=(1.0, "Regularisation of the learners but economical and confident."),
    radius_scale=(1.0, "Factor on the confidence radius; below 1 voids the guarantees."),
    kernel=("", "Kernel features to add for rewards that are not linear: auto, or a number of landmarks."),
    answers=options.ANSWERS,
    shift=options.SHIFT,
    half_life=(
        int,
        "Rounds in which rows lose half of their weight (economical, confident); default: never.",
    ),
    seed=(0, "Seed of the simulated environments."),
    workers=(0, "Threads; 0: one per core."),
)
def plan(
    log: options.GivenLog,
    *,
    tolerances: str,
    learners: str,
    kernel: str,
    shift: str,
    out: Path | None,
    answers: list[str] | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Predict how many reward calls are worth making live.

    It simulates environments drawn from the log's posterior, and reports what reward calls gain and cost. The page of --out needs
    matplotlib.

    Example: sparing plan log.parquet --call-cost 0.05 --horizon 5000
    """
    from sparing.archive import check_folder
    from sparing.asking.answers import with_answers
    from sparing.log.rows import as_rows
    from sparing.planning import page as report
    from sparing.planning import result
    from sparing.planning.plan import COMPARED
    from sparing.planning.plan import plan as make_plan

    if out is not None:
        check_folder(out)
    if tolerances:
        settings["tolerances"] = options.numbers("tolerances", tolerances, example="0.05,0.1")
    settings["learners"] = options.words(learners, "learners") or COMPARED
    settings["workers"] = settings["workers"] or None
    settings["kernel"] = int(kernel) if kernel.isdecimal() else kernel or None
    settings["shift"] = options.shift_of(shift)
    rows = log.open()
    judged = log.judged(rows, answers)
    if judged is not None:
        rows = with_answers(as_rows(rows).read(), judged)
    with options.progress_of("simulating", rows) as progress:
        found = make_plan(rows, **settings, progress=progress)
    files = "" if out is None else terminal.drawn(lambda: report.write(found, out))
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        terminal.print_text(found.sentence, *found.warnings, "")
        terminal.print_table(result.table(found)[0], result.header(found), result.rows(found))
        terminal.print_text(*result.basis(found))
        if found.call_cost is not None and found.chosen not in (None, found.alone) and log.path.is_file():
            again = log.repeat_options(
                *("engine", "workers", "sample"),
                call_cost=found.call_cost,
                horizon=found.horizon,
                shift=shift,
                half_life=settings["half_life"],
            )
            again += [word for file in answers or () for word in options.options(answers=file)]
            named = options.options(name="live", log=log.source)
            terminal.print_next_step("go live", ["serve", "store", *named, *again[1:]])
    if files:
        terminal.print_status(files)


@options.reads_log(
    about=(
        "",
        "Actions to ask about, separated by commas; one that the log does not know is new. Default: all.",
    ),
    calls=(100, "Answers to queue, at most.", {"min": 1}),
    call_cost=(float, "Price of one judged answer, in units of the reward; required."),
    horizon=(int, "Rounds that profit from the answers; default: the number of rows of the log."),
    pool=(
        "",
        "A table of contexts to ask in, with the log's feature columns; default: those of the log.",
    ),
    out=(Path, "Write the queue to this CSV file."),
    html=(Path, "Write a self-contained page to this file."),
    answers=options.ANSWERS,
    reward_range=options.REWARD_RANGE,
    candidates=(
        1,
        "Random contexts per call among which the queue is chosen; 1: rows at random, more where rewards are linear.",
        {"min": 1},
    ),
    kernel=("", "Kernel features to add for rewards that are not linear: auto, or a number of landmarks."),
    prior_scale=(float, "Standard deviation of a parameter between actions; default: from the log."),
    noise=(float, "Standard deviation of a reward around its mean; default: estimated."),
    seed=(0, "Seed of ties, of the candidates, and of the random part that stands for a large pool."),
    as_json=options.JSON,
)
def ask(
    log: options.GivenLog,
    *,
    about: str,
    pool: str,
    out: Path | None,
    html: Path | None,
    answers: list[str] | None,
    reward_range: str,
    kernel: str,
    as_json: bool,
    **settings: Any,
) -> None:
    """Choose which rewards to buy before anybody is served.

    It queues rows of the log, or of --pool, and actions whose rewards repay their price. Have the file judged, fill in its
    column `reward`, and pass it as --answers: the answers are taken in, and a verdict says whether to switch.

    Example: sparing ask log.parquet --about new-model --calls 50 --call-cost 0.01 --out queue.csv
    """
    from sparing.asking import page, text
    from sparing.asking.answers import entries
    from sparing.asking.ask import prepare
    from sparing.errors import SettingError
    from sparing.report.text import sentence

    if settings["call_cost"] is None:
        raise SettingError(
            "--call-cost is missing; what does one judged answer cost, in units of the reward?"
        )
    log.refuse_sample("ask")
    if out is not None and any(Path(file).resolve() == out.resolve() for file in answers or ()):
        raise SettingError(f"--out {out} is among the --answers, which would be lost; write to another file")
    costs = options.costs_of(log.options["costs"])
    if isinstance(costs, dict):  # also of actions that the log does not know
        rows = replace(log, options={**log.options, "costs": ""}).open()
    else:
        rows, costs = log.open(), None
    wanted = options.labels(log.source, log.options, options.words(about, "about")) or None
    limits = options.pair(reward_range)
    given = {name: value for name, value in settings.items() if value is not None}
    given |= {} if limits is None else {"reward_range": limits}
    with options.progress_of("asking", rows) as progress:
        request = prepare(
            rows,
            actions=wanted,
            pool=pool or None,
            table=None if pool else log.table(),
            columns=log.roles,
            kernel=int(kernel) if kernel.isdecimal() else kernel or None,
            progress=progress,
            costs=costs,
            **{"horizon": None, **given},
        )
        result = None
        if answers:
            result = request.tell([entry for file in answers for entry in entries(file)])
        queue = request.queue(request.alone, (), ()) if result is None else result.queue
    if out is not None and queue.calls:
        queue.write(out)
    if html is not None:
        page.write(queue, html, title=log.name, result=result)
    if as_json:
        terminal.print_json(
            {"verdict": None if result is None else result.verdict.to_dict(), "queue": queue.to_dict()}
        )
    else:
        if result is not None:
            terminal.print_text(sentence(str(result.verdict)), "")
        terminal.print_text(queue.sentence, *queue.notes)
        if queue.calls:
            terminal.print_table(*text.queue_table(queue), words=True)
        _print_next_asking(log, queue, answers, out, about=about, pool=pool, **given)
    if out is not None:
        said = f"Queue: {out}" if queue.calls else f"Nothing to ask; {out} was not written"
        terminal.print_status(said)
    if html is not None:
        terminal.print_status(f"Page: {html}")


def _print_next_asking(
    log: options.GivenLog, queue: "Queue", answers: list[str] | None, out: Path | None, **given: Any
) -> None:
    """Print how to take the answers in; after the last ones, how to learn from them."""
    files = [str(file) for file in answers or ()]
    if queue.calls and out is not None:
        named = {**given, "reward_range": ""}
        again = ["ask", *log.repeat_options(**{k: v for k, v in named.items() if k != "seed" or v})]
        files.append(str(out))
        why = "fill in its column reward, and take the answers in"
    elif not queue.calls and files:
        again, why = ["learn", *log.repeat_options()], "learn a policy from the log and the answers"
        if log.options["costs"]:  # all actions with a cost must be named
            names = options.listed(queue.request.summary.action_names)
            again = ["learn", *log.repeat_options("actions", actions=names)]
    else:
        return
    again += [word for file in files for word in options.options(answers=file)]
    terminal.print_next_step(why, again)


@options.takes(
    source_format=(
        "",
        "Read as: table, obp, open-bandit, vw, vw-adf, vw-json, dsjson, coba, river.",
        {"flag": "--from"},
    ),
    target_format=("", "Write as: table, obp, vw, vw-adf, dsjson.", {"flag": "--to"}),
    option=(
        list[str],
        "A setting of the reader, as NAME=VALUE: actions, context_id, position, … (docs/formats.md); may be repeated.",
    ),
    as_json=options.JSON,
)
def convert(
    source: Annotated[str, typer.Argument(help="The log to read; its format is detected from its content.")],
    target: Annotated[Path, typer.Argument(help="The file to write; its ending chooses the format.")],
    *,
    source_format: str,
    target_format: str,
    option: list[str] | None,
    as_json: bool,
) -> None:
    """Convert a log from one format to another.

    It prints what it assumed, and what the target cannot store.

    Example: sparing convert decisions.dsjson log.parquet
    """
    from sparing.log.formats import convert as convert_log
    from sparing.log.rows import as_rows
    from sparing.log.text_files import is_table

    with options.utf8_name(Path(source), target), terminal.progress_bar("converting") as progress:
        log, assumed, lost = convert_log(
            source,
            target,
            source_format or None,
            target_format or None,
            progress=progress,
            **options.settings(option, "action=banner"),
        )
    if as_json:
        terminal.print_json(
            {
                "rows": log.n_rows,
                "actions": log.n_actions,
                "features": log.n_features,
                "support": as_rows(log).header.support.kind,
                "target": str(target),
                "assumed": assumed,
                "lost": lost,
            }
        )
        return
    terminal.print_text(f"Log({repr(log).partition('(')[2]}")
    terminal.print_text(
        *(f"assumed: {each.removeprefix(options.ASSUMED)}" for each in assumed),
        *(f"not carried: {each}" for each in lost),
    )
    terminal.print_text(f"Written: {target}", whole=True)
    if is_table(target) and target_format in ("", "table"):
        terminal.print_next_step("find what the log does not cover", ["audit", shlex.quote(str(target))])
