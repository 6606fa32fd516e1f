"""Tell a format by the first bytes of a file."""

import re

from sparing.log.parsing import load_json

NUMBER = rb"[-+0-9.eE]+"
TAG = rb"(?:'[^ \t|]*|[^ \t|:']+)?"
CB_LINE = re.compile(rb"[ \t]*(?:[0-9]+(?::%b){0,2}[ \t]+)*%b[ \t]*\|" % (NUMBER, TAG))
LABELLED_LINE = re.compile(rb"[ \t]*(?:[0-9]+[ \t]+)*[0-9]+:%b" % NUMBER)
OTHER_TASK = re.compile(rb"[ \t]*(?:ccb|slates|ca)[ \t][^|]*\|")
SHARED_LINE = re.compile(rb"shared[ \t|]")
CONTEXT = re.compile(rb'"c"\s*:\s*\{')
OBP_MEMBER = re.compile(
    rb"(?:n_rounds|n_actions|context|action|position|reward|pscore|pi_b|action_context|expected_reward)\.npy"
)


def obp(head: bytes) -> bool:
    """A zip whose first member is an array of a bandit feedback."""
    return head[:4] == b"PK\3\4" and OBP_MEMBER.match(head, 30) is not None


def open_bandit(head: bytes) -> bool:
    """A header with the dataset's columns."""
    columns = {name.strip().strip(b'"') for name in head.split(b"\n", 1)[0].split(b",")}
    telling = {b"propensity_score", b"action_prob", b"user_feature_0"}
    return {b"item_id", b"click"} <= columns and bool(columns & telling)


def vw_text(head: bytes) -> bool:
    """Lines with bars, some with labels, not in blocks."""
    return _is_vw(_lines(head)) and not vw_adf(head)


def vw_adf(head: bytes) -> bool:
    """A shared line, or lines with bars in blocks of which none has two labels and one has lines without."""
    lines = _lines(head)
    if lines and (SHARED_LINE.match(lines[0]) or OTHER_TASK.match(lines[0])):
        return True
    blocks = [_lines(block + b"\n") for block in re.split(rb"\r?\n[ \t]*\r?\n", head)]
    labels = [[LABELLED_LINE.match(line) is not None for line in block] for block in blocks]
    return (
        _is_vw(lines)
        and all(sum(each) < 2 for each in labels)
        and any(0 < sum(each) < len(each) for each in labels)
    )


def dsjson(head: bytes) -> bool:
    """An object with a label or a list of actions, which is in its context `c`."""
    first = _first_object(head)
    return _is_labelled(first) and _in_context(first)


def vw_json(head: bytes) -> bool:
    """An object with a label or a list of actions that is itself the context."""
    first = _first_object(head)
    return _is_labelled(first) and not _in_context(first)


def coba(head: bytes) -> bool:
    """An object with a context, an action and a reward."""
    first = _first(head)
    parts = (b'"context"', b'"action"', b'"reward"')
    return first.startswith(b"{") and all(part in first for part in parts) and not _is_labelled(first)


def river(head: bytes) -> bool:
    """A list that begins with a list."""
    return re.match(rb"\[\s*\[", _first(head)) is not None


def _first_object(head: bytes) -> bytes:
    """The first line that is a JSON object: Vowpal Wabbit skips others."""
    return next((line.strip() for line in _lines(head) if line.lstrip().startswith(b"{")), b"")


def _is_labelled(first: bytes) -> bool:
    return b'"_label' in first or b'"_multi"' in first or b'"_outcomes"' in first


def _in_context(first: bytes) -> bool:
    """Whether the list of actions is inside an object `c`; where the line is cut off, whether there is one."""
    try:
        record = load_json(first)
    except ValueError:
        return CONTEXT.search(first) is not None
    context = record.get("c") if isinstance(record, dict) else None
    return isinstance(context, dict) and "_multi" not in record


def _is_vw(lines: list[bytes]) -> bool:
    return all(map(CB_LINE.match, lines)) and any(map(LABELLED_LINE.match, lines))


def _lines(head: bytes) -> list[bytes]:
    """The lines that are there as a whole, blank ones left out."""
    lines = head.removeprefix(b"\xef\xbb\xbf").splitlines()
    whole = lines[:-1] if len(lines) > 1 and not head.endswith(b"\n") else lines
    return [line for line in whole if line.strip()]


def _first(head: bytes) -> bytes:
    lines = _lines(head)
    return lines[0].strip() if lines else b""
