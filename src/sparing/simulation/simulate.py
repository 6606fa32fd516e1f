"""The simulation loop: a learner decides and learns in a world."""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparing.engines import Progress
from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.limits import LARGEST
from sparing.online import drift
from sparing.online.decision import Decision
from sparing.online.engine import choice, runs
from sparing.online.learner import Learner
from sparing.online.rules import REASONS
from sparing.report.notebook import card, frame
from sparing.simulation.worlds import Stream, World
from sparing.validation import fraction, integer, one_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

REPORT_EVERY = 200  # rounds
CHUNK = 2000  # rounds between two chances to be interrupted, without progress
UNLIMITED = -1  # calls left where there is no budget


@dataclass(frozen=True, eq=False)
class Trace:
    """A run by rounds.

    Attributes
    ----------
    algorithm : str
    actions, needs_reward, reasons : arrays of shape (T,)
        Index of the action, whether there was a reward call, and why.
    losses : array of shape (T,)
        Expected reward, less the learner's known costs, of the best action minus that of the chosen one.
    """

    algorithm: str
    actions: np.ndarray
    needs_reward: np.ndarray
    reasons: np.ndarray
    losses: np.ndarray

    def __len__(self) -> int:
        return len(self.actions)

    @cached_property
    def calls(self) -> np.ndarray:
        """Reward calls so far, (T,)."""
        return self.needs_reward.cumsum()

    @cached_property
    def regret(self) -> np.ndarray:
        """Regret so far, (T,)."""
        return self.losses.cumsum()

    @property
    def skipped_losses(self) -> np.ndarray:
        """Losses of the rounds without a reward call."""
        return self.losses[~self.needs_reward]

    def reason_counts(self) -> dict[str, int]:
        """Count the rounds by reason, the most frequent first."""
        return dict(Counter(self.reasons.tolist()).most_common())

    def to_frame(self) -> "pandas.DataFrame":
        """Return the rounds as a pandas frame with index `round` from 0.

        Columns: `action` (its index), `needs_reward`, `reason`, `loss`, and cumulative `calls` and `regret`.
        """
        columns = {"action": self.actions, "needs_reward": self.needs_reward, "reason": self.reasons}
        columns |= {"loss": self.losses, "calls": self.calls, "regret": self.regret}
        return frame(columns, index="round")

    def plot(self, axes: "Axes | None" = None, *, against: str = "rounds") -> "Axes":
        """Draw the regret so far; runs that are drawn on the same axes are compared. Ticks mark reward calls, if there are few.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            By default those of a new figure.
        against : {'rounds', 'calls'}
            The horizontal axis: rounds, or reward calls so far.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from sparing.simulation.figure import plot

        return plot(self, axes, against)

    def _repr_html_(self) -> str:
        facts: list[tuple[str, str]] = []
        if len(self):
            facts = [
                ("reward calls", f"{int(self.calls[-1]):,}"),
                ("regret, in the reward's unit", f"{self.regret[-1]:.4g}"),
            ]
        rows = [[reason, f"{count:,}"] for reason, count in self.reason_counts().items()]
        title = f"Trace: {self.algorithm}, {len(self):,} rounds"
        return card(title, facts=facts, header=("reason", "rounds"), rows=rows)

    def __repr__(self) -> str:
        totals = f", {int(self.calls[-1])} calls, regret {self.regret[-1]:.4g}" if len(self) else ""
        return f"Trace({self.algorithm}, {len(self)} rounds{totals})"


def simulate(
    learner: Learner,
    world: World,
    *,
    rounds: int | None = None,
    seed: int = 0,
    stream: str = "fresh",
    log: Log | None = None,
    call_budget: int | None = None,
    delay: int = 0,
    missing: float = 0.0,
    progress: Progress | None = None,
) -> Trace:
    """Let a learner decide and learn in a world; the learner is changed in place.

    Parameters
    ----------
    learner : Learner
        A learner with the actions and features of the world.
    world : World
    rounds : int, optional
        Number of rounds; a world of given rows plays each once by default.
    seed : int
        Seed of the rounds; equal seeds give every learner the same contexts and the same noise.
    stream : {"fresh", "in-log"}
        New contexts, or those of `log` in random order with new noise.
    log : Log, optional
        A log drawn from this world, for `stream="in-log"`.
    call_budget : int, optional
        End after this many reward calls.
    delay : int
        Rounds between a call and its reward.
    missing : float
        Share of rewards that never arrive; their calls are withdrawn instead.
    progress : callable, optional
        Called with the rounds done and the rounds in all.

    Returns
    -------
    Trace

    Raises
    ------
    SettingError
        If a setting is out of its range, or learner, log and world do not match.

    Examples
    --------
    >>> trace = sparing.simulate(learner, world, rounds=1000, seed=1)
    >>> trace.calls[-1], trace.regret[-1]
    """
    one_of("stream", stream, ("fresh", "in-log"))
    if stream == "in-log" and log is None:
        raise SettingError("stream='in-log' replays a log's contexts; pass log=...")
    integer("seed", seed)
    integer("delay", delay)
    for name, value in (("rounds", rounds), ("call_budget", call_budget)):
        if value is not None:
            integer(name, value, hint=", or None for no limit")
    fraction("missing", missing, zero=True, one=True)
    replayed = log if stream == "in-log" else None
    _check_shapes(learner, world, replayed)
    live = world.live_stream(rounds, np.random.default_rng([seed, 3]), replayed)
    lost = np.random.default_rng([seed, 5]).random(len(live)) < missing if missing else None
    return play(learner, live, call_budget=call_budget, delay=delay, lost=lost, progress=progress)


def _check_shapes(learner: Learner, world: World, replayed: Log | None) -> None:
    width = learner.encoder.completed(np.zeros(world.n_features)).size  # with kernel features
    if learner.action_names != world.action_names or width != learner.n_features:
        raise SettingError(
            f"the learner has {learner.n_actions} actions and {learner.n_features} features, the world "
            f"{len(world.action_names)} and {world.n_features}, or their labels differ"
        )
    if replayed is not None and replayed.n_features != world.n_features:
        raise SettingError(
            f"the log's contexts have {replayed.n_features} features, the world's {world.n_features}; "
            "pass a log drawn from this world"
        )


def play(
    learner: Learner,
    stream: Stream,
    *,
    call_budget: int | None = None,
    delay: int = 0,
    lost: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Play a stream of rounds; rewards come `delay` rounds after their call, or never where `lost` (T,) is true.

    Compiled code plays many rounds at a time where it can; the decisions are the same.
    """
    total = len(stream)
    if stream.contexts.shape[1] != learner.n_features:
        stream = replace(stream, contexts=learner.encoder.completed(stream.contexts))
    recorded = _Recorded(
        np.empty(total, dtype=np.int64), np.empty(total, dtype=np.bool_), np.empty(total, dtype="U12")
    )
    if not delay and lost is None and _compiles(learner, stream):
        play_part = _compiled(learner, stream, recorded)
    else:
        play_part = _one_by_one(learner, stream, recorded, delay, lost)
    done, left = 0, UNLIMITED if call_budget is None else call_budget
    chunk = CHUNK if progress is None else REPORT_EVERY
    while done < total and left != 0:
        done, left = play_part(done, min(done - done % chunk + chunk, total), left)
        if progress is not None:
            progress(done, total)
    if progress is not None:
        progress(total, total)
    actions, called, reasons = (each[:done] for each in recorded)
    means = stream.means[:done]
    if learner.action_costs is not None:
        means = means - learner.action_costs
    losses = means.max(axis=1) - means[np.arange(done), actions] if done else np.empty(0)
    return Trace(learner.algorithm, actions, called, reasons, losses)


# Plays rounds from the first number up to the second, or until none of the calls left (the third) is; returns the rounds
# done and the calls left.
PlayPart = Callable[[int, int, int], tuple[int, int]]


class _Recorded(NamedTuple):
    """The rounds so far, (T,) each."""

    actions: np.ndarray
    called: np.ndarray
    reasons: np.ndarray


def _one_by_one(
    learner: Learner, stream: Stream, recorded: _Recorded, delay: int, lost: np.ndarray | None
) -> PlayPart:
    """Rounds one at a time: decide, observe, update."""
    sent: deque[tuple[int, Decision, float]] = deque()
    ids = [None] * len(stream) if stream.context_ids is None else stream.context_ids.tolist()
    index = {name: i for i, name in enumerate(learner.action_names)}
    actions, called, reasons = recorded

    def play(start: int, stop: int, left: int) -> tuple[int, int]:
        for t in range(start, stop):
            decision = learner.decide(stream.contexts[t], context_id=ids[t])
            actions[t] = index[decision.action]
            called[t], reasons[t] = decision.needs_reward, decision.reason
            if decision.needs_reward:
                sent.append((t, decision, stream.reward(t, actions[t])))
                left -= 1
            while sent and sent[0][0] + delay <= t:
                asked, earlier, reward = sent.popleft()
                if lost is not None and lost[asked]:
                    learner.forget(earlier)
                else:
                    learner.update(earlier, reward)
            if left == 0:
                return t + 1, 0
        return stop, left

    return play


def _compiled(learner: Learner, stream: Stream, recorded: _Recorded) -> PlayPart:
    """The same rounds in compiled code."""
    known = learner.log_answers(stream.contexts, stream.context_ids)
    contexts, means, draws = (
        np.ascontiguousarray(given, dtype=np.float64)
        for given in (stream.contexts, stream.means, stream.draws)
    )
    all_codes = np.empty(len(stream), dtype=np.int64)

    def play(start: int, stop: int, left: int) -> tuple[int, int]:
        if learner.rounds >= learner.next_tick:
            drift.tick(learner, learner.rounds)
        sets = learner.sets
        sets.grow_capacity()
        rounds = contexts, means, draws, stream.binary, *known
        places = learner.rounds - start, start, stop, left
        done, left = runs.run(
            sets.scratch.observed, *rounds, learner.key, *places, recorded.actions, all_codes, sets.bounds
        )
        codes = all_codes[start:done]
        recorded.called[start:done] = (codes == choice.EXPLORE) | (codes == choice.SPOT_CHECK)
        recorded.reasons[start:done] = np.array(REASONS)[codes]
        learner.add_counts(rounds=done - start, calls=int(recorded.called[start:done].sum()))
        if done == start:  # a refused round: raise its error
            learner.decide(contexts[done])
        return done, left

    return play


def _compiles(learner: Learner, stream: Stream) -> bool:
    """Whether no rule is written in Python and no round can be refused."""
    if not learner.compiled or learner.open or type(stream) is not Stream:
        return False
    if stream.binary:
        least, most = 0.0, 1.0
    else:
        parts = stream.means, stream.draws
        least, most = (sum(float(end(each, initial=0.0)) for each in parts) for end in (np.min, np.max))
    low, high = learner.reward_range or (-LARGEST, LARGEST)
    return bool((np.abs(stream.contexts) <= LARGEST).all() and low <= least <= most <= high)
