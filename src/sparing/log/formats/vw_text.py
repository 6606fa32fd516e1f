"""Vowpal Wabbit's text: `--cb` lines, one for each round, and `--cb_adf` blocks, with one line for each action."""

import itertools
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from sparing.errors import LogError
from sparing.log import labels, writer
from sparing.log.formats.events import Event, EventReader
from sparing.log.formats.records import (
    Named,
    Naming,
    add_feature,
    by_label,
    by_number,
    by_text,
    numbered_note,
    parse_number,
    text_lines,
)
from sparing.log.labels import WHOLE_NUMBER, shorten
from sparing.log.log import Log
from sparing.log.rows import AnyLog

BLANKS = " \t"
ESCAPED = {character: f"%{ord(character):02X}" for character in " \t\r\n:|%"}
ESCAPES = str.maketrans(ESCAPED)
UNESCAPE = re.compile("|".join(ESCAPED.values()))
LARGEST_ACTION = 2**32 - 1
SHARED, POSITION = "shared", "position"
OTHER_TASKS = {
    "ccb": "several decisions in one event (ccb); a bandit log has one",
    "slates": "several decisions in one event (slates); a bandit log has one",
    "ca": "actions out of a continuous range (ca); a bandit log has a list of actions",
}
"""The first word of labels of tasks that are not contextual bandits, and what they are."""

CONSTANT_NOTE = "Vowpal Wabbit adds a constant feature of its own; none was added to the contexts."

Path = str | os.PathLike[str]


def escape(text: str) -> str:
    """Replace the characters that separate parts of Vowpal Wabbit's text by %20 and the like."""
    return text.translate(ESCAPES)


def unescape(text: str) -> str:
    return UNESCAPE.sub(lambda code: chr(int(code[0][1:], 16)), text) if "%" in text else text


@dataclass(slots=True)
class Line:
    """The parts of one line: label tokens, tag, and its namespaces with their features as text."""

    where: str
    labels: list[str]
    tag: str | None
    spaces: list[tuple[str, list[str]]] = field(default_factory=list)

    def features(self) -> dict[str, float]:
        """Return values by name, `namespace^feature` outside the nameless namespace.

        Features without a name are numbered from 0 in their namespace, as Vowpal Wabbit does.
        """
        features: dict[str, float] = {}
        for head, tokens in self.spaces:
            space, colon, weight = head.partition(":")
            nameless, scale = 0, 1.0
            if colon:
                scale = parse_number(weight, self.where, f"the weight of namespace {shorten(space)}")
            for token in tokens:
                name, colon, text = token.partition(":")
                if not name:
                    name, nameless = str(nameless), nameless + 1
                value = parse_number(text, self.where, "feature", name) if colon else 1.0
                full = unescape(f"{space}^{name}" if space else name)
                add_feature(features, full, value if scale == 1 else value * scale)
        return features

    def text(self) -> str:
        """The features as they are written, with single blanks."""
        return " ".join(" ".join([f"|{head}", *tokens]) for head, tokens in self.spaces)


class CbLabel(NamedTuple):
    """An action's number, and its cost and probability if they are given."""

    action: int
    cost: float | None
    probability: float | None


def split(line: str, where: str) -> Line:
    """Split a line at its bars."""
    head, *parts = line.split("|")
    if not parts:
        raise LogError(f"{where}: no bar in {shorten(line)}; expected `action:cost:probability | features`")
    tokens = _words(head)
    if tokens and tokens[0] in OTHER_TASKS:
        raise LogError(
            f"{where}: {OTHER_TASKS[tokens[0]]}. Write each decision as an event of --cb_adf first"
        )
    tag = None
    if tokens and (tokens[-1].startswith("'") or head[-1] not in BLANKS):
        tag = tokens.pop().removeprefix("'")
        if tag.count(":") == 2 and not tokens:
            raise LogError(
                f"{where}: no blank between the label {shorten(tag)} and the bar; Vowpal Wabbit takes that for a tag. "
                "Put a blank before the bar"
            )
    found = Line(where, tokens, tag)
    for part in parts:
        tokens = _words(part)
        named = bool(part) and part[0] not in BLANKS
        found.spaces.append((tokens[0], tokens[1:]) if named else ("", tokens))
    return found


def _words(text: str) -> list[str]:
    # Only blanks and tabs separate words: any other white space may be part of a name.
    return [word for word in text.replace("\t", " ").split(" ") if word]


def parse_label(token: str, where: str) -> CbLabel:
    """Read `action`, `action:cost` or `action:cost:probability`."""
    number, *numbers = token.split(":")
    if not WHOLE_NUMBER.fullmatch(number) or len(numbers) > 2 or int(number) > LARGEST_ACTION:
        raise LogError(
            f"{where}: label {shorten(token)}; expected action:cost:probability, the action a whole number up to "
            f"{LARGEST_ACTION}"
        )
    cost = parse_number(numbers[0], where, "the cost") if numbers else None
    share = parse_number(numbers[1], where, "the probability") if numbers[1:] else None
    return CbLabel(int(number), cost, share)


class _LineReader(EventReader):
    """Reads lines of text. With `context_id="tag"`, tags are context ids; `unit` is what has a tag."""

    unit: ClassVar[str]

    def __init__(self, source: Path, naming: Naming, context_id: str | None) -> None:
        if context_id not in (None, "tag"):
            raise LogError(
                f"context_id={context_id!r}; in Vowpal Wabbit's text it can only be 'tag', or None"
            )
        super().__init__(os.fspath(source), naming, alone_means_all=True)
        self.source, self.tags = source, context_id is not None

    def lines(self) -> Iterator[Line | None]:
        """Yield each line in its parts, None for a blank line."""
        for where, text in text_lines(self.source):
            yield split(text, where) if text.strip() else None

    def id_of(self, line: Line | None) -> str | None:
        if line is None or line.tag is None:
            return None
        self.seen["tags"] += 1
        return unescape(line.tag) if self.tags else None

    def notes(self, log: Log, *, named: bool) -> list[str]:
        notes = ["Rewards are minus the costs.", CONSTANT_NOTE]
        if self.seen["tags"] and not self.tags:
            count = f"{self.seen['tags']} {self.unit}"
            notes.append(f"The tags of {count} were left out; context_id='tag' keeps them.")
        return notes


class VwTextReader(_LineReader):
    """Reads `--cb` lines: reward = −cost; features that a line does not name are 0.

    `actions` names the actions 1..K in order. Without it their names are 1..K, K the largest logged number, or, if
    numbers are large and sparse, those that occur. Further actions in a line's label are the other available ones.
    `context_id="tag"` takes the lines' tags as context ids.
    """

    unit = "lines"

    def __init__(self, source: Path, *, context_id: str | None = None) -> None:
        super().__init__(source, by_number, context_id)

    def events(self) -> Iterator[Event]:
        # Lines in blocks with one label each are --cb_adf: read as --cb, one line of each event would silently be left.
        in_block = labelled = 0
        mixed, single = "", True
        for line in self.lines():
            if line is None:
                in_block = labelled = 0
                continue
            if line.labels == [SHARED]:
                raise LogError(
                    f"{line.where}: a shared line; this is the format for --cb_adf (format='vw-adf')"
                )
            found = [parse_label(token, line.where) for token in line.labels]
            costs = any(each.cost is not None for each in found)
            in_block, labelled = in_block + 1, labelled + costs
            single = single and labelled < 2
            if not mixed and 0 < labelled < in_block:
                mixed = line.where
            if costs:
                self.seen["listing" if len(found) > 1 else "alone"] += 1
                yield self._event(line, found)
            else:
                self.skipped["unlabelled lines"] += 1
        if single and mixed:
            raise LogError(
                f"{mixed}: one line with a label among lines without: these are blocks of --cb_adf, a line an "
                "action. Read them with format='vw-adf'; if they are --cb lines, delete those without a label"
            )

    def _event(self, line: Line, found: list[CbLabel]) -> Event:
        chosen = [(each, -each.cost) for each in found if each.cost is not None]
        if len(chosen) > 1:
            raise LogError(f"{line.where}: {len(chosen)} labels with a cost; a bandit log has one a round")
        lowest = min(each.action for each in found)
        if lowest < 1:
            raise LogError(f"{line.where}: action {lowest}; Vowpal Wabbit numbers actions from 1")
        [(taken, reward)] = chosen
        return Event(
            line.where,
            line.features(),
            taken.action,
            reward,
            propensity=taken.probability,
            eligible=[each.action for each in found] if len(found) > 1 else None,
            context_id=self.id_of(line),
        )

    def notes(self, log: Log, *, named: bool) -> list[str]:
        notes = [] if named else [numbered_note(log.action_names, first=1)]
        notes += super().notes(log, named=named)
        if self.seen["listing"] and self.seen["alone"]:
            notes.append(
                f"{self.seen['alone']} lines list no other action: they are taken to have had all, as Vowpal Wabbit "
                "does."
            )
        return notes


class VwAdfReader(_LineReader):
    """Reads `--cb_adf` blocks: contexts are the shared features, reward = −cost.

    An action is identified by its whole line of features, with `action_id="id"` by its feature `id=…` alone, with
    `action_id="position"` by its place in the block. A block's lines are the available actions. `context_id="tag"`
    takes the shared lines' tags as context ids.
    """

    unit = "events"

    def __init__(self, source: Path, *, action_id: str | None = None, context_id: str | None = None) -> None:
        super().__init__(source, {None: _by_line, POSITION: by_label}.get(action_id, by_text), context_id)
        self.action_id = action_id

    def events(self) -> Iterator[Event]:
        for block in self._blocks():
            shared = block.pop(0) if block[0].labels[:1] == [SHARED] else None
            event = self._event(block, shared)
            if event is None:
                self.skipped["events without a label"] += 1
            else:
                yield event

    def _blocks(self) -> Iterator[list[Line]]:
        block: list[Line] = []
        for line in itertools.chain(self.lines(), [None]):
            if line is not None:
                if block and line.labels[:1] == [SHARED]:
                    raise LogError(
                        f"{line.where}: a shared line inside an event; a blank line must stand between events"
                    )
                block.append(line)
            elif block:
                yield block
                block = []

    def _event(self, block: list[Line], shared: Line | None) -> Event | None:
        if not block:
            where = shared.where if shared else ""
            raise LogError(f"{where}: a shared line without a line for any action; is the file cut off?")
        found = [(i, parse_label(token, line.where)) for i, line in enumerate(block) for token in line.labels]
        costs = [(i, -each.cost, each.probability) for i, each in found if each.cost is not None]
        if len(costs) > 1:
            raise LogError(
                f"{block[costs[1][0]].where}: a second label in one event; only one action was taken"
            )
        if not costs:
            return None
        [(chosen, reward, share)] = costs
        eligible = [self._action(i, line) for i, line in enumerate(block)]
        return Event(
            block[chosen].where,
            {} if shared is None else shared.features(),
            eligible[chosen],
            reward,
            propensity=share,
            eligible=eligible,
            context_id=self.id_of(shared),
        )

    def _action(self, position: int, line: Line) -> Hashable:
        if self.action_id == POSITION:
            return position + 1
        if self.action_id is None:
            text = line.text()
            self.seen["featured"] += _only_feature(text) is None
            return text
        for token in (token for _, tokens in line.spaces for token in tokens):
            name, equals, value = token.partition(":")[0].partition("=")
            if equals and name == self.action_id:
                return unescape(value)
        raise LogError(
            f"{line.where}: no feature {self.action_id}=… to identify the action (action_id={self.action_id!r}). "
            "Leave action_id out to identify actions by their whole line"
        )

    def notes(self, log: Log, *, named: bool) -> list[str]:
        notes = ["The actions of a block are taken to be all that the event could have taken."]
        if self.seen["featured"] or self.action_id is not None:
            notes.append("Features of actions are used as their names only.")
        return [*super().notes(log, named=named), *notes]


def _by_line(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Lines with one feature of value 1 are named by it; others by their text."""
    short = {line: _only_feature(str(line)) for line in seen}
    if None in short.values() or len(set(short.values())) < len(short):
        return by_text(seen, given)
    names, index = by_text(set(short.values()), given)
    return names, {line: index[text] for line, text in short.items() if text in index}


def _only_feature(line: str) -> str | None:
    """The feature of `|space name`, or None if there are more, or a value."""
    features = line.split(" ")[1:]
    if len(features) > 1 or ":" in "".join(features):
        return None
    return unescape("".join(features))


class _ContextText:
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

    def __call__(self, row: writer.WrittenRow) -> str:
        """The tag, bars and features of a row: `'id | age:31.0 |geo lat:47.4`."""
        written = [] if row.context_id is None else [f"'{escape(str(row.context_id))}"]
        current = None
        for (space, name), value in row.features:
            if space != current:
                written.append(f"|{space}")
                current = space
            written.append(f"{name}:{value!r}")
        return " ".join(written if row.features else [*written, "|"])


def write_cb(log: AnyLog, path: Path) -> list[str]:
    """Write `--cb` lines and return what the format could not carry."""
    passing = writer.LogStream(log, needs_propensities="Vowpal Wabbit's --cb format")
    context = _ContextText(passing.header)
    lists = writer.has_sets(passing.header) and passing.full_summary().smallest > 1

    def line(row: writer.WrittenRow) -> str:
        others = "".join(f" {a + 1}" for a in row.available if a != row.action) if lists else ""
        return f"{row.action + 1}:{-row.reward!r}:{row.propensity!r}{others} {context(row)}"

    writer.write_lines(path, map(line, writer.rows(passing, context.names)))
    return [*context.notes, *_lost(passing.header, passing.summary, lists=lists)]


def _lost(log: Log, summary: writer.SupportSummary, *, lists: bool) -> list[str]:
    notes = []
    if log.action_names != tuple(range(1, log.n_actions + 1)):
        notes.append("Actions are written as 1 to K: read the file with actions=[...] for their names.")
    elif not summary.logged[-1] and not (lists and summary.listed[-1]):
        notes.append("The last action is in no row: read the file with actions=[...] to keep it.")
    if lists:
        return [*notes, *writer.distribution_notes(log)]
    if log.support.known:
        single = "a single action in some rows, which --cb cannot say"
        why = single if writer.has_sets(log) else "estimated"
        notes.append(f"The log's support is {why}: it was left out.")
    return notes


def write_cb_adf(log: AnyLog, path: Path) -> list[str]:
    """Write `--cb_adf` blocks, each action as its name, and return what the format could not carry."""
    passing = writer.LogStream(log, needs_propensities="Vowpal Wabbit's --cb_adf format")
    header = passing.header
    context = _ContextText(header)
    names = [f"|action {escape(labels.label_text(name))}" for name in header.action_names]

    def block(row: writer.WrittenRow) -> str:
        label = f"0:{-row.reward!r}:{row.propensity!r} "
        actions = [f"{label if action == row.action else ''}{names[action]}" for action in row.available]
        return "\n".join([f"{SHARED} {context(row)}", *actions, ""])

    writer.write_lines(path, map(block, writer.rows(passing, context.names)))
    return [*context.notes, *writer.text_notes(header.action_names), *writer.lossy_notes(passing)]
