"""The rows of a log, one at a time, as the writers of the text formats want them."""

import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparing.archive import replacing
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.blocks import Blocks
from sparing.log.labels import brief, whole_numbers
from sparing.log.log import Log


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a log.

    `features` are the positions and values to write: all of them in the first row, so that a reader
    learns the features in their order, later those that are not 0. `available` are the indices of the
    actions the row could have taken (None: unknown), `probabilities` theirs (None: only the set is known).
    """

    number: int
    features: list[tuple[int, float]]
    action: int
    reward: float
    propensity: float | None
    available: list[int] | None
    probabilities: list[float] | None
    context_id: Any

    def available_first(self) -> list[int]:
        """The available actions with the logged one in front."""
        return [self.action, *(a for a in self.available or () if a != self.action)]


def rows(log: Log) -> Iterator[Row]:
    """Walk a log; sets and distributions are unpacked for a few rows at a time."""
    known = has_sets(log)
    for part in Blocks.of(log.n_rows, max(log.n_features, log.n_actions)):
        contexts = log.contexts[part]
        written = (contexts != 0) | np.signbit(contexts)
        masks = log.support.mask(part) if known else None
        shares = log.support.distribution(part) if known else None
        for i, number in enumerate(range(part.start, part.stop)):
            where = np.flatnonzero(written[i]) if number else np.arange(log.n_features)
            available = None if masks is None else np.flatnonzero(masks[i])
            yield Row(
                number,
                list(zip(where.tolist(), contexts[i, where].tolist(), strict=True)),
                int(log.actions[number]),
                float(log.rewards[number]),
                None if log.propensities is None else float(log.propensities[number]),
                None if available is None else available.tolist(),
                None if shares is None else shares[i, available].tolist(),
                None if log.context_ids is None else log.context_ids[number].item(),
            )


def has_sets(log: Log) -> bool:
    """Whether the log knows, rather than estimates, which actions each row could have taken."""
    return log.support.kind == "exact"


def need_propensities(log: Log, title: str) -> None:
    """Refuse a log without propensities for a format that cannot do without."""
    if log.propensities is None:
        raise LogError(
            f"{title} needs the probability of every logged action, and this log has none. Estimate them "
            "first, or write a format that can do without (coba, river, a table)"
        )


def support_notes(log: Log, *, lists_everything: bool) -> list[str]:
    """What a format that lists available actions cannot say of an unknown or estimated support."""
    if has_sets(log):
        return []
    what = "is estimated, not logged" if log.support.kind == "estimated" else "is unknown"
    then = (
        "all actions are listed, which reads back as if each row could have taken any"
        if lists_everything
        else "left out"
    )
    return [f"The log's support {what}: {then}."]


def distribution_notes(
    log: Log, *, kept: str = "the set and the logged action's probability are kept"
) -> list[str]:
    """What a format keeps of full distributions that it cannot carry."""
    if not has_sets(log) or log.support.probabilities is None:
        return []
    return [f"Of each row's distribution, {kept}."]


def missing_action_notes(log: Log, *, every: bool = True) -> list[str]:
    """Actions that no row will show; `every`: rows list all actions where the support is unknown."""
    shown = log.counts > 0
    if has_sets(log):
        shown |= log.support.shares > 0
    elif every:
        return []
    lost = [name for name, there in zip(log.action_names, shown, strict=True) if not there]
    if not lost:
        return []
    some = ", ".join(map(repr, lost[:3])) + (", …" if lost[3:] else "")
    return [f"Actions that are in no row ({some}) are lost unless the file is read with actions=[...]."]


def listing_notes(log: Log, *, distributions: bool = False) -> list[str]:
    """What a format loses that lists the available actions of every row, sorted, with or without `distributions`."""
    kept = [] if distributions else distribution_notes(log)
    return [*order_notes(log), *kept, *support_notes(log, lists_everything=True), *missing_action_notes(log)]


def order_notes(log: Log) -> list[str]:
    """Whether the actions' order is lost: labels come back sorted."""
    if labels.in_order(log.action_names) == log.action_names:
        return []
    return ["Actions read back in sorted order; read the file with actions=[...] for the log's order."]


def feature_names(log: Log, *, usable: Callable[[str], object] = bool) -> tuple[list[str], list[str]]:
    """The names to write features under, and a note where the log's own will not do."""
    names = list(log.feature_names)
    bad = [name for name in names if not usable(name)]
    if not bad:
        return names, []
    note = f"Feature names are written as x_0, x_1, … because {brief(bad[0])} cannot be written."
    return [f"x_{i}" for i in range(len(names))], [note]


def to_json(label: Hashable) -> Any:
    """A label as plain JSON: a tuple is a list."""
    if isinstance(label, tuple):
        return [to_json(part) for part in label]
    return labels.to_json(label)


def text_notes(names: Sequence[Hashable]) -> list[str]:
    """What becomes of labels that are written as text and read back."""
    back = whole_numbers(labels.by_text(names))
    same = [type(a) is type(b) and a == b for a, b in zip(names, back, strict=True)]
    if all(same):
        return []
    name, text = names[same.index(False)], back[same.index(False)]
    return [
        f"Action labels are written as text: {brief(name)} reads back as {brief(text)} unless actions=[...] is given."
    ]


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines of text as a file that is whole or not there."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{line}\n")


def write_json(path: str | os.PathLike[str], records: Iterable[Any], *, compact: bool = False) -> None:
    """Write JSON values, one a line."""
    separators = (",", ":") if compact else None
    write_lines(path, (json.dumps(record, ensure_ascii=False, separators=separators) for record in records))
