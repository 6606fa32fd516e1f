"""Vowpal Wabbit's text lines, and its format for `--cb`: `action:cost:probability | feature:value …`, a line a round."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sparing.errors import LogError
from sparing.log import writer
from sparing.log.formats.events import Reader, readers
from sparing.log.formats.records import Naming, add_feature, by_number, numbered_note, parsed, text_lines
from sparing.log.formats.vocabulary import Event
from sparing.log.labels import WHOLE_NUMBER, brief
from sparing.log.log import Log
from sparing.log.rows import AnyLog

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


class Label(NamedTuple):
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


class ContextText:
    """Writes the contexts of rows, ids as tags; a feature `space^name` goes to the namespace it came from."""

    def __init__(self, log: Log) -> None:
        names, self.notes = writer.feature_names(log)
        parts = [name.partition("^") for name in names]
        self.names = [
            (escape(space), escape(rest)) if space and rest else ("", escape(name))
            for name, (space, _, rest) in zip(names, parts, strict=True)
        ]
        if log.context_ids is not None:
            back = "" if log.context_ids.dtype.kind == "U" else ", where numbers come back as text"
            self.notes.append(f"Context ids are written as tags: read them back with context_id='tag'{back}.")

    def __call__(self, row: writer.Row) -> str:
        """The tag, bars and features of a row: `'id | age:31.0 |geo lat:47.4`."""
        written = [] if row.context_id is None else [f"'{escape(str(row.context_id))}"]
        current = None
        for (space, name), value in row.features:
            if space != current:
                written.append(f"|{space}")
                current = space
            written.append(f"{name}:{value!r}")
        return " ".join(written if row.features else [*written, "|"])


class TextReader(Reader):
    """Reads lines of text. With `context_id="tag"`, tags are context ids; `unit` is what has a tag."""

    def __init__(
        self, source: str | os.PathLike[str], naming: Naming, context_id: str | None, unit: str
    ) -> None:
        if context_id not in (None, "tag"):
            raise LogError(
                f"context_id={context_id!r}; in Vowpal Wabbit's text it can only be 'tag', or None"
            )
        super().__init__(os.fspath(source), naming, alone_means_all=True)
        self.source, self.tags, self.unit = source, context_id is not None, unit

    def lines(self) -> Iterator[Line | None]:
        """Each line taken apart, None where it is blank."""
        for where, text in text_lines(self.source):
            yield split(text, where) if text.strip() else None

    def id_of(self, line: Line | None) -> str | None:
        """The context id of a line with a tag."""
        if line is None or line.tag is None:
            return None
        self.seen["tags"] += 1
        return unescape(line.tag) if self.tags else None

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed."""
        notes = ["Rewards are minus the costs.", CONSTANT_NOTE]
        if self.seen["tags"] and not self.tags:
            count = f"{self.seen['tags']} {self.unit}"
            notes.append(f"The tags of {count} were left out; context_id='tag' keeps them.")
        return notes


def opened(source: str | os.PathLike[str], *, context_id: str | None = None) -> Reader:
    """Read `--cb` lines: reward = −cost, features that a line does not name are 0.

    `actions` names the actions 1..K in order; without it their names are 1..K, K the largest logged, or, where
    numbers are large and sparse, those that occur.
    Further actions in a line's label are the ones it could have taken. `context_id="tag"` takes the
    lines' tags for context ids.
    """
    return _Lines(source, by_number, context_id, "lines")


read, scan = readers(opened)


class _Lines(TextReader):
    """The events of a file, one a line."""

    def events(self) -> Iterator[Event]:
        """One event for each labelled line."""
        blocks = _BlockEvidence()
        for line in self.lines():
            if line is None:
                blocks.end()
                continue
            if line.labels == ["shared"]:
                raise LogError(
                    f"{line.where}: a shared line; this is the format for --cb_adf (format='vw-adf')"
                )
            labels = [label(token, line.where) for token in line.labels]
            costs = any(each.cost is not None for each in labels)
            blocks.see(line.where, costs)
            if costs:
                self.seen["listing" if len(labels) > 1 else "alone"] += 1
                yield self._event(line, labels)
            else:
                self.skipped["unlabelled lines"] += 1
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
            context_id=self.id_of(line),
        )

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed, also of the numbers and of lines without others."""
        notes = [] if named else [numbered_note(log.action_names, first=1)]
        notes += super().notes(log, named=named)
        if self.seen["listing"] and self.seen["alone"]:
            notes.append(
                f"{self.seen['alone']} lines list no other action: they are taken to have had all, as Vowpal Wabbit "
                "does."
            )
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


def write(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write `--cb` lines; K is the number of the log's actions. Says what the format could not carry."""
    passing = writer.Passing(log)
    writer.need_propensities(passing.header, "Vowpal Wabbit's --cb format")
    context = ContextText(passing.header)
    lists = writer.has_sets(passing.header) and passing.beforehand().smallest > 1

    def line(row: writer.Row) -> str:
        others = "".join(f" {a + 1}" for a in row.available if a != row.action) if lists else ""
        return f"{row.action + 1}:{-row.reward!r}:{row.propensity!r}{others} {context(row)}"

    writer.write_lines(path, map(line, writer.rows(passing, context.names)))
    return [*context.notes, *_lost(passing.header, passing.told, lists=lists)]


def _lost(log: Log, told: writer.Told, *, lists: bool) -> list[str]:
    notes = []
    if log.action_names != tuple(range(1, log.n_actions + 1)):
        notes.append("Actions are written as 1 to K: read the file with actions=[...] for their names.")
    elif not told.logged[-1] and not (lists and told.listed[-1]):
        notes.append("The last action is in no row: read the file with actions=[...] to keep it.")
    if lists:
        return [*notes, *writer.distribution_notes(log)]
    if log.support.known:
        single = "a single action in some rows, which --cb cannot say"
        why = single if writer.has_sets(log) else "estimated"
        notes.append(f"The log's support is {why}: it was left out.")
    return notes
