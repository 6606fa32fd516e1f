"""Which rewards to buy before anybody is served: the queue of (row, action) pairs, and what judged answers say."""

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.asking import answers as files
from sparing.asking.answers import Answer
from sparing.asking.pool import CANDIDATES, Candidates, Pool, cell_text, identifier
from sparing.asking.verdict import (
    LEVEL,
    Verdict,
    find_switches,
    gain_distribution,
    mixture_limits,
    moved_weights,
)
from sparing.engines import Progress
from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.columns import ColumnRoles
from sparing.log.costs import CostsOption, action_costs, check_cost_units
from sparing.log.labels import label_text, normalize_label, shorten, suggest
from sparing.log.rows import AnyLog, RewardSummary
from sparing.log.sketches import sample_contexts
from sparing.model.statistics import LogSummary, Statistics
from sparing.online.algorithms import economical
from sparing.online.engine.pool import best_call, chords
from sparing.online.learner import Learner
from sparing.online.start import KernelOption, SummaryWithFit, resolve_kernel, with_unseen
from sparing.report import notebook
from sparing.report.text import counted, number
from sparing.validation import integer
from sparing.validation import number as checked_number

if TYPE_CHECKING:
    import pandas

DRAWS = 256  # of the reward means that a queue may lead to

Pick = tuple[int, int, float, str]
"""Row, action (index), worth and why."""


@dataclass(frozen=True)
class QueuedCall:
    """One reward to buy.

    Attributes
    ----------
    id : str
        The row's number and a checksum of what is shown.
    row : int
        The row of the pool.
    action : hashable
        The action whose reward is to be judged in that row.
    worth : float
        Expected gain over the horizon minus the price, given that all calls before it in the queue are answered.
    why : str
        What is known: the expected reward of the action and of the best one, with one deviation.
    cells : tuple
        The raw columns.
    """

    id: str
    row: int
    action: Hashable
    worth: float
    why: str
    cells: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class AskRequest:
    """What is asked about: the log's sums, the pool, the actions (indices), and the settings of the learner."""

    summary: LogSummary
    pool: Pool
    about: tuple[int, ...]
    calls: int
    candidates: int  # per call
    settings: dict[str, Any]
    alone: Learner  # of the log alone
    notes: tuple[str, ...]
    progress: Progress | None = field(default=None, repr=False)

    @property
    def horizon(self) -> int:
        return int(self.settings["horizon"])

    @property
    def rewards(self) -> tuple[float, float] | None:
        """The range of answers; None if any is allowed."""
        if self.settings.get("allow_outside"):
            return None
        return files.answer_range(self.alone.reward_range, self.summary.rewards)

    def sums(self, judged: Log) -> Statistics:
        """The sums of the log and the judged answers together."""
        sums = self.summary.statistics
        return sums + replace(Statistics.of(judged), encoder=sums.encoder) if judged.n_rows else sums

    def learner(self, judged: Log) -> Learner:
        """The learner of the log and the judged answers together; its prior is fitted to both."""
        if not judged.n_rows:
            return self.alone
        rewards, known = RewardSummary.of(judged), self.summary.rewards
        both = rewards if known is None else known + rewards
        return economical(replace(self.summary, statistics=self.sums(judged), rewards=both), **self.settings)

    def judged(self, answered: Sequence[Answer]) -> Log:
        """The answers as a log without propensities."""
        return files.as_log(answered, self.pool, self.summary.action_names)

    def queue(
        self, learner: Learner, answered: Sequence[Answer], waiting: Sequence[tuple[int, int]]
    ) -> "Queue":
        """The calls (row, action) that wait for an answer, then the best further ones, up to `calls` in all."""
        names = self.summary.action_names
        taken: dict[int, set[int]] = {action: set() for action in self.about}
        for row, action in [*((each.row, each.action) for each in answered), *waiting]:
            taken.setdefault(action, set()).add(row)
        most = max(self.calls - len(waiting), 0)
        among = self.pool.candidates(self.candidates * most, [self.settings["seed"], len(answered)])
        opened: list[int] = []
        try:
            picked = [self._reopened(learner, row, action, opened) for row, action in waiting]
            picked += self._picks(learner, among, taken, most, opened)
            gain = _expected_gain(learner, self.horizon)
        finally:
            for call in reversed(opened):
                learner.cancel_call(call)
        cells = self.pool.cells([row for row, *_ in picked])
        calls = (
            QueuedCall(identifier(row, names[action], cells[row]), row, names[action], worth, why, cells[row])
            for row, action, worth, why in picked
        )
        return Queue(tuple(calls), self, learner, tuple(answered), gain)

    def _reopened(self, trial: Learner, row: int, action: int, opened: list[int]) -> Pick:
        """A call that waits for its answer, which is pending from now on."""
        x = self.pool.contexts_at(np.array([row]))
        view = trial.sets.scratch.pending
        _, worth = best_call(view, action, x, np.ones(1, dtype=np.int64), chords(), np.empty(1))
        why = _why(trial, action, x[0])
        opened.append(trial.open_call(action, x[0]))
        return row, action, float(worth), why

    def _picks(
        self, trial: Learner, among: Candidates, taken: dict[int, set[int]], most: int, opened: list[int]
    ) -> list[Pick]:
        """Up to `most` calls, each chosen with those before it pending; their numbers are added to `opened`."""
        contexts, nodes = among.contexts, chords()
        picks: list[Pick] = []
        above = np.empty(len(contexts))
        left = {action: among.left(action, taken[action]) for action in self.about}
        tops: dict[int, tuple[int, float]] = {}
        shared: tuple[int, float] | None = None  # actions without rows are alike: one scan is enough

        def scan(action: int) -> tuple[int, float]:
            view = trial.sets.scratch.pending
            found = best_call(view, action, contexts, left[action], nodes, above)
            return int(found[0]), float(found[1])

        slots = trial.sets.arrays.pending_slot
        for place, action in enumerate(self.about):
            if self.progress is not None:
                self.progress(place, len(self.about) + most)
            if slots[action] == 0 and not taken[action]:
                shared = scan(action) if shared is None else shared
                tops[action] = shared
            else:
                tops[action] = scan(action)
        for turn in range(most):
            if self.progress is not None:
                self.progress(len(self.about) + turn, len(self.about) + most)
            action = min(self.about, key=lambda each: (-tops[each][1], trial.priority[each]))
            candidate, worth = tops[action]
            if candidate < 0:
                break
            row = among.row(candidate, action, taken[action])
            picks.append((row, action, worth, _why(trial, action, contexts[candidate])))
            taken[action].add(row)
            left[action][candidate] -= 1
            opened.append(trial.open_call(action, contexts[candidate]))
            tops[action] = scan(action)
        if self.progress is not None:
            self.progress(len(self.about) + most, len(self.about) + most)
        return picks

    def tell(
        self,
        entries: Sequence[files.AnswerRow],
        before: Sequence[Answer] = (),
        waiting: Sequence[tuple[int, int]] = (),
    ) -> "TellResult":
        """Take answers in, beside those of `before`; `waiting` calls that they do not answer stay open."""
        known = {(each.row, each.action): each.reward for each in before}
        found, more, _ = files.resolve(
            entries, self.pool, self.summary.action_names, self.rewards, known=known
        )
        answered = (*before, *found)
        done = {(each.row, each.action) for each in answered}
        left = [pair for pair in dict.fromkeys([*waiting, *more]) if pair not in done]
        judged = self.judged(answered)
        learner = self.learner(judged)
        queue = self.queue(learner, answered, left)
        return TellResult(learner, self.verdict(learner, judged, queue), queue)

    def verdict(self, learner: Learner, judged: Log, queue: "Queue") -> Verdict:
        """What the answers say, on the contexts of the pool."""
        contexts, names = self.pool.contexts, self.summary.action_names
        before = best_actions(self.alone, contexts, self.summary.statistics.counts > 0)
        after = best_actions(learner, contexts, np.ones(len(names), dtype=bool))
        weights = self.horizon * moved_weights(contexts, before, after, len(names))
        costs = known_costs(learner)
        dearer = self.horizon * float((costs[after] - costs[before]).mean())
        assert learner.prior is not None
        mixture = gain_distribution(learner.prior, self.sums(judged), weights, dearer)
        worth, (low, high) = float(mixture[0] @ mixture[1]), mixture_limits(mixture, LEVEL)
        switches = find_switches(contexts, before, after, names, self.summary.encoder)
        kind = "undecided"
        if switches and low > 0:
            kind = "switch"
        elif (not switches and not queue.calls) or (switches and worth <= 0):
            kind = "do not switch"
        more = len(queue.calls)
        return Verdict(
            kind, worth, low, high, self.horizon, switches, judged.n_rows, more, 0 < self.calls <= more
        )


def known_costs(learner: Learner) -> np.ndarray:
    """The known cost of playing each action, (K,); 0 without costs."""
    return np.zeros(learner.n_actions) if learner.action_costs is None else learner.action_costs


def best_actions(learner: Learner, contexts: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """The action (index) with the best mean, less its cost, in each context (n,), among those allowed (K,)."""
    order = np.argsort(learner.priority)
    means = contexts @ learner.sets.theta[order].T - known_costs(learner)[order]
    means[:, ~allowed[order]] = -np.inf
    return np.asarray(order[means.argmax(axis=1)])


def _why(trial: Learner, action: int, x: np.ndarray) -> str:
    means, deviations = trial.sets.evaluate(x)
    means = means - known_costs(trial)
    others = np.where(np.arange(len(means)) == action, -np.inf, means)
    best = int(others.argmax())
    text = f"{trial.action_names[action]} is expected to get {means[action]:.3g} ± {deviations[action]:.2g}"
    if not np.isfinite(others[best]):
        return text
    return f"{text}, {trial.action_names[best]} {means[best]:.3g} ± {deviations[best]:.2g}"


def _expected_gain(trial: Learner, horizon: int) -> float:
    """H·mean_j (E max_a N(m_a, s_a²) − max_a m_a), s_a² the variance that pending answers take away at x_j."""
    contexts = trial.sets.arrays.context_sample
    both = [[trial.sets.evaluate(x, pending=pending) for x in contexts] for pending in (False, True)]
    means = np.array([mean for mean, _ in both[0]]) - known_costs(trial)
    variance = [np.array([spread for _, spread in view]) ** 2 for view in both]
    moved = np.sqrt(np.maximum(variance[0] - variance[1], 0.0))
    half = np.random.default_rng(33).standard_normal((DRAWS // 2, means.shape[1]))
    total = sum((means + moved * z).max(axis=1).mean() for z in np.concatenate([half, -half]))
    return float(horizon * max(total / DRAWS - means.max(axis=1).mean(), 0.0))


@dataclass(frozen=True, eq=False)
class Queue(notebook.Plotted):
    """The rewards to buy, most valuable first; `plot` draws what each call is worth, in the order of the queue.

    Write it with `write`, have it judged, and pass the answers to `tell`.

    Attributes
    ----------
    calls : tuple of QueuedCall
        The rows and actions to be judged. None is worth less than its price.
    learner : Learner
        The learner of the log, and of the answers taken in so far.
    expected_gain : float
        Expected gain over the horizon of all answers together, in units of the reward, if the model is right; the price is
        not subtracted.
    """

    _figure = "sparing.asking.page"

    calls: tuple[QueuedCall, ...]
    request: AskRequest = field(repr=False)
    learner: Learner = field(repr=False)
    answered: tuple[Answer, ...] = field(repr=False)
    expected_gain: float

    @property
    def cost(self) -> float:
        """The price of all answers, in units of the reward."""
        return len(self.calls) * float(self.request.settings["call_cost"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The raw columns that describe a row."""
        return self.request.pool.columns

    @property
    def notes(self) -> tuple[str, ...]:
        """What was sampled, and what the numbers rest on."""
        return self.request.notes

    @property
    def sentence(self) -> str:
        """How many answers to buy, what they cost, and what they are expected to gain."""
        if not self.calls:
            return "Ask for none: no judged answer would repay itself."
        names = dict.fromkeys(label_text(call.action) for call in self.calls)
        about = ", ".join(list(names)[:3]) + (", …" if len(names) > 3 else "")
        return (
            f"Have {counted(len(self.calls), 'answer')} judged ({about}). They cost {number(self.cost)}, and are expected to gain "
            f"{number(self.expected_gain)} over {self.request.horizon:,} rounds, if the model is right."
        )

    def to_frame(self) -> "pandas.DataFrame":
        """Return the queue as a pandas frame: `id`, `row`, the raw columns, `action`, `worth`, `why`, and an empty `reward`."""
        return notebook.frame(files.table(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the queue as JSON values."""
        return {
            "sentence": self.sentence,
            "calls": [
                {
                    "id": call.id,
                    "row": call.row,
                    "action": label_text(call.action),
                    "worth": call.worth,
                    "why": call.why,
                    "columns": {
                        name: None if cell is None else cell_text(cell)
                        for name, cell in zip(self.columns, call.cells, strict=True)
                    },
                }
                for call in self.calls
            ],
            "cost": self.cost,
            "expected_gain": self.expected_gain,
            "horizon": self.request.horizon,
            "answered": len(self.answered),
            "notes": list(self.notes),
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the queue as CSV, with an empty column `reward` to be filled in.

        A file that already has rewards is not replaced.

        Parameters
        ----------
        path : str or path
        """
        files.write(self, path)

    def tell(self, answers: Any, *, calls: int | None = None) -> "TellResult":
        """Take judged answers in.

        Parameters
        ----------
        answers : path, frame, mapping or sequence
            A file or frame with the columns `id` and `reward`; rewards by id; or rewards in the queue's order, None or NaN for those
            that are open. Several files are a list of paths.
        calls : int, optional
            Answers to queue next, at most; by default as many as before.

        Returns
        -------
        TellResult
            The learner, the verdict and the next queue, in which unanswered calls come first.

        Raises
        ------
        LogError
            If ids are unknown or repeated, or rewards are no numbers or out of range; all of them are named, and nothing is taken in.
        """
        entries = files.given_entries(answers, [call.id for call in self.calls])
        index = {name: place for place, name in enumerate(self.request.summary.action_names)}
        waiting = [(call.row, index[call.action]) for call in self.calls]
        most = self.request.calls if calls is None else integer("calls", calls, least=1)
        return replace(self.request, calls=most).tell(entries, self.answered, waiting)

    def judged_log(self) -> Log:
        """Return the answers taken in so far as a log without propensities, with the features of the log."""
        found = self.request.judged(self.answered)
        encoder = found.encoder
        return replace(found, contexts=found.contexts[:, encoder.logged], encoder=encoder.without_unseen())

    def __len__(self) -> int:
        return len(self.calls)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.notes])

    def _repr_html_(self) -> str:
        rows = [[call.id, label_text(call.action), f"{call.worth:.3g}", call.why] for call in self.calls]
        header = ("id", "action", "worth", "why")
        return notebook.card(
            "Queue of rewards to buy", said=[self.sentence], header=header, rows=rows, notes=self.notes
        )


@dataclass(frozen=True, eq=False)
class TellResult:
    """What judged answers led to.

    Attributes
    ----------
    learner : Learner
        `economical`, from the log and all answers.
    verdict : Verdict
        Whether to switch, and what that is worth.
    queue : Queue
        What to ask next; empty if no further answer would repay itself.
    """

    learner: Learner
    verdict: Verdict
    queue: Queue

    def __str__(self) -> str:
        return str(self.verdict)


def ask(
    log: AnyLog,
    *,
    calls: int = 100,
    call_cost: float | None = None,
    horizon: int | None = None,
    actions: Sequence[Hashable] | None = None,
    pool: Any = None,
    table: Any = None,
    columns: Mapping[str, Any] | None = None,
    candidates: int = CANDIDATES,
    seed: int = 0,
    kernel: KernelOption = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Queue:
    """Choose which rewards to buy before anybody is served.

    Each (row of the pool, action) is valued as `economical` values a call, without the loss of playing the action: the expected
    gain over the horizon, minus the price. The best one joins the queue, counts as pending, and the rest is valued again. The
    queue ends where nothing repays itself (docs/ask.md).

    Parameters
    ----------
    log : Log or Scan
        Logged rows.
    calls : int
        Answers to queue, at most.
    call_cost : float
        Price of one judged answer, in units of the reward.
    horizon : int, optional
        Rounds that profit from what is learnt; by default the number of logged rows.
    actions : sequence, optional
        Actions to ask about; by default all. One that the log does not know is new.
    pool : path, frame or mapping of columns, optional
        Contexts to ask in, which also weigh the gain; by default those of the log.
    table : path, frame or mapping of columns, optional
        What the log was read from: its columns are shown instead of the encoded features. Not with `pool`.
    columns : mapping, optional
        Names of the action, reward, propensity and eligible columns of that table, as in `read_log`; they are not shown.
    candidates : int
        Random distinct contexts per call among which the queue is chosen. With 1 rows are random, and only actions and the end of
        the queue are chosen.
    seed : int
        Of ties, of the candidates, and of the random part that stands for a large pool.
    kernel : int or "auto", optional
        Number of kernel features to add; `"auto"` chooses by evidence.
    progress : callable, optional
        ``progress(done, total)`` is called after each step.
    **settings
        Of `economical`: costs, prior_scale, prior_mean, items, misfit, noise, reward_range. With costs, reward − cost is compared;
        answers are rewards before cost.

    Returns
    -------
    Queue

    Examples
    --------
    >>> import sparing
    >>> world = sparing.simulation.LinearWorld(n_actions=3, n_features=2, noise=0.5, seed=0)
    >>> log = sparing.simulation.draw_log(world, rows=200, seed=1)
    >>> queue = sparing.ask(log, calls=10, call_cost=0.01, horizon=5000, actions=["new"])
    >>> after = queue.tell([0.4] * len(queue))
    """
    given = {"calls": calls, "call_cost": call_cost, "horizon": horizon, "actions": actions, "pool": pool}
    given |= {"table": table, "columns": columns, "seed": seed, "kernel": kernel, "progress": progress}
    given["candidates"] = candidates
    request = prepare(log, **given, **settings)
    return request.queue(request.alone, (), ())


def prepare(
    log: AnyLog,
    *,
    calls: int,
    call_cost: float | None,
    horizon: int | None,
    actions: Sequence[Hashable] | None,
    pool: Any,
    table: Any,
    columns: Mapping[str, Any] | None,
    candidates: int,
    seed: int,
    kernel: KernelOption,
    progress: Progress | None,
    **settings: Any,
) -> AskRequest:
    """Check the arguments of `ask`, and read the pool."""
    integer("calls", calls, least=1)
    integer("candidates", candidates, least=1)
    integer("seed", seed)
    if call_cost is None:
        raise SettingError("call_cost is missing; say what one judged answer costs, in units of the reward")
    checked_number("call_cost", call_cost, least=0)
    if pool is not None and table is not None:
        raise SettingError("got pool and table; a pool shows its own columns. Give one of them")
    rows: AnyLog = log if kernel is None else resolve_kernel(log, kernel)
    roles = ColumnRoles(**(columns or {}))
    summary, about = _with_actions(with_unseen(SummaryWithFit.of(rows)), actions, settings.pop("costs", None))
    if pool is None:
        found = Pool.of_log(rows, table, roles, seed, summary.encoder)
    else:
        found = Pool.of_table(pool, rows, roles, seed, summary.encoder)
    summary = replace(summary, context_sample=sample_contexts(found.contexts))
    length = rows.n_rows if horizon is None else integer("horizon", horizon, least=1)
    known = {**settings, "call_cost": float(call_cost), "horizon": length, "seed": seed}
    alone = economical(summary, **known)
    return AskRequest(summary, found, about, calls, candidates, known, alone, _notes(found), progress)


def _with_actions(
    summary: LogSummary, actions: Sequence[Hashable] | None, costs: CostsOption
) -> tuple[LogSummary, tuple[int, ...]]:
    """The summary with actions that it does not know added, and the indices of those to ask about."""
    if actions is None:
        return _with_costs(summary, costs), tuple(range(len(summary.action_names)))
    if isinstance(actions, str) or not len(actions):
        raise SettingError(f"actions={actions!r}; must be a list of one label or more")
    wanted = list(dict.fromkeys(normalize_label(action) for action in actions))
    names = summary.action_names
    new = [action for action in wanted if action not in names]
    for action in new:
        near = suggest(action, names)
        if near is not None and label_text(near).casefold() == label_text(action).casefold():
            raise SettingError(
                f"the action {shorten(action)} is not in the log, but {shorten(near)} is; give them one spelling"
            )
    if new and summary.items is not None:
        raise SettingError(
            f"the action {shorten(new[0])} is not in the log, whose actions have item features; read the log with "
            "this action among actions=[...] and its row among the items"
        )
    index = {name: place for place, name in enumerate((*names, *new))}
    return _with_costs(extended(summary, tuple(new)), costs), tuple(index[action] for action in wanted)


def _with_costs(summary: LogSummary, given: CostsOption) -> LogSummary:
    """The summary with costs of all actions: those that are given, else the log's."""
    known, names = summary.costs, summary.action_names
    if given is None and (known is None or len(known) == len(names)):
        return summary
    known = None if known is None else np.append(known, np.full(len(names) - len(known), np.nan))
    found = action_costs({} if given is None else given, names, known=known)
    if summary.rewards is not None:
        check_cost_units(found, summary.rewards.low, summary.rewards.high)
    return replace(summary, costs=found)


def extended(summary: LogSummary, new: tuple[Hashable, ...]) -> LogSummary:
    """The summary with further actions that have no rows."""
    sums = summary.statistics
    none = Statistics.zero(len(new), sums.n_features)
    parts: dict[str, Any] = {
        name: np.concatenate([getattr(sums, name), getattr(none, name)])
        for name in ("counts", "gram", "response", "squares")
    }
    return replace(summary, statistics=replace(sums, **parts), action_names=(*summary.action_names, *new))


def _notes(pool: Pool) -> tuple[str, ...]:
    if len(pool.numbers) == pool.total:
        return ()
    return (f"A random {len(pool.numbers):,} of the pool's {pool.total:,} rows stand for the traffic.",)
