"""Files of a queue and of its answers: CSV that spreadsheets cannot take for formulas, and every mistake named by its line."""

import csv
import io
import math
import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparing.archive import replacing
from sparing.asking.pool import OWN_COLUMNS, Pool, cell_text, identifier
from sparing.errors import LogError
from sparing.log import Log, Support
from sparing.log.columns import ColumnRoles
from sparing.log.labels import is_unicode, label_text, missing, shorten, whole_numbers
from sparing.log.limits import LARGEST
from sparing.log.rows import AnyLog, RewardSummary, append_judged, reward_summary
from sparing.log.text_files import encoding_of, existing, is_path, open_text, readable_errors

if TYPE_CHECKING:
    from sparing.asking.ask import Queue

FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""How a text begins that a spreadsheet may take for a formula, or one that was escaped for that reason."""

PLAIN_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
IDENTIFIER = re.compile(r"r([0-9]{1,18})-[0-9a-f]+")
DELIMITERS = ",;\t"
MOST_NAMED = 12  # mistakes in one message


class Answer(NamedTuple):
    """The judged reward of an action (index) in a row of the pool."""

    row: int
    action: int
    reward: float


class AnswerRow(NamedTuple):
    """A row of a file of answers: where it is, its id, its action's text (None without that column) and its reward's text."""

    place: str
    id: str
    action: str | None
    reward: str


def escaped(text: str) -> str:
    """Text as a cell: an apostrophe is put before what a spreadsheet may take for a formula; numbers stay."""
    return f"'{text}" if FORMULA.match(text) and not PLAIN_NUMBER.fullmatch(text) else text


def unescaped(text: str) -> str:
    """The text that `escaped` was given."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text


def table(queue: "Queue") -> dict[str, list[Any]]:
    """The columns of a queue; raw ones that are named like its own get "log " before their name."""
    raw: dict[str, list[Any]] = {}
    for place, name in enumerate(queue.columns):
        shown = name
        while shown in OWN_COLUMNS or shown in raw:
            shown = f"log {shown}"
        raw[shown] = [call.cells[place] for call in queue.calls]
    return {
        "id": [call.id for call in queue.calls],
        "row": [call.row for call in queue.calls],
        **raw,
        "action": [call.action for call in queue.calls],
        "worth": [call.worth for call in queue.calls],
        "why": [call.why for call in queue.calls],
        "reward": [None] * len(queue.calls),
    }


def write(queue: "Queue", path: str | os.PathLike[str]) -> None:
    """Write a queue as CSV, atomically; a file that has rewards already is refused."""
    target = Path(path)
    if target.is_file():
        filled = sum(bool(entry.reward.strip()) for entry in _entries_of_other(target))
        if filled:
            raise LogError(
                f"{target} has {filled:,} rewards already, which would be lost. Write the queue to another file; "
                f"to take them in, pass answers={str(target)!r}"
            )
    columns = table(queue)
    columns["action"] = [label_text(action) for action in columns["action"]]
    columns["worth"] = [f"{worth:.6g}" for worth in columns["worth"]]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([escaped(name) for name in columns])
    for row in zip(*columns.values(), strict=True):
        writer.writerow([escaped(cell_text(cell)) for cell in row])
    with replacing(target) as part:
        part.write_text(text.getvalue(), encoding="utf-8", errors="backslashreplace")


def _entries_of_other(path: Path) -> list[AnswerRow]:
    try:
        return list(entries(path))
    except LogError:  # whatever it is, it has no rewards of a queue
        return []


def entries(path: str | os.PathLike[str]) -> Iterator[AnswerRow]:
    """The rows of a file of answers; blank lines are skipped."""
    target = existing(path)
    with readable_errors(target, "cannot be read as CSV"), open_text(target) as file:
        content = file.read()
        text = content.decode(encoding_of(content, str(target))[0]).removeprefix("\ufeff")
    if not text.strip():
        raise LogError(
            f"{target} is empty; expected a file that `sparing ask` wrote, with its column `reward` filled in"
        )
    first = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=lambda mark: first.count(mark))
    with readable_errors(target, "cannot be read as CSV"):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        header = [unescaped(name.strip()) for name in next(reader, [])]
        for name in ("id", "reward"):
            if header.count(name) != 1:
                raise LogError(
                    f"{target}, line 1: {'no' if name not in header else 'more than one'} column {name!r} among "
                    f"{', '.join(map(shorten, header[:12]))}; expected a file that `sparing ask` wrote, with its column `reward` filled in"
                )
        at, which, what = header.index("id"), header.index("reward"), None
        if "action" in header:
            what = header.index("action")
        ended = reader.line_num
        for cells in reader:
            line, ended = ended + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise LogError(f"{target}, line {line}: {len(cells)} cells; the header has {len(header)}")
            reward = cells[which].strip()
            if delimiter == ";":  # spreadsheets that part cells so write 0,5
                reward = reward.replace(",", ".")
            action = None if what is None else unescaped(cells[what])
            yield AnswerRow(f"{target}, line {line}", unescaped(cells[at].strip()), action, reward)


def given_entries(answers: Any, ids: Sequence[str]) -> list[AnswerRow]:
    """The entries of files, a frame, a mapping, or a sequence of rewards in the order of `ids`."""
    if is_path(answers):
        return list(entries(answers))
    if isinstance(answers, list | tuple) and answers and all(map(is_path, answers)):
        return [entry for path in answers for entry in entries(path)]
    if hasattr(answers, "columns") or (isinstance(answers, Mapping) and {"id", "reward"} <= set(answers)):
        columns = list(answers) if isinstance(answers, Mapping) else list(answers.columns)
        absent = [name for name in ("id", "reward") if name not in columns]
        if absent:
            raise LogError(
                f"the answers have no column {absent[0]!r}; there are {', '.join(map(shorten, columns[:12]))}"
            )
        given, known = list(answers["id"]), "action" in columns
        actions = map(label_text, map(_plain, answers["action"])) if known else [None] * len(given)
        return [
            AnswerRow(f"row {place}", str(one), action, _reward_text(reward))
            for place, (one, action, reward) in enumerate(
                zip(given, actions, list(answers["reward"]), strict=True)
            )
        ]
    if isinstance(answers, Mapping):
        return [
            AnswerRow(f"id {one!r}", str(one), None, _reward_text(value)) for one, value in answers.items()
        ]
    values = answers.tolist() if hasattr(answers, "tolist") else answers
    if not isinstance(values, list | tuple):
        raise LogError(
            f"answers are a {type(answers).__name__}; expected a file, a frame with id and reward, rewards by id, or a list of rewards"
        )
    if len(values) != len(ids):
        raise LogError(
            f"{len(values)} answers for {len(ids)} calls; give one for each, None where it is open, or rewards by id"
        )
    pairs = zip(ids, values, strict=True)
    return [
        AnswerRow(f"answer {place}", one, None, _reward_text(value))
        for place, (one, value) in enumerate(pairs)
    ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _reward_text(value: Any) -> str:
    return "" if missing(value) else str(_plain(value))


def resolve(
    found: Sequence[AnswerRow],
    pool: Pool,
    names: Sequence[Hashable],
    limits: tuple[float, float] | None,
    *,
    known: Mapping[tuple[int, int], float] | None = None,
    extend: bool = False,
) -> tuple[list[Answer], list[tuple[int, int]], tuple[Hashable, ...]]:
    """The answers of entries, the open (row, action) pairs, and the action names, with new ones if they may `extend` them.

    Rows and actions are found by the ids alone, and their checksums are compared with the pool: an edited cell changes nothing, and
    answers about other rows are refused. `known` are answers of before. All mistakes are result at once.
    """
    mistakes: list[str] = []
    by_text = {label_text(name): place for place, name in enumerate(names)}
    if extend:
        new = [entry.action for entry in found if entry.action and entry.action not in by_text]
        plain = whole_numbers(new) if all(isinstance(name, int) for name in names) else list(new)
        for text, name in zip(new, plain, strict=True):
            if text not in by_text:
                by_text[text] = len(by_text)
                names = (*names, name)
    numbers = [_row(entry.id, pool.total) for entry in found]
    cells = pool.cells([row for row in numbers if row is not None])
    answers: dict[tuple[int, int], tuple[str, float]] = {}
    for each, result in (known or {}).items():
        answers[each] = ("an earlier answer", result)
    before = set(answers)
    waiting: dict[tuple[int, int], str] = {}
    for entry, row in zip(found, numbers, strict=True):
        what = None if row is None else _action(entry, row, cells[row], by_text, names)
        if row is None or what is None:
            mistakes.append(f"{entry.place}: {_unknown(entry, row, pool, by_text)}")
            continue
        pair = (row, what)
        if not entry.reward:
            waiting.setdefault(pair, entry.place)
            continue
        value = _number(entry.reward)
        if value is None:
            mistakes.append(
                f"{entry.place}: the reward {shorten(entry.reward)} is not a finite number; write it such as 0.5, or leave it empty while it is open"
            )
        elif limits is not None and not limits[0] <= value <= limits[1]:
            mistakes.append(
                f"{entry.place}: the reward {value:g} is outside {limits[0]:g} to {limits[1]:g}; correct it, or pass reward_range=..."
            )
        elif pair in answers:
            mistakes.append(f"{entry.place}: the id {entry.id} has a reward already, in {answers[pair][0]}")
        else:
            answers[pair] = (entry.place, value)
    if mistakes:
        more = f"\n… and {len(mistakes) - MOST_NAMED:,} more" if len(mistakes) > MOST_NAMED else ""
        lines = "\n".join(mistakes[:MOST_NAMED])
        raise LogError(
            f"{len(mistakes):,} of {len(found):,} answers cannot be taken in, and none was:\n{lines}{more}"
        )
    # in the order of the pool: what is learnt does not depend on how the lines of a file are sorted
    taken = [Answer(*pair, value) for pair, (_, value) in sorted(answers.items()) if pair not in before]
    return taken, [pair for pair in waiting if pair not in answers], tuple(names)


def _row(text: str, total: int) -> int | None:
    found = IDENTIFIER.fullmatch(text)
    return int(found[1]) if found and int(found[1]) < total else None


def _action(
    entry: AnswerRow, row: int, cells: Sequence[Any], by_text: Mapping[str, int], names: Sequence[Hashable]
) -> int | None:
    """The action that the id's checksum is of."""
    likely = None if entry.action is None else by_text.get(entry.action)
    places = range(len(names)) if likely is None else (likely, *range(len(names)))
    return next((place for place in places if identifier(row, names[place], cells) == entry.id), None)


def _unknown(entry: AnswerRow, row: int | None, pool: Pool, by_text: Mapping[str, int]) -> str:
    if not entry.id:
        return "the id is empty; keep the ids that `sparing ask` wrote"
    if row is None:
        return f"the id {shorten(entry.id)} is unknown; ids are such as r12-3fa2c1, with a row below {pool.total:,}"
    if entry.action and entry.action not in by_text:
        return f"the action {shorten(entry.action)} is unknown; the log has {', '.join(map(shorten, list(by_text)[:8]))}. Name it among the actions"
    return (
        f"the id {shorten(entry.id)} is of another log: row {row:,} is not what was asked about. Pass the log or pool that the queue was made from, "
        "in the same order"
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    usable = is_unicode(text) and "_" not in text and math.isfinite(value) and abs(value) <= LARGEST
    return value if usable else None


def judged_rows(
    log: AnyLog,
    answers: Any,
    *,
    table: Any = None,
    columns: Mapping[str, Any] | None = None,
    reward_range: tuple[float, float] | None = None,
) -> Log:
    """The answered rows of files about a log, as a log without propensities; actions that the log lacks come after its own."""
    pool = Pool.of_log(log, table, ColumnRoles(**(columns or {})), 0)
    limits = answer_range(reward_range, reward_summary(log))
    found, _, names = resolve(given_entries(answers, ()), pool, log.action_names, limits, extend=True)
    if not found:
        raise LogError("no answer has a reward yet; fill in the column `reward` of the queue")
    return as_log(found, pool, names)


def as_log(answered: Sequence[Answer], pool: Pool, names: tuple[Hashable, ...]) -> Log:
    """Answers as a log without propensities; with the ids of its contexts if the pool's log has them."""
    rows = np.array([each.row for each in answered], dtype=np.int64)
    ascending, place = np.unique(rows, return_inverse=True)
    ids, costs = (pool.log.context_ids, pool.log.costs) if isinstance(pool.log, Log) else (None, None)
    return Log.from_indices(
        pool.contexts_at(ascending)[place],
        np.array([each.action for each in answered], dtype=np.int32),
        np.array([each.reward for each in answered]),
        names,
        context_ids=None if ids is None else ids[rows],
        encoder=pool.encoder,
        costs=costs[rows] if costs is not None and costs.shape == (pool.total, len(names)) else None,
    )


def answer_range(
    given: tuple[float, float] | None, logged: RewardSummary | None
) -> tuple[float, float] | None:
    """The range that answers must lie in: as given; 0 to 1 for rewards 0 and 1; else the log's, as far again on either side."""
    if given is not None or logged is None:
        return given
    if logged.zero_one:
        return 0.0, 1.0
    reach = (logged.high - logged.low) or max(abs(logged.high), 1.0)
    return logged.low - reach, logged.high + reach


def with_actions(log: Log, names: tuple[Hashable, ...]) -> Log:
    """The log with further actions after its own, which no row could have taken."""
    more, known = len(names) - log.n_actions, log.support
    if not more:
        return log
    if log.items is not None:
        raise LogError(
            f"the action {shorten(names[-1])} of the answers has no item features; read the log with it among actions=[...] "
            "and its row among the items"
        )
    if log.costs is not None:
        raise LogError(
            f"the action {shorten(names[-1])} of the answers has no cost; read the log with it among actions=[...] and costs=..."
        )
    chances, wider = known.distribution() if known.known else None, ((0, 0), (0, more))
    support = Support.unknown(log.n_rows, len(names))
    if chances is not None:
        support = Support.from_distribution(np.pad(chances, wider), kind=known.kind)
    elif known.known:
        support = Support.from_mask(np.pad(known.mask(), wider), kind=known.kind)
    return replace(log, action_names=names, support=support)


def with_answers(log: Log, judged: Log) -> Log:
    """The rows of a log, then the judged ones, with the actions of both; without propensities and support."""
    return append_judged(with_actions(log, judged.action_names), judged)
