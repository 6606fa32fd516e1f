"""Vector instructions: sums in one fixed order, so that equal inputs give equal bits everywhere."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import alloca_once_value, for_range
from numba.extending import intrinsic

LANES = 8
# Parallel sums.

TOGETHER, HIGH, WIDE = 8, 4, 4
# Rows whose products are added at a time, and the size of a block of products.

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


@intrinsic
def _add_products(
    typing: Any, rows: Any, width: Any, groups: Any, i: Any, j: Any, out: Any, stride: Any
) -> Any:
    """Add the block (i:i+HIGH, j:j+WIDE) of XᵀX to numbers at address `out`, whose rows are `stride` numbers apart.

    X are groups of TOGETHER rows of `width` numbers at address `rows`. The products of a group are added in pairs, those in
    pairs, and so on, and their sum to the number: it stays in a register for all groups, which plain loops do not achieve.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, width, groups, i, j, out, stride = args
        number, word = ir.DoubleType(), i.type
        lanes = ir.VectorType(number, WIDE)
        nothing, first = (
            ir.Constant(lanes, ir.Undefined),
            ir.Constant(ir.VectorType(ir.IntType(32), WIDE), None),
        )
        rows, out = (builder.inttoptr(address, number.as_pointer()) for address in (rows, out))

        def vector(start: Any, place: Any) -> Any:
            return builder.bitcast(builder.gep(start, [place]), lanes.as_pointer())

        places = [vector(out, builder.mul(stride, word(a))) for a in range(HIGH)]
        sums = [variable(builder, builder.load(place, align=8)) for place in places]
        with for_range(builder, groups) as loop:
            start = builder.mul(builder.mul(loop.index, width), word(TOGETHER))
            group = [
                builder.gep(rows, [builder.add(start, builder.mul(width, word(row)))])
                for row in range(TOGETHER)
            ]
            right = [builder.load(vector(row, j), align=8) for row in group]
            for a, total in enumerate(sums):
                parts = []
                for row, each in zip(group, right, strict=True):
                    left = builder.load(builder.gep(row, [builder.add(i, word(a))]))
                    spread = builder.insert_element(nothing, left, ir.IntType(32)(0))
                    parts.append(builder.fmul(builder.shuffle_vector(spread, nothing, first), each))
                while len(parts) > 1:
                    parts = [builder.fadd(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
                builder.store(builder.fadd(builder.load(total), *parts), total)
        for place, total in zip(places, sums, strict=True):
            builder.store(builder.load(total), place, align=8)
        return context.get_dummy_value()

    size = types.intp
    return types.void(types.uintp, size, size, size, size, types.uintp, size), code


add_products: Any = _add_products
