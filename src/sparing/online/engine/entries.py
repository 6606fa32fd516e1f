"""What Python calls in every round, with the types of its arguments said once."""

from typing import Any

from numba.core import types

from sparing.native.compiling import Entry
from sparing.online.engine import bounding, choosing, luck, opening, running, sampling
from sparing.online.engine.memory import Table
from sparing.online.engine.search import Bounds

TABLE, WHOLE, DOUBLE = Table.type, types.int64, types.float64
VECTOR, LIST, MASK = (types.Array(kind, 1, "C") for kind in (types.float64, types.int64, types.boolean))


def _either(kernel: Any, *arguments: Any) -> dict[Bounds, Entry]:
    """One entry where there are no bounds, and one where there are."""
    return {None: Entry(kernel, *arguments, types.none), 1: Entry(kernel, *arguments, types.int64)}


BY_LOG, BY_CERTIFICATE, BY_DOUBT, BY_DOUBT_WIDER, BY_WORTH = (
    _either(kernel, TABLE, VECTOR, MASK)
    for kernel in (
        choosing.by_log,
        choosing.by_certificate,
        choosing.by_doubt,
        choosing.by_doubt_wider,
        choosing.by_worth_told,
    )
)
OTHER_THAN = _either(choosing.other_than, TABLE, VECTOR, MASK, WHOLE, WHOLE)
SAMPLED = _either(sampling.sampled, TABLE, VECTOR, VECTOR, MASK)
RIVALS = _either(sampling.rivals, TABLE, VECTOR, WHOLE, DOUBLE, MASK, LIST, VECTOR, VECTOR)
VALUE = Entry(sampling.value, TABLE, VECTOR, WHOLE)
LEARNABLE = Entry(running.learnable, TABLE, WHOLE, VECTOR)
ABSORB = Entry(opening.absorb, TABLE, WHOLE, VECTOR, DOUBLE)
BEGIN = Entry(opening.begin, TABLE, WHOLE, VECTOR)
SETTLE = Entry(opening.settle, TABLE, WHOLE, VECTOR, DOUBLE, DOUBLE)
TAKE_BACK = Entry(opening.take_back, TABLE, WHOLE, VECTOR, DOUBLE)
KEY_OF = Entry(luck.key_of, WHOLE, WHOLE)
CHECK_KEY = Entry(luck.check_key, WHOLE, WHOLE, DOUBLE)
CHECKS = Entry(luck.checks, WHOLE, DOUBLE, types.boolean)
KEEP_BOUNDS = Entry(bounding.keep_bounds, TABLE, WHOLE)


def deciding(plan: choosing.Plan) -> dict[Bounds, Entry]:
    """What decides one round: one function a rule, so that a learner compiles only its own."""
    if plan.first == choosing.CERTIFIED:
        return BY_CERTIFICATE
    if plan.first == choosing.NOT_WORTH:
        return BY_WORTH
    if plan.first == choosing.CONFIDENT:
        return BY_DOUBT_WIDER if plan.explore == choosing.WIDER_RIVAL else BY_DOUBT
    return BY_LOG
