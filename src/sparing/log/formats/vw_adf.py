"""Vowpal Wabbit's text blocks for `--cb_adf`: a shared line, a line an action, a blank line behind each event."""

import itertools
import os
from collections.abc import Hashable, Iterator, Sequence

from sparing.errors import LogError
from sparing.log import labels, writer
from sparing.log.formats.events import Reader, readers
from sparing.log.formats.records import Named, by_label, by_text
from sparing.log.formats.vocabulary import Event
from sparing.log.formats.vw_text import ContextText, Line, TextReader, escape, label, unescape
from sparing.log.log import Log
from sparing.log.rows import AnyLog

SHARED = "shared"
POSITION = "position"


def opened(
    source: str | os.PathLike[str],
    *,
    action_id: str | None = None,
    context_id: str | None = None,
) -> Reader:
    """Read `--cb_adf` blocks: contexts are the shared features, reward = −cost.

    An action is told by its whole line of features; `action_id="id"` tells it by its feature `id=…`
    alone, `action_id="position"` by its place in the block. A block's lines are the actions it could
    have taken. `context_id="tag"` takes the shared lines' tags for context ids.
    """
    return _Blocks(source, action_id, context_id)


read, scan = readers(opened)


def _by_line(seen: set[Hashable], given: Sequence[Hashable] | None) -> Named:
    """Lines with one feature of value 1 are named by it; others by their text."""
    short = {line: _only_feature(str(line)) for line in seen}
    if None in short.values() or len(set(short.values())) < len(short):
        return by_text(seen, given)
    names, index = by_text(set(short.values()), given)
    return names, {line: index[text] for line, text in short.items() if text in index}


def _only_feature(line: str) -> str | None:
    """The feature of `|space name`, or None where there are more, or a value."""
    features = line.split(" ")[1:]
    if len(features) > 1 or ":" in "".join(features):
        return None
    return unescape("".join(features))


class _Blocks(TextReader):
    """The events of a file, one a block."""

    def __init__(self, source: str | os.PathLike[str], action_id: str | None, context_id: str | None) -> None:
        naming = {None: _by_line, POSITION: by_label}.get(action_id, by_text)
        super().__init__(source, naming, context_id, "events")
        self.action_id = action_id

    def events(self) -> Iterator[Event]:
        """One event for each block with a label."""
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
        found = [(i, label(token, line.where)) for i, line in enumerate(block) for token in line.labels]
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
            f"{line.where}: no feature {self.action_id}=… to tell the action by, as action_id={self.action_id!r} "
            "asks; leave action_id out to tell actions by their whole line"
        )

    def notes(self, log: Log, *, named: bool) -> list[str]:
        """What was assumed, also of the actions."""
        notes = ["The actions of a block are taken to be all that the event could have taken."]
        if self.seen["featured"] or self.action_id is not None:
            notes.append("Features of actions are used as their names only.")
        return [*super().notes(log, named=named), *notes]


def write(log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
    """Write `--cb_adf` blocks, each action as its name. Says what the format could not carry."""
    passing = writer.Passing(log)
    header = passing.header
    writer.need_propensities(header, "Vowpal Wabbit's --cb_adf format")
    context = ContextText(header)
    names = [f"|action {escape(labels.as_text(name))}" for name in header.action_names]

    def block(row: writer.Row) -> str:
        label = f"0:{-row.reward!r}:{row.propensity!r} "
        actions = [f"{label if action == row.action else ''}{names[action]}" for action in row.available]
        return "\n".join([f"{SHARED} {context(row)}", *actions, ""])

    writer.write_lines(path, map(block, writer.rows(passing, context.names)))
    return [*context.notes, *writer.text_notes(header.action_names), *writer.lost(passing)]
