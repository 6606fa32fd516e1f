"""Whole runs in compiled code: the same rounds as one by one, without coming back to Python in between."""

from dataclasses import dataclass

import numpy as np

from sparing.log.limits import LARGEST
from sparing.online.engine import choosing, running
from sparing.online.learner import Learner
from sparing.online.rules import REASONS
from sparing.simulation.progress import REPORT_EVERY, Progress
from sparing.simulation.worlds import Stream

CHUNK = 2000
"""Rounds between two chances to be interrupted."""


@dataclass
class Fused:
    """A learner and a stream that compiled code can play out."""

    learner: Learner
    stream: Stream

    @classmethod
    def of(cls, learner: Learner, stream: Stream) -> "Fused | None":
        """None where a rule is written in Python, or a round would be refused: then steps must be taken."""
        if not learner.compiled or learner.open or type(stream) is not Stream:
            return None
        if not (np.abs(stream.contexts) <= LARGEST).all():
            return None
        if not stream.binary or learner.reward_range is not None:
            luck = stream.draws if not stream.binary else np.zeros(len(stream))
            size = np.abs(stream.means).max(initial=0) + np.abs(luck).max(initial=0)
            low, high = learner.reward_range or (-LARGEST, LARGEST)
            earned = (0.0, 1.0) if stream.binary else (-size, size)
            if not low <= earned[0] <= earned[1] <= high:
                return None
        return cls(learner, stream)

    def play(
        self,
        actions: np.ndarray,
        called: np.ndarray,
        reasons: np.ndarray,
        call_budget: int | None,
        progress: Progress | None,
    ) -> int:
        """Write each round's action, whether it was called and why, as the steps would; rounds done."""
        learner, stream, total = self.learner, self.stream, len(self.stream)
        thresholds, answers = learner.log_answers(stream.contexts, stream.context_ids)
        contexts, means = (np.ascontiguousarray(a, dtype=np.float64) for a in (stream.contexts, stream.means))
        draws = np.ascontiguousarray(stream.draws, dtype=np.float64)
        monitor = np.empty(0) if learner.monitor is None else learner.monitor.numbers()
        codes, sets = np.empty(total, dtype=np.int64), learner.sets
        done, left = 0, -1 if call_budget is None else call_budget
        chunk = CHUNK if progress is None else REPORT_EVERY
        while done < total and left != 0:
            sets.make_room()
            before = done
            done, left = running.run(
                sets.desk.settled,
                contexts,
                means,
                draws,
                stream.binary,
                thresholds,
                answers,
                monitor,
                learner.key,
                learner.rounds - done,
                done,
                min(done - done % chunk + chunk, total),
                left,
                actions,
                codes,
                sets.bounds,
            )
            part = codes[before:done]
            called[before:done] = (part == choosing.EXPLORE) | (part == choosing.SPOT_CHECK)
            learner.count(rounds=done - before, calls=int(called[before:done].sum()))
            if learner.monitor is not None:
                learner.monitor.take(monitor)
                sets.scale_constant(learner.monitor.noise * learner.monitor.inflation)
            if progress is not None:
                progress(done, total)
            if done == before:  # a round that is refused: let it say why
                learner.decide(contexts[done])
        reasons[:done] = np.array(REASONS)[codes[:done]]
        return done
