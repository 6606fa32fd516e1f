"""Write an Open Bandit CSV."""

import csv
import os
import re
from collections.abc import Iterator, Sequence

import numpy as np

from sparing.archive import replacing
from sparing.log.formats.open_bandit_table import (
    AFFINITY,
    CLICK,
    ITEM,
    POSITION,
    PROPENSITY,
    USER,
    are_numbers,
)
from sparing.log.log import Log
from sparing.log.parsing import WHOLE_NUMBER

ONE_HOT = re.compile(rf"({USER}[0-9]+|{POSITION})=([^\r\n]*)")
NUMBER = re.compile(rf"(?:{USER}|{AFFINITY})[0-9]+")
BATCH_ROWS = 4096

Groups = dict[str, list[tuple[str | None, int]]]
"""For each column of the file the features it comes from: a value each, or None for a plain number."""


def write(log: Log, path: str | os.PathLike[str]) -> list[str]:
    """Write the CSV, with the user features that the contexts were made of where they tell, else as numbers.

    Says what the format could not carry.
    """
    groups = _groups(log)
    notes = []
    if groups is None:
        groups = {f"{USER}{i}": [(None, i)] for i in range(log.n_features)}
        if log.feature_names != tuple(groups):
            notes.append(f"Features are written as numbers under the names {USER}0, …: their own are lost.")
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        users = [name for name in groups if name != POSITION]
        shares = [] if log.propensities is None else [PROPENSITY[0]]
        writer.writerow(["", "timestamp", ITEM, POSITION, CLICK, *shares, *users])
        for number, cells in enumerate(_cells(log, groups)):
            row = [number, _timestamp(number), int(log.actions[number]), cells.get(POSITION, "1")]
            row += [_short(float(log.rewards[number]))]
            row += [] if log.propensities is None else [repr(float(log.propensities[number]))]
            writer.writerow([*row, *(cells[name] for name in users)])
    return [*notes, *_lost(log, groups)]


def _groups(log: Log) -> Groups | None:
    """The columns that reading would turn into these very features, or None where there are none such."""
    groups: Groups = {}
    for i, name in enumerate(log.feature_names):
        if one_hot := ONE_HOT.fullmatch(name):
            groups.setdefault(one_hot[1], []).append((one_hot[2], i))
        elif NUMBER.fullmatch(name):
            groups.setdefault(name, []).append((None, i))
        else:
            return None
    return groups if _reads_back(groups) and _is_one_hot(log, groups) else None


def _reads_back(groups: Groups) -> bool:
    rank = [0 if name.startswith(USER) else 1 if name == POSITION else 2 for name in groups]
    affinities = [name for name in groups if name.startswith(AFFINITY)]
    flat = [i for members in groups.values() for _, i in members]
    for name, members in groups.items():
        values = [value for value, _ in members if value is not None]
        if len(values) not in (0, len(members)) or values != sorted(set(values)):
            return False
        if name == POSITION and (len(values) < 2 or not all(map(WHOLE_NUMBER.fullmatch, values))):
            return False
        if name != POSITION and values and are_numbers(values):
            return False
    return (
        rank == sorted(rank)
        and flat == sorted(flat)
        and affinities == [f"{AFFINITY}{i}" for i in range(len(affinities))]
    )


def _is_one_hot(log: Log, groups: Groups) -> bool:
    for members in groups.values():
        if members[0][0] is None:
            continue
        block = log.contexts[:, [i for _, i in members]]
        if not (((block == 0) | (block == 1)).all() and (block.sum(axis=1) == 1).all()):
            return False
        if np.signbit(block).any() or not block.any(axis=0).all():
            return False
    return True


def _cells(log: Log, groups: Groups) -> Iterator[dict[str, str]]:
    for start in range(0, log.n_rows, BATCH_ROWS):
        contexts = log.contexts[start : start + BATCH_ROWS]
        columns = {name: _texts(contexts, members) for name, members in groups.items()}
        for i in range(len(contexts)):
            yield {name: texts[i] for name, texts in columns.items()}


def _texts(contexts: np.ndarray, members: Sequence[tuple[str | None, int]]) -> list[str]:
    places = [i for _, i in members]
    if members[0][0] is None:
        return [repr(value) for value in contexts[:, places[0]].tolist()]
    return [str(members[j][0]) for j in contexts[:, places].argmax(axis=1)]


def _short(value: float) -> str:
    return str(int(value)) if value in (0, 1) and not np.signbit(value) else repr(value)


def _timestamp(number: int) -> str:
    """The dataset's readers sort by time: rows count microseconds, so that they stay in order."""
    return str(np.datetime64(number, "us")).replace("T", " ") + "+00:00"


def _lost(log: Log, groups: Groups) -> list[str]:
    notes = ["Timestamps only count the rows: the log has none."]
    if POSITION not in groups:
        notes.append("Every row is written with position 1.")
    affinities = sum(name.startswith(AFFINITY) for name in groups)
    if affinities:
        notes.append("Affinities are read back with affinities=True.")
    if log.action_names != tuple(range(log.n_actions)):
        notes.append("Actions are written as 0 to K−1: read the file with actions=[...] for their names.")
    elif affinities != log.n_actions and not log.counts[-1]:
        notes.append("The last action is in no row: read the file with actions=[...] to keep it.")
    if log.support.known:
        notes.append("The log's support is lost: the format has only the logged action's propensity.")
    if log.context_ids is not None:
        notes.append("Context ids are lost.")
    return notes
