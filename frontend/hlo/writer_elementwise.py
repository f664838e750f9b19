"""Writes elementwise ops and reductions as HLO: common ones one to one, all others from their formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dtypes import DType, by_name
from ...base.errors import UnsupportedError
from ...graph_ir.inspect.formula import Term, elementwise_formula, reduction_formula
from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.reduce import Reduce, identity
from .instruction_writer import Value, Writer
from .opcodes import OPCODES

_COMPARES = ("eq", "ne", "lt", "le", "gt", "ge")


_FORMULAS = ("atan",)
"""Ops with an opcode that XLA's parser does not take."""


def _opcode(op: Op) -> str | None:
    """The opcode that computes the op, for all its types; None where its formula is written."""
    is_float = op.outputs[0].details.dtype.is_float
    if op.op_name in _FORMULAS or (op.op_name == "pow" and not is_float):
        return None
    return "divide" if op.op_name == "div" and is_float else OPCODES.get(op.op_name)


def write_elementwise(writer: Writer, op: Op) -> Value:
    """The instructions of an elementwise op."""
    details = op.outputs[0].details
    operands = [writer.broadcast(writer.value(x), details.plain_dims) for x in op.inputs]
    opcode = _opcode(op)
    if opcode:
        return writer.emit(opcode, operands, details.dtype, details.plain_dims, name=op.name)
    if op.op_name in _COMPARES:
        return _compare(writer, op.op_name, operands, op.name)
    wide = [writer.cast(v, v.dtype.accumulator) for v in operands]
    formula = _Formula(writer, wide, details.plain_dims)
    if op.op_name == "div_constant":  # its formula is an implementation detail of division
        divisor = formula.constant(op.attr("divisor"), wide[0].dtype)
        return writer.cast(writer.same("divide", wide[0], divisor), details.dtype)
    result = formula.write(elementwise_formula(op))
    return writer.cast(result, details.dtype)


def write_reduction(writer: Writer, op: Op) -> Value:
    """The instructions of a reduction."""
    assert isinstance(op, Reduce)
    x, out = op.inputs[0].details, op.outputs[0].details
    count = math.prod(x.plain_dims[axis] for axis in op.axes)
    formula = reduction_formula(op, count)
    value = writer.cast(writer.value(op.inputs[0]), x.dtype.accumulator)
    value = _Formula(writer, [value], x.plain_dims).write(formula.element)
    kept = [size for axis, size in enumerate(x.plain_dims) if axis not in op.axes]
    if op.axes:
        combine = formula.combine
        if value.dtype.kind == "bool":
            combine = {"min": "and", "max": "or"}.get(combine, combine)
        start = writer.constant(identity(combine, value.dtype), value.dtype, "identity")
        axes = ",".join(map(str, op.axes))
        attributes = f"dimensions={{{axes}}}, to_apply=%{writer.body(combine, value.dtype)}"
        value = writer.emit("reduce", [value, start], value.dtype, kept, attributes, op.name)
    value = _Formula(writer, [value], kept).write(formula.finish)
    return writer.reshape(writer.cast(value, out.dtype), out.plain_dims)


def _compare(writer: Writer, name: str, operands: Sequence[Value], wanted: str = "") -> Value:
    direction = f"direction={name.upper()}"
    return writer.emit(
        "compare", operands, by_name("bool"), operands[0].dims, direction, wanted or "compare"
    )


class _Formula:
    """Writes the terms of a formula over arrays of one shape, shared terms once."""

    def __init__(self, writer: Writer, operands: Sequence[Value], dims: Sequence[int]) -> None:
        self.writer = writer
        self.operands = operands
        self.dims = tuple(dims)
        self.known: dict[int, Value] = {}

    def write(self, term: Term) -> Value:
        """The value of a term."""
        if id(term) not in self.known:
            self.known[id(term)] = self._term(term)
        return self.known[id(term)]

    def _term(self, term: Term) -> Value:
        if term.kind == "operand":
            return self.operands[int(term.name)]
        if term.kind == "const":
            return self.constant(term.value, term.dtype)
        parts = [self.write(part) for part in term.parts]
        if term.kind == "cast":
            return self.writer.cast(parts[0], term.dtype)
        if term.kind == "select":
            return self.writer.same("select", *parts)
        if term.kind == "compare":
            return _compare(self.writer, term.name, parts)
        if term.kind == "call":
            return self._call(term, parts)
        return self._unary(term, parts[0]) if term.kind == "unary" else self._binary(term, *parts)

    def constant(self, value: float, dtype: DType) -> Value:
        return self.writer.broadcast(self.writer.constant(value, dtype), self.dims)

    def _call(self, term: Term, parts: list[Value]) -> Value:
        if term.name == "fma":
            return self.writer.same(
                "add", self.writer.same("multiply", parts[0], parts[1]), parts[2]
            )
        if term.name == "atan":
            return self.writer.same("atan2", parts[0], self.constant(1, term.dtype))
        if term.name == "bitcast":
            return self.writer.emit("bitcast-convert", parts, term.dtype, self.dims)
        if term.name not in OPCODES:
            raise UnsupportedError(f"'{term.name}' cannot be written as HLO")
        return self.writer.same(OPCODES[term.name], *parts)

    def _unary(self, term: Term, x: Value) -> Value:
        if term.name == "trunc":
            negative = _compare(self.writer, "lt", [x, self.constant(0, x.dtype)])
            up, down = self.writer.same("ceil", x), self.writer.same("floor", x)
            return self.writer.same("select", negative, up, down)
        return self.writer.same(OPCODES["round" if term.name == "round_even" else term.name], x)

    def _binary(self, term: Term, a: Value, b: Value) -> Value:
        writer = self.writer
        if term.name in OPCODES:
            return writer.same(OPCODES[term.name], a, b)
        if term.name == "shr":
            kind = "arithmetic" if a.dtype.is_signed else "logical"
            return writer.same(f"shift-right-{kind}", a, b)
        if a.dtype.is_float:
            return writer.same("divide" if term.name == "div" else "remainder", a, b)
        return self._floored(term.name, a, b)

    def _floored(self, name: str, a: Value, b: Value) -> Value:
        """Integer division and remainder round down here, to zero in HLO, and give 0 for b = 0."""
        writer = self.writer
        zero = self.constant(0, a.dtype)
        rest = writer.same("remainder", a, b)
        result = writer.same("divide", a, b) if name == "div" else rest
        if a.dtype.is_signed:
            inexact = _compare(writer, "ne", [rest, zero])
            signs = [_compare(writer, "lt", [v, zero]) for v in (a, b)]
            past = writer.same("and", inexact, writer.same("xor", *signs))
            fixed = (
                writer.same("subtract", result, self.constant(1, a.dtype))
                if name == "div"
                else writer.same("add", rest, b)
            )
            result = writer.same("select", past, fixed, result)
        return writer.same("select", _compare(writer, "eq", [b, zero]), zero, result)
