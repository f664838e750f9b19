"""Graph to PNNX operators: names, operands, annotations, and which constants become weights or literals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import UnsupportedError
from ...base.printable import printable
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .param_value import print_float, print_param_value, to_f32
from .program import SUFFIX_DTYPES, Operator, TensorType

_SUFFIXES = {dtype.name: suffix for suffix, dtype in SUFFIX_DTYPES.items()}
_NOT_IN_NAMES = re.compile(
    r"[\s=@#$]|(?<![^/\\])\.\.(?![^/\\])"
)  # `..`: weights are files of an archive
_MOST_LITERAL = 2**31 - 1  # the tool keeps integers in 32 bits; the largest means "to the end"

LITERAL_OPERANDS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "mod", "pow", "atan2", "max", "min"), (0, 1)),
    **dict.fromkeys(("and", "or", "xor", "shl", "shr"), (0, 1)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (1,)),
    "select": (1, 2),
}
"""Which inputs of an op may stand as a number in the text instead of as a tensor."""


class Inexpressible(Exception):
    """PNNX has no form for an op; the text says what."""


class Exporter:
    """The operators written so far, and the operand of every tensor."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operators: list[Operator] = []
        self.weights: dict[str, Array] = {}
        self.operands: dict[int, str] = {}
        self.absorbed: set[int] = set()  # ids of ops that are part of the operator of another one
        self._details: dict[str, LogicalTensor] = {}
        self._names: set[str] = set()

    def operand(self, x: GraphTensor) -> str:
        """The operand a tensor is known by."""
        return self.operands[id(x)]

    def emit(
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
        outputs = self.emit_several(type_name, name, inputs, results, params, keys, weights)
        return outputs[0] if outputs else ""

    def emit_several(
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
        name = self._unique(name)
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
        """The tool leaves scalars out; on an input the reader needs to know."""
        return bool(self._details[operand].rank) or type_name == "pnnx.Input"

    def _unique(self, wanted: str) -> str:
        base = name = _NOT_IN_NAMES.sub("_", printable(wanted)) or "op"
        number = 0
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name

    def _is_literal(self, x: GraphTensor) -> bool:
        """Whether a tensor stands as a number in the text, and not for a part of another operator's result."""
        return id(x.producer_owner) in self.absorbed and id(x) not in self.operands

    def expression(self, op: Op, function: str) -> str:
        """A pnnx.Expression of one function over the op's inputs; scalar constants stand as literals."""
        inputs: list[str] = []
        texts = []
        for x in op.inputs:
            if self._is_literal(x):
                texts.append(literal(x) or "")
                continue
            operand = self.operand(x)
            if operand not in inputs:
                inputs.append(operand)
            texts.append(f"@{inputs.index(operand)}")
        params = {"expr": f"{function}({','.join(texts)})"}
        return self.emit("pnnx.Expression", op.name, inputs, op.outputs[0].details, params)

    def call(self, op: Op, type_name: str, *keys: str, **params: Any) -> str:
        """One operator over the op's inputs, named `keys` if there are any; scalar constants become parameters."""
        inputs: list[str] = []
        names: list[str] = []
        for i, x in enumerate(op.inputs):
            if self._is_literal(x):
                params[keys[i]] = literal(x)
            else:
                inputs.append(self.operand(x))
                names.extend(keys[i : i + 1])
        return self.emit(type_name, op.name, inputs, op.outputs[0].details, params, names)


def export_graph(graph: Graph) -> tuple[list[Operator], dict[str, Array]]:
    """Operators and weights by entry name. UnsupportedError lists everything that PNNX cannot express."""
    from .export_table import EXPORTERS, absorb_parts

    exporter = Exporter(graph)
    absorb_parts(exporter)
    _absorb_literals(exporter)
    failures: Counter[str] = Counter()
    for op in graph.ops:
        if id(op) in exporter.absorbed:
            continue
        try:
            _check_dtypes(op)
            if op.op_name not in EXPORTERS:
                raise Inexpressible(op.op_name)
            operand = EXPORTERS[op.op_name](exporter, op)
        except Inexpressible as failure:
            failures[str(failure)] += 1
            operand = ""
            exporter._details.setdefault(operand, LogicalTensor(SUFFIX_DTYPES["f32"], ()))
        operands = operand if isinstance(operand, tuple) else (operand,) * len(op.outputs)
        exporter.operands.update(
            (id(y), name) for y, name in zip(op.outputs, operands, strict=True)
        )
    if failures:
        counted = ", ".join(f"{what} ({count}x)" for what, count in sorted(failures.items()))
        raise UnsupportedError(f"graph '{graph.name}': PNNX cannot express: {counted}")
    return exporter.operators, exporter.weights


def _check_dtypes(op: Op) -> None:
    for y in op.outputs:
        if y.details.dtype.name not in _SUFFIXES:
            raise Inexpressible(f"{op.op_name} of {y.details.dtype}")
        if not y.details.format.is_plain:
            raise Inexpressible(f"{op.op_name} in a blocked layout")


def _type(details: LogicalTensor) -> TensorType:
    return TensorType(details.plain_dims, _SUFFIXES.get(details.dtype.name, ""))


def _array_type(array: Array) -> TensorType:
    suffix = next(s for s, dtype in SUFFIX_DTYPES.items() if dtype.numpy == array.dtype)
    return TensorType(array.shape, suffix)


def _absorb_literals(exporter: Exporter) -> None:
    for op in exporter.graph.ops:
        places = LITERAL_OPERANDS.get(op.op_name, ())
        found = [op.inputs[i] for i in places if literal(op.inputs[i]) is not None]
        if found and len(found) < len(op.inputs):  # an expression of numbers alone has no dtype
            others = [x for x in op.inputs if x not in found]
            if op.op_name != "select" or len(found) == 1:
                exporter.absorbed.update(id(x.producer_owner) for x in found if x not in others)


def literal(x: GraphTensor) -> str | None:
    """The text of a scalar constant with one reader, if it keeps its value exactly; None otherwise."""
    op = x.producer_owner
    if op.op_name != "constant" or x.details.rank or len(x.uses) != 1:
        return None
    value = np.asarray(op.attrs["value"]).astype(object).item()
    if isinstance(value, bool):
        return str(value)
    if x.details.dtype.is_float:
        number = float(value)
        return print_float(number) if np.isfinite(number) and to_f32(number) == number else None
    return str(value) if abs(int(value)) < _MOST_LITERAL else None
