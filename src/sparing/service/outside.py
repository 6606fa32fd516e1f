"""Numbers of live contexts that lie far from the log's: what the learner says of them is extrapolated."""

import itertools
from typing import NamedTuple

import numpy as np

from sparing.log.features.kinds import Number, Raw
from sparing.service.gapmap import contexts_of
from sparing.service.model import Model
from sparing.service.store import Store

FAR = 10.0
"""Deviations from the log's mean; at most 1 in FAR² of the log's rows can lie so far out, whatever their distribution."""

LAST, LATELY = 200, 50_000
"""Last decisions whose contexts are looked at, and events among which they are looked for."""


class Outside(NamedTuple):
    """A column of which some of the last `decisions` have a number far out; `furthest` is the one furthest out."""

    column: str
    far: int
    decisions: int
    furthest: float


async def outside(store: Store, model: Model, upto: int) -> tuple[int, list[Outside]]:
    """How many decisions were looked at, and the columns with numbers far out; none where numbers are taken as they are."""
    numbers = _numbers(model)
    if not numbers:
        return 0, []
    found = await store.driver.read(
        "select context from decisions where experiment = $1 and seq > $2 and seq <= $3 and context is not null "
        "order by seq desc limit $4",
        *(model.experiment, upto - LATELY, upto, LAST),
    )
    contexts, _ = contexts_of(model, [bytes(row[0]) for row in found])
    far: list[Outside] = []
    for column, place in numbers:
        values = contexts[:, place]
        count = int((np.abs(values) >= FAR).sum())
        if count:
            most = float(values[np.abs(values).argmax()]) * column.scale + column.mean
            far.append(Outside(column.column, count, len(values), most))
    return len(contexts), far


def _numbers(model: Model) -> list[tuple[Number, int]]:
    """The standardised columns, and the coordinate of each."""
    encoder = model.learner.encoder
    starts = itertools.accumulate((len(each.names) for each in encoder.columns), initial=encoder.linear.start)
    return [
        (column, place)
        for column, place in zip(encoder.columns, starts, strict=False)
        if isinstance(column, Number) and not isinstance(column, Raw)
    ]
