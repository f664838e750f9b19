"""Writes ops as PNNX operators: names, operands, annotations, and which constants become weights or literals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...base.printable import printable
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.writing import ExportFrame, InexpressibleError, Named, NameTable, Write
from .param_value import print_float, print_param_value, to_f32
from .program import SUFFIX_DTYPES, WORD_DTYPES, Operator, TensorType

_SUFFIXES = {dtype.name: suffix for suffix, dtype in SUFFIX_DTYPES.items()}
# `..`: weights are files of an archive.
_NOT_IN_NAMES = re.compile(r"[\s=@#$]|(?<![^/\\])\.\.(?![^/\\])")
_MAX_LITERAL = 2**31 - 1  # the tool keeps integers in 32 bits; the largest means "to the end"

LITERAL_OPERANDS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "mod", "pow", "atan2", "max", "min"), (0, 1)),
    **dict.fromkeys(("and", "or", "xor", "shl", "shr"), (0, 1)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (1,)),
    "select": (1, 2),
}
"""Inputs of an op that may be written as numbers instead of tensors."""


WORDS: dict[str, str] = {}
"""Element type names as parameters spell them."""

for _word, _dtype in WORD_DTYPES.items():
    WORDS.setdefault(_dtype.name, _word)

EXPRESSIONS = {
    **{f"torch.{name}": name for name in (
        "abs", "neg", "square", "ceil", "floor", "trunc", "round", "sqrt", "rsqrt", "reciprocal", "exp",
        "expm1", "log", "log1p", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
        "atanh", "sub", "mul", "pow", "atan2", "maximum", "minimum", "fmod", "remainder",
    )},
    **{f"torch.bitwise_{name}": name for name in ("and", "or", "xor")},
    "torch.bitwise_left_shift": "lshift", "torch.bitwise_right_shift": "rshift",
    "torch.sign": "maximum(sign(@0),minimum(@0,sign(@0)))",  # keeps NaN, whose sign is 0 in PyTorch
}  # fmt: skip
"""Operators that the tool writes as functions of a pnnx.Expression."""


class Literal(str):
    """A number written in the text instead of an operand."""


class Held(Literal):
    """An attribute."""


class Exporter(ExportFrame[str]):
    """The operators written so far, and the operand of every tensor."""

    format_name = "PNNX"

    def __init__(self, graph: Graph, writers: Mapping[str, Write]) -> None:
        super().__init__(graph, writers)
        self.operators: list[Operator] = []
        self.weights: dict[str, Array] = {}
        self.operands: dict[int, str] = {}
        self.absorbed: set[int] = set()  # ids of ops that are part of another op's operator
        self.biases: dict[int, GraphTensor] = {}  # by the id of the matmul whose operator has it
        self._details: dict[str, LogicalTensor] = {}
        self._names = NameTable()

    def write_op(self, op: Op) -> None:
        """Write one op, unless it is part of another op's operator."""
        if id(op) in self.absorbed:
            return
        self.check(op)
        if op.op_name not in self.writers:
            raise InexpressibleError(op.op_name)
        self._bind(op, self.writers[op.op_name](self, op))

    def check(self, op: Op) -> None:
        """Raise InexpressibleError for element types and layouts that PNNX does not have."""
        for y in op.outputs:
            if y.details.dtype.name not in _SUFFIXES:
                raise InexpressibleError(f"{op.op_name} of {y.details.dtype}")
        super().check(op)

    def bind_unknown(self, op: Op) -> None:
        """Bind the outputs to no operand."""
        self._details.setdefault("", LogicalTensor(SUFFIX_DTYPES["f32"], ()))
        self._bind(op, "")

    def _bind(self, op: Op, operands: str | tuple[str, ...]) -> None:
        names = operands if isinstance(operands, tuple) else (operands,) * len(op.outputs)
        self.operands.update((id(y), name) for y, name in zip(op.outputs, names, strict=True))

    def emit(
        self, op: Op, type_name: str, operands: Named[str], attrs: dict[str, Any]
    ) -> str | tuple[str, ...]:
        """The op's main operator, or a function of a pnnx.Expression where PNNX uses one.

        Several tensors are named; numbers and attributes are parameters.
        """
        if type_name in EXPRESSIONS:
            return self.expression(op, EXPRESSIONS[type_name])
        given = [(key, x) for key, x in operands if x is not None]
        params = {**attrs, **{key: x for key, x in given if isinstance(x, Literal)}}
        tensors = [(key, x) for key, x in given if not isinstance(x, Literal)]
        is_named = sum(not isinstance(x, Held) for _, x in given) > 1
        keys = [key for key, _ in tensors] if is_named else []
        keys = keys if all(keys) and len({*keys}) == len(keys) else []
        results = [y.details for y in op.outputs]
        outputs = self.append_several(
            type_name, op.name, [x for _, x in tensors], results, params, keys
        )
        return outputs if len(outputs) > 1 else outputs[0]

    def hold(self, op: Op, name: str, kind: str, value: Any) -> str:
        """An attribute is a parameter, whether PyTorch takes it by position or not."""
        return Held(print_param_value(self.attribute(kind, value)))

    def attribute(self, kind: str, value: Any) -> Any:
        """Convert an attribute value to the form of parameters: element types are words."""
        return WORDS[value.name] if kind == "dtype" else value

    def operand(self, x: GraphTensor) -> str:
        """The operand of a tensor, or the number it is written as."""
        return Literal(literal(x) or "") if self._is_literal(x) else self.operands[id(x)]

    def append(
        self,
        type_name: str,
        name: str,
        inputs: Sequence[str],
        result: LogicalTensor | None,
        params: dict[str, Any] | None = None,
        keys: Sequence[str] = (),
        weights: dict[str, Array] | None = None,
    ) -> str:
        """Append an operator with at most one output; `keys` name its inputs. Returns the new operand."""
        results = [] if result is None else [result]
        outputs = self.append_several(type_name, name, inputs, results, params, keys, weights)
        return outputs[0] if outputs else ""

    def part(
        self,
        op: Op,
        suffix: str,
        type_name: str,
        inputs: Sequence[str],
        dims: Sequence[int],
        params: dict[str, Any],
    ) -> str:
        """Append an operator that the op's main one needs, named after both, of the type of the op's first input."""
        details = LogicalTensor(op.inputs[0].details.dtype, tuple(dims))
        return self.append(type_name, f"{op.name}.{suffix}", inputs, details, params)

    def append_several(
        self,
        type_name: str,
        name: str,
        inputs: Sequence[str],
        results: Sequence[LogicalTensor],
        params: dict[str, Any] | None = None,
        keys: Sequence[str] = (),
        weights: dict[str, Array] | None = None,
    ) -> tuple[str, ...]:
        """Append an operator; `keys` name its inputs. Returns its operands, one for each of `results`."""
        name = self._names.unique(_NOT_IN_NAMES.sub("_", printable(name)) or "op")
        first = len(self._details)
        outputs = [str(first + number) for number in range(len(results))]
        self._details.update(zip(outputs, results, strict=True))
        for key, array in (weights or {}).items():
            self.weights[f"{name}.{key}"] = array
        touched = dict.fromkeys((*inputs, *outputs))
        self.operators.append(
            Operator(
                type_name,
                name,
                tuple(inputs),
                tuple(outputs),
                {key: print_param_value(value) for key, value in (params or {}).items()},
                {key: _array_type(array) for key, array in (weights or {}).items()},
                tuple(zip(keys, inputs, strict=False)),
                {x: _type(self._details[x]) for x in touched if self._annotated(x, type_name)},
            )
        )
        return tuple(outputs)

    def _annotated(self, operand: str, type_name: str) -> bool:
        """PNNX omits scalar shapes; on an input the reader needs them."""
        return bool(self._details[operand].rank) or type_name == "pnnx.Input"

    def _is_literal(self, x: GraphTensor) -> bool:
        """Return whether a tensor is written as a number and is not part of another operator's result."""
        return id(x.producer_owner) in self.absorbed and id(x) not in self.operands

    def expression(self, op: Op, function: str) -> str:
        """A pnnx.Expression of a function, or its text, over the op's inputs; scalar constants become literals."""
        inputs: list[str] = []
        texts: list[str] = []
        for x in op.inputs:
            operand = self.operand(x)
            if isinstance(operand, Literal):
                texts.append(operand)
                continue
            if operand not in inputs:
                inputs.append(operand)
            texts.append(f"@{inputs.index(operand)}")
        params = {"expr": function if "@" in function else f"{function}({','.join(texts)})"}
        return self.append("pnnx.Expression", op.name, inputs, op.outputs[0].details, params)

    def call(self, op: Op, type_name: str, *keys: str, **params: Any) -> Any:
        """One operator over the op's inputs, named `keys` if there are any; scalar constants become parameters."""
        names = keys or ("",) * len(op.inputs)
        operands = zip(names, map(self.operand, op.inputs), strict=False)
        return self.emit(op, type_name, list(operands), params)


def _type(details: LogicalTensor) -> TensorType:
    return TensorType(details.plain_dims, _SUFFIXES.get(details.dtype.name, ""))


def _array_type(array: Array) -> TensorType:
    suffix = next(s for s, dtype in SUFFIX_DTYPES.items() if dtype.numpy == array.dtype)
    return TensorType(array.shape, suffix)


def own_constant(x: GraphTensor, rank: int) -> bool:
    """A plain constant of that rank with one consumer and a dtype that can be written."""
    is_constant = x.is_constant and x.details.format.is_plain
    known = x.details.dtype.name in WORDS
    return is_constant and known and x.details.rank == rank and len(x.uses) == 1


def value_of(x: GraphTensor) -> Array:
    """The array of a constant."""
    value: Array = x.producer_owner.attr("value")
    return value


def absorb_literals(exporter: Exporter) -> None:
    """Mark the constants that are written as numbers."""
    for op in exporter.graph.ops:
        numbers = LITERAL_OPERANDS.get(op.op_name, ())
        found = [op.inputs[i] for i in numbers if literal(op.inputs[i]) is not None]
        if found and len(found) < len(op.inputs):  # an expression of numbers alone has no dtype
            others = [x for x in op.inputs if x not in found]
            if op.op_name != "select" or len(found) == 1:
                exporter.absorbed.update(id(x.producer_owner) for x in found if x not in others)


def literal(x: GraphTensor) -> str | None:
    """The text of a scalar constant with one consumer, if it preserves the value exactly; else None."""
    op = x.producer_owner
    if not op.is_constant or x.details.rank or len(x.uses) != 1:
        return None
    value = op.attr("value").astype(object).item()
    if isinstance(value, bool):
        return str(value)
    if x.details.dtype.is_float:
        number = float(value)
        return print_float(number) if np.isfinite(number) and to_f32(number) == number else None
    return str(value) if abs(int(value)) < _MAX_LITERAL else None
