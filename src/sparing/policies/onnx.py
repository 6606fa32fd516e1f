"""Policies with linear scores as an ONNX model: one input per raw column, or the encoded context."""

from typing import Any

import numpy as np

from sparing.errors import SettingError, require
from sparing.log.features.columns import (
    DAY,
    DAYS,
    HOURS,
    MINUTE,
    BoolColumn,
    CategoryColumn,
    Column,
    HashedColumn,
    NumberColumn,
    RawColumn,
    TimeColumn,
    VectorColumn,
)
from sparing.log.features.encoder import Encoder
from sparing.log.labels import label_text, shorten
from sparing.policies.policy import label_array
from sparing.policies.scorer import Scorer

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
"""Versions that runtimes since 2022 know."""

CONTEXT = "context"
"""Name of the input of a policy without raw columns."""

ACTION, SCORES, PROBABILITIES = "action", "scores", "probabilities"
"""Names of the outputs."""

ROWS = "rows"

FIRST, SECOND = np.array([0], dtype=np.int64), np.array([1], dtype=np.int64)
"""Indices of columns or axes."""

Constant = float | np.ndarray | list[str]


def to_onnx(scorer: Scorer) -> bytes:
    """Return an ONNX model with the outputs action (n,), scores (n, K) and, if the policy is random, probabilities (n, K).

    Parameters
    ----------
    scorer : Scorer
        The policy.

    Raises
    ------
    SettingError
        If a column cannot be encoded in ONNX.
    MissingExtraError
        If onnx is not installed.
    """
    graph = OnnxGraph()
    x = graph.context(scorer)
    # Equal parameters must give equal scores, and runtimes may sum columns of a product in different orders: each is computed once.
    rows, places = np.unique(scorer.theta, axis=0, return_inverse=True)
    scores = graph.node("MatMul", x, np.ascontiguousarray(rows.T))
    scores = graph.node("Gather", scores, places.reshape(-1).astype(np.int64), axis=1)
    if scorer.costs is not None:
        scores = graph.node("Sub", scores, scorer.costs)
    graph.output(scores, SCORES, graph.double, [ROWS, len(scorer.action_names)])
    if scorer.temperature is not None:
        tempered = graph.node("Div", scores, scorer.temperature)
        shares = graph.node("Softmax", tempered, axis=-1)
        graph.output(shares, PROBABILITIES, graph.double, [ROWS, len(scorer.action_names)])
    ranked = graph.node("Gather", scores, scorer.order.astype(np.int64), axis=1)
    best = graph.node("ArgMax", ranked, axis=1, keepdims=0)
    names = tuple(scorer.action_names[action] for action in scorer.order.tolist())
    labels = label_array(names)
    whole = labels.dtype == np.int64
    played = graph.node("Gather", labels if whole else list(map(label_text, names)), best, axis=0)
    graph.output(played, ACTION, graph.int64 if whole else graph.string, [ROWS])
    return graph.model(scorer)


class OnnxGraph:
    """The nodes, constants, inputs and outputs of a model under construction; values are known by their names."""

    def __init__(self) -> None:
        require("onnx", extra="onnx", purpose="export to ONNX")
        from onnx import TensorProto, helper

        self.helper: Any = helper
        self.double, self.int64 = TensorProto.DOUBLE, TensorProto.INT64
        self.string, self.boolean = TensorProto.STRING, TensorProto.BOOL
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def name(self) -> str:
        return f"value_{len(self.nodes) + len(self.constants)}"

    def node(self, kind: str, *inputs: str | Constant, domain: str = "", **settings: Any) -> str:
        """Add a node of values and constants, and return the name of its result."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = self.name()
        self.nodes.append(self.helper.make_node(kind, names, [name], domain=domain, **settings))
        return name

    def constant(self, value: Constant) -> str:
        name = self.name()
        if isinstance(value, list):
            texts = [text.encode() for text in value]
            self.constants.append(self.helper.make_tensor(name, self.string, [len(texts)], texts))
        else:
            from onnx import numpy_helper

            self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def input(self, name: str, kind: int, shape: list[Any]) -> str:
        """Add an input, and return its name."""
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, name: str, kind: int, shape: list[Any]) -> None:
        self.nodes.append(self.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, shape))

    def model(self, scorer: Scorer) -> bytes:
        """Return the model, checked."""
        import onnx

        from sparing import __version__

        graph = self.helper.make_graph(self.nodes, "policy", self.inputs, self.outputs, self.constants)
        opsets = [self.helper.make_opsetid("", OPSET), self.helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = self.helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=IR_VERSION,
            producer_name="sparing",
            producer_version=__version__,
            doc_string=f"policy learnt by {scorer.method}",
        )
        onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content

    # Contexts.

    def context(self, scorer: Scorer) -> str:
        """The encoded contexts (n, d), from an input per raw column, or given as they are."""
        encoder = scorer.encoder
        if encoder is None:
            return self.input(CONTEXT, self.double, [ROWS, scorer.theta.shape[1]])
        names = [column.column for column in encoder.columns]
        taken = {ACTION, SCORES, PROBABILITIES, *(name for name in names if name.startswith("value_"))} & set(
            names
        )
        if taken:
            raise SettingError(
                f"a column named {shorten(min(taken))} has the name of an output or of an inner value of the model. Rename it in the log"
            )
        parts = [part for column in encoder.columns for part in self.features(column)]
        if encoder.kernel is not None:
            parts += [self.kernel(encoder, self.joined(parts))]
        if encoder.constant:
            parts = [self.ones(encoder, parts), *parts]
        return self.joined(parts)

    def joined(self, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=1)

    def ones(self, encoder: Encoder, parts: list[str]) -> str:
        """A column of ones, as long as the first feature; without columns, as long as an input of its own."""
        if not parts:
            parts = [self.input(CONTEXT, self.double, [ROWS, 1])]
        first = self.node("Gather", parts[0], FIRST, axis=1)
        zero = self.node("Mul", first, 0.0)
        return self.node("Add", zero, 1.0)

    def features(self, column: Column) -> list[str]:
        """The features of a raw column, each (n, width)."""
        if isinstance(column, NumberColumn):
            return self.number(column)
        if type(column) is CategoryColumn:
            return [self.category(column)]
        if isinstance(column, BoolColumn):
            return self.truth(column)
        if isinstance(column, TimeColumn):
            return self.time(column)
        if isinstance(column, VectorColumn):
            return self.vector(column)
        reason = "hashes" if isinstance(column, HashedColumn) else "grams of texts"
        raise SettingError(
            f"{shorten(column.column)} is of the kind {column.kind}; ONNX has no {reason}. Export the policy as json, or leave the column "
            "out of the log's features"
        )

    def float_input(self, column: Column, width: int = 1) -> str:
        return self.input(column.column, self.double, [ROWS, width])

    def or_zero(self, there: str, value: str) -> str:
        """A value where it is there, else 0."""
        return self.node("Where", there, value, 0.0)

    def gap(self, column: Column, missing: str) -> list[str]:
        return [self.node("Cast", missing, to=self.double)] if column.gap else []

    def standardised(self, value: str, mean: float, times: float) -> str:
        less = self.node("Sub", value, mean)
        return self.node("Mul", less, times)

    def clipped(self, value: str, low: float | None, high: float | None) -> str:
        if low is not None:
            value = self.node("Max", value, low)
        return value if high is None else self.node("Min", value, high)

    def number(self, column: NumberColumn) -> list[str]:
        value = self.float_input(column)
        if isinstance(column, RawColumn):
            return [value]
        missing = self.node("IsNaN", value)
        scaled = self.standardised(
            self.clipped(value, column.low, column.high), column.mean, 1 / column.scale
        )
        return [self.or_zero(self.node("Not", missing), scaled), *self.gap(column, missing)]

    def category(self, column: CategoryColumn) -> str:
        word = self.input(column.column, self.string, [ROWS, 1])
        width = len(column.names)
        unknown = len(column.values) if column.hides_unseen else column.place_of_unseen
        places = dict.fromkeys(column.rare_values or (), len(column.values))
        places |= {value: place for place, value in enumerate(column.values)}
        places[""] = width - 1 if column.gap else width  # the last row of the table is 0
        table = np.vstack((np.eye(width), np.zeros((1, width))))
        place = self.node(
            "LabelEncoder",
            word,
            domain="ai.onnx.ml",
            keys_strings=list(places),
            values_int64s=list(places.values()),
            default_int64=unknown if unknown >= 0 else width,
        )
        found = self.node("Gather", table, place, axis=0)  # (n, 1, width)
        return self.node("Squeeze", found, SECOND)

    def truth(self, column: BoolColumn) -> list[str]:
        value = self.float_input(column)  # 1, 0 or NaN
        missing = self.node("IsNaN", value)
        twice = self.node("Mul", value, 2.0)
        sign = self.node("Sub", twice, 1.0)
        return [self.or_zero(self.node("Not", missing), sign), *self.gap(column, missing)]

    def time(self, column: TimeColumn) -> list[str]:
        value = self.float_input(column)  # seconds since 1970
        missing = self.node("IsNaN", value)
        moment = self.node("Where", missing, column.mean, value)
        within = self.clipped(moment, column.first, column.last)
        day, week = self.constant(DAY), self.constant(7.0)
        of_day = self.node(
            "Sub", moment, self.node("Mul", self.node("Floor", self.node("Div", moment, day)), day)
        )
        minute = self.node("Floor", self.node("Div", of_day, MINUTE))
        number = self.node("Floor", self.node("Div", within if column.under_week else moment, day))
        since = self.node("Add", number, 3.0)
        weekday = self.node(
            "Sub", since, self.node("Mul", self.node("Floor", self.node("Div", since, week)), week)
        )
        trend = self.node("Sub", within, column.mean)
        trend = self.node("Div", trend, column.scale)
        circles = []
        for table, index in ((HOURS, minute), (DAYS, weekday)):
            place = self.node("Cast", index, to=self.int64)
            found = self.node("Gather", table, place, axis=0)  # (n, 1, 2)
            circles.append(self.node("Squeeze", found, SECOND))
        there = self.node("Not", missing)
        return [self.or_zero(there, self.joined([*circles, trend])), *self.gap(column, missing)]

    def vector(self, column: VectorColumn) -> list[str]:
        """Projections of a list of numbers; a missing one is all NaN."""
        value = self.float_input(column, column.size)
        first = self.node("Gather", value, FIRST, axis=1)
        missing = self.node("IsNaN", first)
        axes, offset = column.projection
        projected = self.node("MatMul", value, np.ascontiguousarray(axes))
        moved = self.node("Sub", projected, offset)
        return [self.or_zero(self.node("Not", missing), moved), *self.gap(column, missing)]

    def kernel(self, encoder: Encoder, x: str) -> str:
        """Kernel features of linear features (n, d)."""
        kernel = encoder.kernel
        assert kernel is not None
        towards, away, half = kernel.comparison
        squares = self.node("ReduceSumSquare", x, axes=[1], keepdims=1)
        exponent = self.node("Sub", self.node("MatMul", x, towards), away)
        exponent = self.node("Sub", exponent, self.node("Mul", squares, half))
        exponent = self.node("Min", exponent, 0.0)
        return self.node("MatMul", self.node("Exp", exponent), np.ascontiguousarray(kernel.root))
