"""The arrays of all confidence sets, and how compiled code finds them.

Passing thirty arrays to compiled code one by one costs more than a decision over twenty actions. So their
addresses stand in one table, `t` in the functions of this folder, and `matrix(t, THETA)` is the array again.
Whoever makes a table keeps its arrays alive, and makes a new one whenever an array is replaced.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.core.cgutils import pack_array as _pack_array
from numba.extending import intrinsic


class Sets(NamedTuple):
    """Confidence sets of the touched actions, one a slot; slot 0 is what every untouched action shares.

    C slots, of which `counters[USED]` are in use; K actions; P = d·(d+1)/2, filled up with zeros to a multiple of eight.
    """

    theta: np.ndarray  # (C, d) θ̂
    response: np.ndarray  # (C, d) b
    inverse: np.ndarray  # (C, P) V⁻¹
    gram: np.ndarray  # (C, P) V
    log_det: np.ndarray  # (C,) log(det V/λ^d)
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
    slot: np.ndarray  # (K,) which slot an action has, 0 for untouched
    priority: np.ndarray  # (K,) the smaller number wins ties
    order: np.ndarray  # (K,) actions by priority
    metric: np.ndarray  # (P,) M, shared by all actions
    span: np.ndarray  # (P,) M⁻¹
    numbers: np.ndarray  # the scalars below
    counters: np.ndarray  # the counts below
    square: np.ndarray  # (d, d) scratch
    vectors: np.ndarray  # (3, d) scratch
    products: np.ndarray  # (P,) scratch: the products of x with itself
    rough_x: np.ndarray  # (d,) float32 scratch
    rough_products: np.ndarray  # (P,) float32 scratch
    middle: np.ndarray  # (C,) scratch: x·θ̂ to single precision
    width: np.ndarray  # (C,) scratch: half-widths at x
    upper: np.ndarray  # (C,) scratch: no set's top at x lies above
    plan: np.ndarray  # (7,) the rules, see choosing.Plan
    everyone: np.ndarray  # (0,) a mask that leaves nobody out


RIDGE, COMMON, SLACK, MISFIT, SCALE, NOISE, BIAS, LOG_DELTA, GROWTH, TOTAL_GROWTH = range(10)
"""numbers: λ; ρ where all actions share it, else NaN; what widens points and sets; then of the radii:
radius_scale, σ, √λ·S_θ, 2·log(K'/δ), S_x²/(λd), S_x²/λ."""

USED, TOTAL, NEXT, LAST, KIND, HIGHEST = range(6)
"""counters: slots in use, rows in all learnt sets, the first place of `order` that may be untouched, rows when
the metric was last found, the kind of radius, and the slot that `look` found to reach highest."""

CONSTANT, DETERMINANT, TRACE, PAPER = range(4)

KINDS: dict[str, Any] = {
    **dict.fromkeys(("near", "quick", "rough_x", "rough_products"), np.float32),
    **dict.fromkeys(("logged", "live", "fresh", "frozen", "action", "slot"), np.int64),
    **dict.fromkeys(("priority", "order", "counters"), np.int64),
    "everyone": np.bool_,
}
"""Types of the arrays that are not float64."""


FIELDS = range(len(Sets._fields))
(
    THETA,
    RESPONSE,
    INVERSE,
    GRAM,
    LOG_DET,
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
    SLOT,
    PRIORITY,
    ORDER,
    METRIC,
    SPAN,
    NUMBERS,
    COUNTERS,
    SQUARE,
    VECTORS,
    PRODUCTS,
    ROUGH_X,
    ROUGH_PRODUCTS,
    MIDDLE,
    WIDTH,
    UPPER,
    PLAN,
    EVERYONE,
) = FIELDS


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


def table(sets: Sets) -> np.ndarray:
    """Address, rows and columns of each array; valid as long as these very arrays live."""
    entries = [(array.ctypes.data, *array.shape, 1)[:3] for array in sets]
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
    shapes: dict[str, tuple[int, ...]] = {
        "theta": (c, d),
        "response": (c, d),
        "inverse": (c, p),
        "gram": (c, p),
        "near": (c if bounded else 0, d + 3),
        "quick": (c if quick else 0, p),
        "slot": (k,),
        "priority": (k,),
        "order": (k,),
        "metric": (p,),
        "span": (p,),
        "numbers": (10,),
        "counters": (6,),
        "square": (d, d),
        "vectors": (3, d),
        "products": (p,),
        "rough_x": (d,),
        "rough_products": (p,),
        "plan": (7,),
        "everyone": (0,),
    }
    made = {}
    for name in Sets._fields:
        made[name] = np.zeros(shapes.get(name, (c,)), dtype=KINDS.get(name, np.float64))
    return Sets(**made)


def grown(sets: Sets, capacity: int) -> Sets:
    """The same sets in arrays with more slots."""
    k, d = len(sets.slot), sets.theta.shape[1]
    larger = allocate(k, capacity, d, bounded=len(sets.near) > 0, quick=len(sets.quick) > 0)
    for old, new in zip(sets, larger, strict=True):
        if old.shape == new.shape:
            new[...] = old
        else:
            new[: len(old)] = old
    return larger


SCRATCH = (
    "counters",
    "square",
    "vectors",
    "products",
    "rough_x",
    "rough_products",
    "middle",
    "width",
    "upper",
)
"""What deciding writes to."""


def with_own_scratch(sets: Sets) -> Sets:
    """The same sets, for a thread of its own that decides and learns nothing."""
    return sets._replace(**{name: getattr(sets, name).copy() for name in SCRATCH})
