"""Arrays and numbers by name, for Python and compiled code alike.

Passing thirty arrays to compiled code one by one costs more than a decision over twenty actions. A `Struct` is one
argument: in compiled code `t.theta[slot]` is an array's row and `t.used += 1` changes a number in place.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, imputils, types
from numba.core.typing import templates
from numba.np import numpy_support

Fields = Mapping[str, tuple[Any, str]]
"""NumPy type and shape of each field, one letter or digit per dimension: `Cd` is (C, d), the empty shape is one number."""

ARRAY_WORDS = 3
# Per field: address, rows, columns.

WORD = ir.IntType(64)
numba: Any = extending  # untyped, and so are these
lower: Any = imputils
helpers: Any = cgutils
attributes: Any = templates


class StructArrays:
    """The memory of declared fields: `memory.theta` is an array, `memory.used` a number."""

    fields: Fields
    sizes: dict[str, int]
    arrays: dict[str, np.ndarray]
    numbers: np.ndarray
    views: dict[str, np.ndarray]

    def __init__(self, fields: Fields, sizes: Mapping[str, int]) -> None:
        """Zeros, with a length for every letter in a shape."""

        def extent(letter: str) -> int:
            return int(letter) if letter.isdigit() else sizes[letter]

        arrays = {
            name: np.zeros([extent(letter) for letter in shape], kind)
            for name, (kind, shape) in fields.items()
            if shape
        }
        numbers = np.dtype([(name, kind) for name, (kind, shape) in fields.items() if not shape])
        self._keep(fields=fields, sizes=dict(sizes), arrays=arrays, numbers=np.zeros(1, numbers))

    def _keep(self, **state: Any) -> None:
        # Arrays are attributes too, and numbers views, since to find a field by its name takes longer than a small decision.
        numbers = state["numbers"]
        views = {name: numbers[name] for name in numbers.dtype.names or ()}
        self.__dict__.update(state, views=views, **state["arrays"])

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("fields", "sizes", "arrays", "numbers")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._keep(**state)

    def copy(self) -> "StructArrays":
        """A writable copy."""
        copied = StructArrays.__new__(StructArrays)
        arrays = {name: np.array(part, order="C") for name, part in self.arrays.items()}
        copied._keep(**{**self.__getstate__(), "arrays": arrays, "numbers": np.array(self.numbers)})
        return copied

    def take(self, smaller: "StructArrays") -> None:
        """Copy a smaller one into the first rows."""
        self.numbers[:] = smaller.numbers
        for name, part in smaller.arrays.items():
            self.arrays[name][: len(part)] = part

    def __getattr__(self, name: str) -> Any:
        views = self.__dict__.get("views", {})
        if name in views:
            return views[name].item()
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.views:
            raise AttributeError(f"{name} is not one of the numbers; change an array in place")
        self.views[name][0] = value

    def places(self) -> dict[str, np.ndarray]:
        """Every field as an array, a number as one of length 1."""
        return {**self.arrays, **self.views}


class Struct(int):
    """Fields by name for compiled code: a subclass declares them, an instance is the address of their addresses.

    It keeps the arrays alive as long as it lives, and cannot be copied: addresses are invalid in a copy. It is a number, because
    compiled code finds an attribute of an object by its name, which takes longer than the rest of a call.
    """

    held: tuple[np.ndarray, ...]
    fields: ClassVar[Fields]
    type: ClassVar[Any]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def __init_subclass__(cls, fields: Fields) -> None:
        cls.fields = fields
        cls.type = StructType(
            tuple((name, np.dtype(kind).str, len(shape)) for name, (kind, shape) in fields.items())
        )

    def __new__(cls, places: Mapping[str, np.ndarray]) -> Self:
        """Check that the arrays are as declared."""
        words: list[int] = []
        for name, (kind, shape) in cls.fields.items():
            place = places[name]
            if (
                place.dtype != kind
                or place.ndim != max(1, len(shape))
                or not (place.flags.carray or not shape)
            ):
                raise ValueError(f"{name}: {place.dtype} {place.shape}; expected {np.dtype(kind)} ({shape})")
            words += (place.ctypes.data, *place.shape, 1)[:ARRAY_WORDS]
        listed = np.array(words, dtype=np.int64)
        made = super().__new__(cls, listed.ctypes.data)
        made.held = listed, *(places[name] for name in cls.fields)
        return made

    def __reduce__(self) -> Any:
        raise TypeError("a table holds addresses, which mean nothing elsewhere; make another from the arrays")


class StructType(types.Type):
    """The type of a struct in compiled code: name, type and dimensions of every field, in order."""

    def __init__(self, fields: tuple[tuple[str, str, int], ...]) -> None:
        self.fields = fields
        super().__init__(name=f"Table({fields})")

    def find(self, attribute: str) -> tuple[int, Any, int]:
        """Position of a field's words, Numba type of its elements, and its dimensions; −1 first if there is none."""
        for place, (name, kind, dimensions) in enumerate(self.fields):
            if name == attribute:
                return ARRAY_WORDS * place, numpy_support.from_dtype(np.dtype(kind)), dimensions
        return -1, None, 0


@numba.register_model(StructType)
class _Model(numba.models.PrimitiveModel):  # type: ignore[misc]
    # In machine code: the address of the struct's words.

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, WORD.as_pointer())


@numba.typeof_impl.register(Struct)
def _type(table: Struct, _: Any) -> Any:
    return table.type


@numba.unbox(StructType)
def _unbox(kind: Any, table: Any, c: Any) -> Any:
    address = c.pyapi.long_as_longlong(table)
    words = c.builder.inttoptr(address, WORD.as_pointer())
    return numba.NativeValue(words, is_error=helpers.is_not_null(c.builder, c.pyapi.err_occurred()))


@numba.infer_getattr
class _Attributes(attributes.AttributeTemplate):  # type: ignore[misc]
    key = StructType

    def generic_resolve(self, kind: Any, attribute: str) -> Any:
        """A number, or an array in C order."""
        place, element, dimensions = kind.find(attribute)
        if place < 0:
            return None
        return types.Array(element, dimensions, "C") if dimensions else element


def _load(builder: Any, table: Any, place: int) -> Any:
    return builder.load(builder.gep(table, [WORD(place)]))


def _data(context: Any, builder: Any, table: Any, place: int, element: Any) -> Any:
    pointer = context.get_data_type(element).as_pointer()
    return builder.inttoptr(_load(builder, table, place), pointer)


@lower.lower_getattr_generic(StructType)
def _get(context: Any, builder: Any, kind: Any, table: Any, attribute: str) -> Any:
    place, element, dimensions = kind.find(attribute)
    data = _data(context, builder, table, place, element)
    if not dimensions:
        return context.unpack_value(builder, element, data)
    width = WORD(context.get_abi_sizeof(context.get_data_type(element)))
    shape = [_load(builder, table, place + 1 + i) for i in range(dimensions)]
    strides = [builder.mul(length, width) for length in shape[1:]] + [width]
    found = context.make_array(types.Array(element, dimensions, "C"))(context, builder)
    context.populate_array(
        found,
        data=data,
        shape=helpers.pack_array(builder, shape),
        strides=helpers.pack_array(builder, strides),
        itemsize=width,
        meminfo=None,
    )
    return found._getvalue()


@lower.lower_setattr_generic(StructType)
def _set(context: Any, builder: Any, signature: Any, arguments: Any, attribute: str) -> None:
    kind, _ = signature.args
    table, value = arguments
    place, element, dimensions = kind.find(attribute)
    if dimensions:
        raise TypeError(f"{attribute} is an array; change its elements")
    context.pack_value(builder, element, value, _data(context, builder, table, place, element))
