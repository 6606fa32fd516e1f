"""From a stream of logged events to a log, in two walks: one for the vocabulary, one to fill the arrays."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from sparing.errors import LogError
from sparing.log.formats.features import CONSTANT
from sparing.log.formats.filling import Event, Filling
from sparing.log.formats.naming import Naming, by_label
from sparing.log.log import Log
from sparing.log.parsing import brief

MAX_FEATURES = 10_000
"""Features beyond which a context is taken to hold an id by mistake."""


def build(
    events: Callable[[], Iterator[Event]],
    *,
    name: str,
    naming: Naming = by_label,
    actions: Sequence[Hashable] | None = None,
    features: Sequence[str] | None = None,
    max_features: int = MAX_FEATURES,
    alone_means_all: bool = False,
) -> tuple[Log, list[str]]:
    """Read a log from events that can be walked twice, and say what was assumed.

    `actions` names every action, `features` the columns of the contexts in their order (others are left
    out); without them both are those that occur, features in the order of their first appearance.
    `alone_means_all`: where some events have a set of available actions, one without has them all.
    """
    survey = _Survey(features, max_features)
    for event in events():
        survey.add(event)
    survey.check(name, alone_means_all=alone_means_all)
    names, index = naming(survey.labels, actions)
    filling = Filling(
        survey.rows,
        survey.columns,
        index,
        n_actions=len(names),
        propensities=survey.propensities.all,
        sets=bool(survey.sets.first),
        distributions=survey.distributions.all,
        ids=survey.ids.all,
        constant=survey.constant,
    )
    for event in events():
        filling.add(event)
    log = Log.from_indices(
        filling.contexts,
        filling.actions,
        filling.rewards,
        names,
        propensities=filling.propensities,
        support=filling.support(),
        context_ids=filling.ids,
        feature_names=list(survey.columns),
    )
    return log, [*survey.notes(), *filling.notes()]


@dataclass
class _Presence:
    """An optional part that all events must have, or none."""

    what: str
    first: str = ""
    missing: str = ""

    @property
    def all(self) -> bool:
        """Whether every event has it."""
        return bool(self.first) and not self.missing

    def see(self, present: bool, where: str) -> None:
        """Take note of one event."""
        if present and not self.first:
            self.first = where
        if not present and not self.missing:
            self.missing = where

    def check(self) -> None:
        """Refuse a part that only some events have."""
        if self.first and self.missing:
            raise LogError(
                f"{self.missing}: no {self.what}, but there is one at {self.first}. "
                "Give it for every event or for none"
            )


class _Survey:
    """The first walk: how many events, which features and labels, which optional parts."""

    def __init__(self, features: Sequence[str] | None, max_features: int) -> None:
        self.rows = 0
        self.labels: set[Hashable] = set()
        self.columns = {name: i for i, name in enumerate(features or ())}
        self.fixed = features is not None
        if len(self.columns) < len(features or ()):
            raise LogError("features=[...] names a feature twice")
        self.max_features = max_features
        self.constant = False
        self.left_out: set[str] = set()
        self.propensities = _Presence("probability of the logged action")
        self.sets = _Presence("set of available actions")
        self.ids = _Presence("context id")
        self.distributions = _Presence("distribution")

    def add(self, event: Event) -> None:
        self.rows += 1
        self.labels.add(event.action)
        if event.eligible is not None:
            self.labels.update(event.eligible)
        self.propensities.see(event.propensity is not None, event.where)
        self.sets.see(event.eligible is not None, event.where)
        self.ids.see(event.context_id is not None, event.where)
        self.distributions.see(event.probabilities is not None, event.where)
        new = [name for name in event.features if name not in self.columns]
        if self.fixed:
            self.left_out.update(new)
            return
        for name in new:
            self.columns[name] = len(self.columns)
        if len(self.columns) > self.max_features:
            field, values = Counter(name.partition("=")[0] for name in self.columns).most_common(1)[0]
            raise LogError(
                f"{event.where}: more than {self.max_features} features; {brief(field)} alone has {values}. "
                "Leave it out (ignore=[...]), choose features=[...], or raise max_features"
            )

    def check(self, name: str, *, alone_means_all: bool) -> None:
        if not self.rows:
            raise LogError(f"{name} has no labelled event; a log without rows is Log.empty(...)")
        for part in (self.propensities, self.ids):
            part.check()
        if not alone_means_all:
            self.sets.check()
        self.constant = not self.columns
        if self.constant:
            self.columns[CONSTANT] = 0

    def notes(self) -> list[str]:
        notes = []
        if self.constant:
            notes.append(f"No event has a context: the one feature {CONSTANT!r}, always 1, stands for it.")
        if self.left_out:
            notes.append(
                f"{len(self.left_out)} features of the file are not in features=[...] and were left out."
            )
        if not self.propensities.first and not self.distributions.first:
            notes.append("No event has a probability: the log has no propensities.")
        if not self.sets.first:
            notes.append("No event tells which other actions it could have taken: the support is unknown.")
        if self.distributions.first and self.distributions.missing:
            notes.append(
                f"Some events have no full distribution ({self.distributions.missing}): of the others, only "
                "the sets of actions with a positive probability are kept."
            )
        return notes
