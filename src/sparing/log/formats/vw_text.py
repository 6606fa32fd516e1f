"""Vowpal Wabbit's text lines for `--cb`: `action:cost:probability | feature:value …`, a line a round."""

import os
from collections.abc import Hashable, Iterator, Sequence

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log.formats.events import MAX_FEATURES, build
from sparing.log.formats.filling import Event
from sparing.log.formats.lines import text_lines
from sparing.log.formats.naming import by_number, numbered_note
from sparing.log.formats.rows import distribution_notes, has_sets, need_propensities, rows
from sparing.log.formats.vw_line import (
    CONSTANT_NOTE,
    FeatureText,
    Label,
    Line,
    label,
    split,
    tag,
    tag_notes,
    unescape,
)
from sparing.log.log import Log


def read(
    source: str | os.PathLike[str],
    *,
    actions: Sequence[Hashable] | None = None,
    features: Sequence[str] | None = None,
    context_id: str | None = None,
    max_features: int = MAX_FEATURES,
) -> tuple[Log, list[str]]:
    """Read `--cb` lines: reward = −cost, features that a line does not name are 0.

    `actions` names the actions 1..K in order; without it their names are 1..K, K the largest logged, or, where
    numbers are large and sparse, those that occur.
    Further actions in a line's label are the ones it could have taken. `context_id="tag"` takes the
    lines' tags for context ids.
    """
    lines = _Lines(source, tags=tags_wanted(context_id))
    log, notes = build(
        lines.events,
        name=os.fspath(source),
        naming=by_number,
        actions=actions,
        features=features,
        max_features=max_features,
        alone_means_all=True,
    )
    if actions is None:
        notes.append(numbered_note(log.action_names, first=1))
    return log, [*notes, *lines.notes()]


def tags_wanted(context_id: str | None) -> bool:
    """Whether the tags are to be context ids."""
    if context_id not in (None, "tag"):
        raise LogError(f"context_id={context_id!r}; in Vowpal Wabbit's text it can only be 'tag', or None")
    return context_id == "tag"


class _Lines:
    """The events of a file, and what was noticed on the way."""

    def __init__(self, source: str | os.PathLike[str], *, tags: bool) -> None:
        self.source, self.tags = source, tags
        self.unlabelled = self.listing = self.tagged = self.rows = 0

    def events(self) -> Iterator[Event]:
        """One event for each labelled line."""
        self.unlabelled = self.listing = self.tagged = self.rows = 0
        blocks = _BlockEvidence()
        for where, text in text_lines(self.source):
            if not text.strip():
                blocks.end()
                continue
            line = split(text, where)
            if line.labels == ["shared"]:
                raise LogError(f"{where}: a shared line; this is the format for --cb_adf (format='vw-adf')")
            self.tagged += line.tag is not None
            labels = [label(token, where) for token in line.labels]
            costs = any(each.cost is not None for each in labels)
            blocks.see(where, costs)
            if costs:
                self.rows += 1
                self.listing += len(labels) > 1
                yield self._event(line, labels)
            else:
                self.unlabelled += 1
        blocks.check()

    def _event(self, line: Line, labels: list[Label]) -> Event:
        chosen = [(each, -each.cost) for each in labels if each.cost is not None]
        if len(chosen) > 1:
            raise LogError(f"{line.where}: {len(chosen)} labels with a cost; a bandit log has one a round")
        lowest = min(each.action for each in labels)
        if lowest < 1:
            raise LogError(f"{line.where}: action {lowest}; Vowpal Wabbit numbers actions from 1")
        [(taken, reward)] = chosen
        return Event(
            line.where,
            line.features(),
            taken.action,
            reward,
            propensity=taken.probability,
            eligible=[each.action for each in labels] if len(labels) > 1 else None,
            context_id=unescape(line.tag) if self.tags and line.tag is not None else None,
        )

    def notes(self) -> list[str]:
        """What was skipped and assumed."""
        notes = ["Rewards are minus the costs.", CONSTANT_NOTE]
        if self.unlabelled:
            notes.append(f"{self.unlabelled} unlabelled lines were skipped.")
        if 0 < self.listing < self.rows:
            notes.append(
                f"{self.rows - self.listing} lines list no other action: they are taken to have had all, as "
                "Vowpal Wabbit does."
            )
        if self.tagged and not self.tags:
            notes.append(f"The tags of {self.tagged} lines were left out; context_id='tag' keeps them.")
        return notes


class _BlockEvidence:
    """Whether lines stand in blocks with one label each, as only `--cb_adf` has them.

    Such a file would be read as `--cb` without a word: one line of each event, the other actions skipped.
    """

    def __init__(self) -> None:
        self.labelled = self.unlabelled = 0
        self.block = ""
        self.single = True

    def see(self, where: str, labelled: bool) -> None:
        """Take note of one line."""
        self.labelled += labelled
        self.unlabelled += not labelled
        self.single = self.single and self.labelled < 2
        if self.labelled and self.unlabelled and not self.block:
            self.block = where

    def end(self) -> None:
        """Take note of a blank line."""
        self.labelled = self.unlabelled = 0

    def check(self) -> None:
        """Refuse a file in which no block has two labels and some block has a line without one."""
        if self.single and self.block:
            raise LogError(
                f"{self.block}: one line with a label among lines without: these are blocks of --cb_adf, a line an "
                "action. Read them with format='vw-adf'; if they are --cb lines, delete those without a label"
            )


def write(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write `--cb` lines; K is the number of the log's actions. Says what the format could not carry."""
    need_propensities(log, "Vowpal Wabbit's --cb format")
    features = FeatureText(log)
    lists = has_sets(log) and bool((log.support.sizes > 1).all())
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows(log):
            others = "".join(f" {a + 1}" for a in row.available_first()[1:]) if lists else ""
            head = f"{row.action + 1}:{-row.reward!r}:{row.propensity!r}{others}"
            file.write(f"{head} {tag(row)}{features(row)}\n")
    return [*features.notes, *tag_notes(log), *_lost(log, lists=lists)]


def _lost(log: Log, *, lists: bool) -> list[str]:
    notes = []
    if log.action_names != tuple(range(1, log.n_actions + 1)):
        notes.append("Actions are written as 1 to K: read the file with actions=[...] for their names.")
    elif not log.counts[-1] and not (lists and log.support.shares[-1] > 0):
        notes.append("The last action is in no row: read the file with actions=[...] to keep it.")
    if lists:
        notes += distribution_notes(log)
    if log.support.known and not lists:
        why = "estimated" if not has_sets(log) else "a single action in some rows, which --cb cannot say"
        notes.append(f"The log's support is {why}: it was left out.")
    return notes
