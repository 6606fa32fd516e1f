"""The one loop: a learner meets a world."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.online.decision import Decision
from sparing.online.learner import Learner
from sparing.simulation.fused import Fused
from sparing.simulation.progress import REPORT_EVERY
from sparing.simulation.progress import Progress as Progress
from sparing.simulation.trace import Trace
from sparing.simulation.worlds import Stream, World


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
    """Let a learner decide and learn for a number of rounds; the learner is changed in place.

    `stream` is `fresh`, or `in-log` to replay the contexts of `log` (with new luck). One seed gives
    every learner the same rounds and the same luck. `call_budget` ends the run after so many calls
    (0: before the first round). Rewards come `delay` rounds after their call; a share `missing` of them never
    comes, and is forgotten then.
    """
    if stream not in ("fresh", "in-log"):
        raise SettingError(f"stream={stream!r}; must be 'fresh' or 'in-log'")
    if stream == "in-log" and log is None:
        raise SettingError("stream='in-log' replays a log's contexts; pass log=...")
    if seed < 0:
        raise SettingError(f"seed={seed}; must be 0 or more")
    if rounds is not None and rounds < 0:
        raise SettingError(f"rounds={rounds}; must be 0 or more")
    if call_budget is not None and call_budget < 0:
        raise SettingError(f"call_budget={call_budget}; must be 0 or more, or None for no limit")
    if delay < 0 or not 0 <= missing <= 1:
        raise SettingError(
            f"delay={delay}, missing={missing}; must be 0 or more rounds, and a share from 0 to 1"
        )
    if learner.action_names != world.action_names or learner.n_features != world.n_features:
        raise SettingError(
            f"the learner has {learner.n_actions} actions and {learner.n_features} features, the world "
            f"{len(world.action_names)} and {world.n_features}, or their labels differ"
        )
    if stream == "in-log" and log is not None and log.n_features != world.n_features:
        raise SettingError(
            f"the log's contexts have {log.n_features} features, the world's {world.n_features}; "
            "pass a log drawn from this world"
        )
    rng = np.random.default_rng([seed, 3])
    live = world.live_stream(rounds, rng, log if stream == "in-log" else None)
    post = None
    if delay or missing:
        post = Post(delay, np.random.default_rng([seed, 5]).random(len(live)) < missing)
    return play(learner, live, call_budget=call_budget, post=post, progress=progress)


@dataclass
class Post:
    """How rewards travel: so many rounds, and which rounds' get lost, (T,)."""

    delay: int
    lost: np.ndarray
    bag: deque[tuple[int, Decision, float]] = field(default_factory=deque)

    def send(self, t: int, decision: Decision, reward: float) -> None:
        """Take the reward of round t on its way."""
        self.bag.append((t, decision, reward))

    def deliver(self, t: int, learner: Learner) -> None:
        """Hand over what has arrived by the end of round t; what was lost is forgotten."""
        while self.bag and self.bag[0][0] + self.delay <= t:
            sent, decision, reward = self.bag.popleft()
            if self.lost[sent]:
                learner.forget(decision)
            else:
                learner.update(decision, reward)


def play(
    learner: Learner,
    stream: Stream,
    *,
    call_budget: int | None = None,
    post: Post | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Play a stream of rounds, with rewards at once unless they come by post."""
    total = len(stream)
    actions, called = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.bool_)
    reasons = np.empty(total, dtype="U12")
    fused = None if post else Fused.of(learner, stream)
    if fused is not None:
        done = fused.play(actions, called, reasons, call_budget, progress)
    else:
        at_once = post or Post(0, np.zeros(total, dtype=np.bool_))
        done = _step_by_step(learner, stream, actions, called, reasons, call_budget, at_once, progress)
    if progress is not None:
        progress(total, total)
    actions, called, reasons = actions[:done], called[:done], reasons[:done]
    means = stream.means[:done]
    losses = means.max(axis=1) - means[np.arange(done), actions] if done else np.empty(0)
    return Trace(learner.algorithm, actions, called, reasons, losses)


def _step_by_step(
    learner: Learner,
    stream: Stream,
    actions: np.ndarray,
    called: np.ndarray,
    reasons: np.ndarray,
    call_budget: int | None,
    post: Post,
    progress: Progress | None,
) -> int:
    """Decide and learn one round at a time; rounds done."""
    ids = None if stream.context_ids is None else stream.context_ids.tolist()
    index = {name: i for i, name in enumerate(learner.action_names)}
    calls = 0
    for t in range(len(stream)):
        if calls == call_budget:
            return t
        decision = learner.decide(stream.contexts[t], context_id=None if ids is None else ids[t])
        actions[t], called[t], reasons[t] = index[decision.action], decision.needs_reward, decision.reason
        if decision.needs_reward:
            post.send(t, decision, stream.reward(t, actions[t]))
            calls += 1
        post.deliver(t, learner)
        if progress is not None and (t + 1) % REPORT_EVERY == 0:
            progress(t + 1, len(stream))
    return len(stream)
