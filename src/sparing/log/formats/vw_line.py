"""One line of Vowpal Wabbit's text, taken apart and put together."""

import re
from dataclasses import dataclass, field

from sparing.errors import LogError
from sparing.log.formats.features import add_feature, parsed
from sparing.log.formats.rows import Row, feature_names
from sparing.log.log import Log
from sparing.log.parsing import WHOLE_NUMBER, brief

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
        names, self.notes = feature_names(log)
        parts = [name.partition("^") for name in names]
        self._names = [
            (escape(space), escape(rest)) if space and rest else ("", escape(name))
            for name, (space, _, rest) in zip(names, parts, strict=True)
        ]

    def __call__(self, row: Row) -> str:
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


def tag(row: Row) -> str:
    """A row's context id as the tag of its line, with the blank behind it."""
    return "" if row.context_id is None else f"'{escape(str(row.context_id))} "


def tag_notes(log: Log) -> list[str]:
    """What becomes of the context ids."""
    if log.context_ids is None:
        return []
    numbers = "" if log.context_ids.dtype.kind == "U" else ", where numbers come back as text"
    return [f"Context ids are written as tags: read them back with context_id='tag'{numbers}."]
