"""Vowpal Wabbit's text lines, and its format for `--cb`: `action:cost:probability | feature:value …`, a line a round."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sparing.errors import LogError
from sparing.log.columns import keywords_of
from sparing.log.formats import writing
from sparing.log.formats.events import Event, Reader
from sparing.log.formats.records import add_feature, by_number, numbered_note, parsed, text_lines
from sparing.log.labels import WHOLE_NUMBER, brief
from sparing.log.log import Log

BLANKS = " \t"
ESCAPED = {character: f"%{ord(character):02X}" for character in " \t\r\n:|%"}
ESCAPES = str.maketrans(ESCAPED)
UNESCAPE = re.compile("|".join(ESCAPED.values()))
LARGEST_ACTION = 2**32 - 1
OTHER_TASKS = {
    "ccb": "several decisions in one event (ccb); a bandit log has one",
    "slates": "several decisions in one event (slates); a bandit log has one",
    "ca": "actions out of a continuous range (ca); a bandit log has a list of actions",
}
"""What Vowpal Wabbit's label begins with in tasks that are no contextual bandit, in words."""

CONSTANT_NOTE = "Vowpal Wabbit adds a constant feature of its own; none was added to the contexts."


def escape(text: str) -> str:
    """A name without the characters that Vowpal Wabbit's text splits at; they become %20 and the like."""
    return text.translate(ESCAPES)


def unescape(text: str) -> str:
    """What `escape` was given."""
    return UNESCAPE.sub(lambda code: chr(int(code[0][1:], 16)), text) if "%" in text else text


@dataclass(slots=True)
class Line:
    """One line, taken apart: label tokens, tag, and its namespaces with their features as text."""

    where: str
    labels: list[str]
    tag: str | None
    spaces: list[tuple[str, list[str]]] = field(default_factory=list)

    def features(self) -> dict[str, float]:
        """Values by name; `namespace^feature` outside the nameless namespace.

        Features without a name are numbered from 0 in their namespace, as Vowpal Wabbit does.
        """
        features: dict[str, float] = {}
        for head, tokens in self.spaces:
            space, colon, weight = head.partition(":")
            scale = parsed(weight, self.where, f"the weight of namespace {brief(space)}") if colon else 1.0
            nameless = 0
            for token in tokens:
                name, colon, text = token.partition(":")
                if not name:
                    name, nameless = str(nameless), nameless + 1
                value = parsed(text, self.where, "feature", name) if colon else 1.0
                full = unescape(f"{space}^{name}" if space else name)
                add_feature(features, full, value if scale == 1 else value * scale)
        return features

    def text(self) -> str:
        """The features as they stand, with single blanks: what tells one action from another."""
        return " ".join(" ".join([f"|{head}", *tokens]) for head, tokens in self.spaces)


@dataclass(frozen=True, slots=True)
class Label:
    """An action's number, and its cost and probability where they are given."""

    action: int
    cost: float | None
    probability: float | None


def split(line: str, where: str) -> Line:
    """Take a line apart at its bars."""
    head, *parts = line.split("|")
    if not parts:
        raise LogError(f"{where}: no bar in {brief(line)}; expected `action:cost:probability | features`")
    tokens = words(head)
    if tokens and tokens[0] in OTHER_TASKS:
        raise LogError(
            f"{where}: {OTHER_TASKS[tokens[0]]}. Write each decision as an event of --cb_adf first"
        )
    tag = None
    if tokens and (tokens[-1].startswith("'") or head[-1] not in BLANKS):
        tag = tokens.pop().removeprefix("'")
        if tag.count(":") == 2 and not tokens:
            raise LogError(
                f"{where}: no blank between the label {brief(tag)} and the bar; Vowpal Wabbit takes that for a tag. "
                "Put a blank before the bar"
            )
    taken = Line(where, tokens, tag)
    for part in parts:
        tokens = words(part)
        named = bool(part) and part[0] not in BLANKS
        taken.spaces.append((tokens[0], tokens[1:]) if named else ("", tokens))
    return taken


def words(text: str) -> list[str]:
    """Split at blanks and tabs only: any other white space may be part of a name."""
    return [word for word in text.replace("\t", " ").split(" ") if word]


def label(token: str, where: str) -> Label:
    """Read `action`, `action:cost` or `action:cost:probability`."""
    number, *numbers = token.split(":")
    if not WHOLE_NUMBER.fullmatch(number) or len(numbers) > 2 or int(number) > LARGEST_ACTION:
        raise LogError(
            f"{where}: label {brief(token)}; expected action:cost:probability, the action a whole number up to "
            f"{LARGEST_ACTION}"
        )
    cost = parsed(numbers[0], where, "the cost") if numbers else None
    return Label(int(number), cost, parsed(numbers[1], where, "the probability") if numbers[1:] else None)


class FeatureText:
    """Writes the features of rows; a name `space^name` goes to the namespace it came from."""

    def __init__(self, log: Log) -> None:
        names, self.notes = writing.feature_names(log)
        parts = [name.partition("^") for name in names]
        self._names = [
            (escape(space), escape(rest)) if space and rest else ("", escape(name))
            for name, (space, _, rest) in zip(names, parts, strict=True)
        ]

    def __call__(self, row: writing.Row) -> str:
        """The bars and features of a row: `| age:31.0 |geo lat:47.4`."""
        written: list[str] = []
        current = None
        for position, value in row.features:
            space, name = self._names[position]
            if space != current:
                written.append(f"|{space}")
                current = space
            written.append(f"{name}:{value!r}")
        return " ".join(written) or "|"


def tag(row: writing.Row) -> str:
    """A row's context id as the tag of its line, with the blank behind it."""
    return "" if row.context_id is None else f"'{escape(str(row.context_id))} "


def tag_notes(log: Log) -> list[str]:
    """What becomes of the context ids."""
    if log.context_ids is None:
        return []
    numbers = "" if log.context_ids.dtype.kind == "U" else ", where numbers come back as text"
    return [f"Context ids are written as tags: read them back with context_id='tag'{numbers}."]


@keywords_of(Reader.read)
def read(
    source: str | os.PathLike[str], *, context_id: str | None = None, **vocabulary: Any
) -> tuple[Log, list[str]]:
    """Read `--cb` lines: reward = −cost, features that a line does not name are 0.

    `actions` names the actions 1..K in order; without it their names are 1..K, K the largest logged, or, where
    numbers are large and sparse, those that occur.
    Further actions in a line's label are the ones it could have taken. `context_id="tag"` takes the
    lines' tags for context ids.
    """
    return _Lines(source, tags=tags_wanted(context_id)).read(**vocabulary)


def tags_wanted(context_id: str | None) -> bool:
    """Whether the tags are to be context ids."""
    if context_id not in (None, "tag"):
        raise LogError(f"context_id={context_id!r}; in Vowpal Wabbit's text it can only be 'tag', or None")
    return context_id == "tag"


class _Lines(Reader):
    """The events of a file, and what was noticed on the way."""

    def __init__(self, source: str | os.PathLike[str], *, tags: bool) -> None:
        super().__init__(os.fspath(source), by_number, alone_means_all=True)
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

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was skipped and assumed."""
        notes = [] if named else [numbered_note(log.action_names, first=1)]
        notes += ["Rewards are minus the costs.", CONSTANT_NOTE]
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
    writing.need_propensities(log, "Vowpal Wabbit's --cb format")
    features = FeatureText(log)
    lists = writing.has_sets(log) and bool((log.support.sizes > 1).all())

    def line(row: writing.Row) -> str:
        others = "".join(f" {a + 1}" for a in row.available_first()[1:]) if lists else ""
        return f"{row.action + 1}:{-row.reward!r}:{row.propensity!r}{others} {tag(row)}{features(row)}"

    writing.write_lines(path, map(line, writing.rows(log)))
    return [*features.notes, *tag_notes(log), *_lost(log, lists=lists)]


def _lost(log: Log, *, lists: bool) -> list[str]:
    notes = []
    if log.action_names != tuple(range(1, log.n_actions + 1)):
        notes.append("Actions are written as 1 to K: read the file with actions=[...] for their names.")
    elif not log.counts[-1] and not (lists and log.support.shares[-1] > 0):
        notes.append("The last action is in no row: read the file with actions=[...] to keep it.")
    if lists:
        notes += writing.distribution_notes(log)
    if log.support.known and not lists:
        why = (
            "estimated"
            if not writing.has_sets(log)
            else "a single action in some rows, which --cb cannot say"
        )
        notes.append(f"The log's support is {why}: it was left out.")
    return notes
