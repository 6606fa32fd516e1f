"""Vector instructions: sums in one fixed order, so that equal inputs give equal bits everywhere."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import alloca_once_value, for_range
from numba.extending import intrinsic

LANES = 8
# Parallel sums.

variable: Any = alloca_once_value


@intrinsic
def _dot(typing: Any, a: Any, b: Any) -> Any:
    """Σ a_i·b_i as eight interleaved sums, added half to half, and then the remainder, one by one.

    The instructions are explicit, because a compiler that may reorder a sum to use the machine's vectors does so differently
    in different places, and one that may not leaves them idle.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, word = ir.DoubleType(), context.get_value_type(types.intp)
        lanes = ir.VectorType(number, LANES)
        left, right = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, args, strict=True)
        )
        count = builder.extract_value(left.shape, 0)
        sums = variable(builder, ir.Constant(lanes, [0.0] * LANES))
        rest = variable(builder, ir.Constant(number, 0.0))
        whole = builder.sdiv(count, word(LANES))
        with for_range(builder, whole) as loop:
            place = builder.mul(loop.index, word(LANES))
            part = [
                builder.load(builder.bitcast(builder.gep(array.data, [place]), lanes.as_pointer()), align=8)
                for array in (left, right)
            ]
            builder.store(builder.fadd(builder.load(sums), builder.fmul(*part)), sums)
        with for_range(builder, count, builder.mul(whole, word(LANES))) as loop:
            pair = [builder.load(builder.gep(array.data, [loop.index])) for array in (left, right)]
            builder.store(builder.fadd(builder.load(rest), builder.fmul(*pair)), rest)
        part = builder.load(sums)
        place, half = ir.IntType(32), LANES // 2
        while half:
            low, high = (
                builder.shuffle_vector(
                    part,
                    part,
                    ir.Constant(ir.VectorType(place, half), [place(first + i) for i in range(half)]),
                )
                for first in (0, half)
            )
            part, half = builder.fadd(low, high), half // 2
        return builder.fadd(builder.extract_element(part, place(0)), builder.load(rest))

    return types.float64(a, b), code


dot: Any = _dot
