"""What is counted in memory as events come, because reading all of them for every page would take too long."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from sparing.service.gapmap import LiveCalls
from sparing.service.store import Store
from sparing.service.writer import Writer

WINDOW = 10_000
"""Events that are looked through at once; between two windows others have their turn."""

MOST_SUBJECTS = 100_000
"""Subjects that are remembered; where there are more, counting begins anew, with those who come from then on."""


@dataclass
class Seen:
    """Of one experiment, up to an event each: outcomes by kind; and who was served by each arm, since the event `since`."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: int | None = None
    """The event that made the experiment."""
    first: tuple[int, int] | None = None
    """Number and time of the first decision."""
    outcomes: dict[str, int] = field(default_factory=dict)
    outcomes_to: int = 0
    calls: LiveCalls = field(default_factory=LiveCalls)
    """In the segments of the gap map."""
    since: int = 0
    arms_to: int = 0
    alone: dict[str, int] = field(default_factory=dict)
    """Decisions without a subject, by arm: each was assigned by itself."""
    subjects: dict[str, set[bytes]] = field(default_factory=dict)
    """Subjects, by arm: all decisions of one were assigned at once."""

    async def catch_up(self, store: Store, experiment: int, upto: int, *, decided: bool) -> None:
        """Count what was committed up to an event; `decided` says that there are decisions."""
        if self.made is None:
            ((made,),) = await store.driver.read(
                "select min(seq) from changes where experiment = $1", experiment
            )
            self.made = self.outcomes_to = self.since = self.arms_to = int(made or 0)
            self.calls.made = self.made
        if self.first is None and decided:
            found = await store.driver.read(
                "select seq, ts from decisions where experiment = $1 and seq > $2 order by seq limit 1",
                *(experiment, self.made),
            )
            self.first = (int(found[0][0]), int(found[0][1])) if found else None
        async for after, end in windows(self.outcomes_to, upto):
            found = await store.driver.read(
                "select kind, count(*) from outcomes where experiment = $1 and seq > $2 and seq <= $3 group by kind",
                *(experiment, after, end),
            )
            for kind, count in found:
                self.outcomes[kind] = self.outcomes.get(kind, 0) + int(count)
            self.outcomes_to = end

    async def count_arms(self, store: Store, experiment: int, since: int, upto: int) -> tuple[int, int]:
        """How many were assigned to the policy and to the holdout after the event `since`: subjects, or decisions without one."""
        since = max(since, self.made or 0)
        if since != self.since:
            self.since = self.arms_to = since
            self.alone, self.subjects = {}, {}
        async for after, end in windows(self.arms_to, upto):
            if sum(map(len, self.subjects.values())) >= MOST_SUBJECTS:
                self.alone, self.subjects = {}, {}
            for arm, subject, count in await store.driver.read(
                "select arm, subject, count(*) from decisions where experiment = $1 and seq > $2 and seq <= $3 "
                "and arm in ('policy', 'holdout') group by arm, subject",
                *(experiment, after, end),
            ):
                if subject is None:
                    self.alone[arm] = self.alone.get(arm, 0) + int(count)
                else:
                    self.subjects.setdefault(arm, set()).add(bytes(subject))
            self.arms_to = end
        policy, holdout = (
            self.alone.get(arm, 0) + len(self.subjects.get(arm, ())) for arm in ("policy", "holdout")
        )
        return policy, holdout


async def windows(after: int, upto: int) -> AsyncIterator[tuple[int, int]]:
    """Events with after < seq ≤ upto in pieces, others having their turn between two."""
    while after < upto:
        end = min(after + WINDOW, upto)
        yield after, end
        after = end
        await asyncio.sleep(0)


_known: WeakKeyDictionary[Writer, dict[int, Seen]] = WeakKeyDictionary()


def seen(writer: Writer, experiment: int) -> Seen:
    """What a process has counted of an experiment."""
    return _known.setdefault(writer, {}).setdefault(experiment, Seen())
