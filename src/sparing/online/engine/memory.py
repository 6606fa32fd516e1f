"""The arrays of all confidence sets, and how compiled code finds them.

Passing thirty arrays to compiled code one by one costs more than a decision over twenty actions. So their
addresses stand in one table, `t` in the functions of this folder, and `matrix(t, THETA)` is the array again.
A `Desk` makes the tables of one caller, with scratch of its own, and keeps their arrays alive.
"""

import threading
from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.core.cgutils import pack_array as _pack_array
from numba.extending import intrinsic


class Sets(NamedTuple):
    """Confidence sets of the touched actions, one a slot; slot 0 is what every untouched action shares.

    C slots, of which `counters[USED]` are in use; K actions; P = d·(d+1)/2, filled up with zeros to a multiple of eight.
    An action with open calls has two slots: one without them, seen in the settled view, and a twin with them,
    seen in the view ahead.
    """

    theta: np.ndarray  # (C, d) θ̂
    response: np.ndarray  # (C, d) b
    inverse: np.ndarray  # (C, P) V⁻¹
    gram: np.ndarray  # (C, P) V
    log_det: np.ndarray  # (C,) log(det V/λ^d)
    shrunk: np.ndarray  # (C,) how far the diagonal of V⁻¹ fell since it was computed afresh
    radius: np.ndarray  # (C,) ρ, where each action has its own
    root: np.ndarray  # (C,) sqrt(c) with V⁻¹ ⪯ c·M
    near: (
        np.ndarray
    )  # (C or 0, d + 3) float32: θ̂, then ‖θ̂‖, ρ·sqrt(c) and what a set is widened by, rounded up
    quick: np.ndarray  # (C or 0, P) float32 V⁻¹
    size: np.ndarray  # (C,) ‖V⁻¹‖ (Frobenius), rounded up
    logged: np.ndarray  # (C,) rows from the log
    live: np.ndarray  # (C,) rows since
    fresh: np.ndarray  # (C,) rows since `root` was found
    frozen: np.ndarray  # (C,) 1 for points
    action: np.ndarray  # (C,) which action a slot is
    hidden: np.ndarray  # (C,) from which views a slot is hidden: 1 settled, 2 ahead, 3 both (free)
    waiting: np.ndarray  # (C,) open calls in a twin
    slot: np.ndarray  # (K,) which slot an action has in the settled view, 0 for untouched
    ahead: np.ndarray  # (K,) and which in the view with open calls
    priority: np.ndarray  # (K,) the smaller number wins ties
    order: np.ndarray  # (K,) actions by priority
    metric: np.ndarray  # (P,) M, shared by all actions
    span: np.ndarray  # (P,) M⁻¹
    numbers: np.ndarray  # the scalars below
    counters: np.ndarray  # the counts below
    plan: np.ndarray  # (7,) the rules, see choosing.Plan


class Scratch(NamedTuple):
    """What one caller's decisions and updates write to."""

    square: np.ndarray  # (d, d)
    vectors: np.ndarray  # (3, d)
    trial: np.ndarray  # (2, P) a V that may be refused, and its inverse
    products: np.ndarray  # (P,) the products of x with itself
    rough_x: np.ndarray  # (d,) float32
    rough_products: np.ndarray  # (P,) float32
    middle: np.ndarray  # (C,) x·θ̂ to single precision
    width: np.ndarray  # (C,) half-widths at x
    upper: np.ndarray  # (C,) no set's top at x lies above
    known: np.ndarray  # (2,) what the log earned in this context (NaN where it was not), and its action
    marks: np.ndarray  # the marks below
    everyone: np.ndarray  # (0,) a mask that leaves nobody out


RIDGE, COMMON, SLACK, MISFIT, SCALE, NOISE, BIAS, LOG_DELTA, GROWTH, TOTAL_GROWTH = range(10)
"""numbers: λ; ρ where all actions share it, else NaN; what widens points and sets; then of the radii:
radius_scale, σ, √λ·S_θ, 2·log(K'/δ), S_x²/(λd), S_x²/λ."""

USED, TOTAL, LAST, KIND, FREE, DIGEST, TWINS, TOUCHED, TOUCHED_AHEAD, NEXT, NEXT_AHEAD = range(11)
"""counters: slots in use, rows in all learnt sets, rows when the metric was last found, the kind of radius, free
slots, a rolling digest of what was learnt, twins; and for each view, touched actions and the first place of `order`
that is untouched."""

VIEW, HIGHEST = range(2)
"""marks: the view (0 settled, 1 ahead), and the slot that `look` found to reach highest."""

CONSTANT, DETERMINANT, TRACE, PAPER = range(4)

KINDS: dict[str, Any] = {
    **dict.fromkeys(("near", "quick", "rough_x", "rough_products"), np.float32),
    **dict.fromkeys(("logged", "live", "fresh", "frozen", "action", "hidden", "waiting"), np.int64),
    **dict.fromkeys(("slot", "ahead", "priority", "order", "counters", "marks"), np.int64),
    "everyone": np.bool_,
}
"""Types of the arrays that are not float64."""


(
    THETA,
    RESPONSE,
    INVERSE,
    GRAM,
    LOG_DET,
    SHRUNK,
    RADIUS,
    ROOT,
    NEAR,
    QUICK,
    SIZE,
    LOGGED,
    LIVE,
    FRESH,
    FROZEN,
    ACTION,
    HIDDEN,
    WAITING,
    SLOT,
    AHEAD,
    PRIORITY,
    ORDER,
    METRIC,
    SPAN,
    NUMBERS,
    COUNTERS,
    PLAN,
    SQUARE,
    VECTORS,
    TRIAL,
    PRODUCTS,
    ROUGH_X,
    ROUGH_PRODUCTS,
    MIDDLE,
    WIDTH,
    UPPER,
    KNOWN,
    MARKS,
    EVERYONE,
    SETTLED,
) = range(len(Sets._fields) + len(Scratch._fields) + 1)
"""Places in a table. SLOT is the map of the table's view; SETTLED and AHEAD are the two maps in any view."""


pack: Any = _pack_array


def _accessor(kind: Any, dimensions: int) -> Any:
    """A function (t, field) of compiled code that gives an array of the table, without copying it."""

    @intrinsic
    def access(typing: Any, t: Any, field: Any) -> Any:
        wanted = types.Array(kind, dimensions, "C")

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            entries = context.make_array(signature.args[0])(context, builder, args[0]).data
            word = args[1].type
            place = builder.mul(args[1], word(3))
            address, *shape = (
                builder.load(builder.gep(entries, [builder.add(place, word(i))]))
                for i in range(1 + dimensions)
            )
            data = context.get_data_type(kind)
            width = word(context.get_abi_sizeof(data))
            strides = [builder.mul(length, width) for length in shape[1:]] + [width]
            array = context.make_array(wanted)(context, builder)
            context.populate_array(
                array,
                data=builder.inttoptr(address, data.as_pointer()),
                shape=pack(builder, shape),
                strides=pack(builder, strides),
                itemsize=width,
                meminfo=None,
            )
            return array._getvalue()

        return wanted(t, field), code

    return access


matrix = _accessor(types.float64, 2)
vector = _accessor(types.float64, 1)
counts = _accessor(types.int64, 1)
rough_matrix = _accessor(types.float32, 2)
rough_vector = _accessor(types.float32, 1)
flags = _accessor(types.boolean, 1)


class Desk(threading.local):
    """Tables over some sets, settled and ahead: every thread finds its own, with scratch that nobody else writes to."""

    def __init__(self, sets: Sets) -> None:
        self.sets = sets  # the tables hold addresses only; this keeps the arrays alive
        self.scratch = _scratch(*sets.theta.shape)
        self._ahead = self.scratch._replace(marks=np.array([1, 0]))
        self.settled = _table((*sets, *self.scratch, sets.slot))
        self.ahead = _table((*sets._replace(slot=sets.ahead), *self._ahead, sets.slot))


def _table(arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """Address, rows and columns of each array; valid as long as these very arrays live."""
    entries = [(array.ctypes.data, *array.shape, 1)[:3] for array in arrays]
    return np.array(entries, dtype=np.int64).ravel()


def _extent(place: int) -> Any:
    @intrinsic
    def extent(typing: Any, t: Any, field: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            entries = context.make_array(signature.args[0])(context, builder, args[0]).data
            word = args[1].type
            return builder.load(
                builder.gep(entries, [builder.add(builder.mul(args[1], word(3)), word(place))])
            )

        return types.int64(t, field), code

    return extent


rows = _extent(1)
columns = _extent(2)


def packed_size(d: int) -> int:
    """Numbers in a packed matrix, filled up with zeros to whole groups of eight."""
    return -(-d * (d + 1) // 2 // 8) * 8


def allocate(n_actions: int, capacity: int, d: int, *, bounded: bool, quick: bool) -> Sets:
    """Arrays for so many actions and slots, zero; with those that bounds are read from, or without."""
    k, c, p = n_actions, capacity, packed_size(d)
    shapes = {
        **dict.fromkeys(("theta", "response"), (c, d)),
        **dict.fromkeys(("inverse", "gram"), (c, p)),
        "near": (c if bounded else 0, d + 3),
        "quick": (c if quick else 0, p),
        **dict.fromkeys(("slot", "ahead", "priority", "order"), (k,)),
        **dict.fromkeys(("metric", "span"), (p,)),
        "numbers": (10,),
        "counters": (11,),
        "plan": (7,),
    }
    return Sets(*(_zeros(name, shapes.get(name, (c,))) for name in Sets._fields))


def _scratch(capacity: int, d: int) -> Scratch:
    p = packed_size(d)
    shapes = {
        "square": (d, d),
        "vectors": (3, d),
        "trial": (2, p),
        **dict.fromkeys(("products", "rough_products"), (p,)),
        "rough_x": (d,),
        **dict.fromkeys(("known", "marks"), (2,)),
        "everyone": (0,),
    }
    return Scratch(*(_zeros(name, shapes.get(name, (capacity,))) for name in Scratch._fields))


def _zeros(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, dtype=KINDS.get(name, np.float64))


def grown(sets: Sets, capacity: int) -> Sets:
    """The same sets in arrays with more slots."""
    k, d = len(sets.slot), sets.theta.shape[1]
    larger = allocate(k, capacity, d, bounded=len(sets.near) > 0, quick=len(sets.quick) > 0)
    for old, new in zip(sets, larger, strict=True):
        new[: len(old)] = old
    return larger
