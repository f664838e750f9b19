"""Writes elementwise ops and reductions that no opcode is from their formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dims import UndecidedSize
from ...base.dtypes import BOOL, DType
from ...graph_ir.inspect.formula import Term, elementwise_formula, reduction_formula
from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.elementwise import Elementwise
from ...graph_ir.ops.reduce import Reduce, identity
from ..correspondence.writing import InexpressibleError, Write
from .frame import Value, Writer
from .opcodes import OPCODES


def by_row_or_formula(write: Write) -> Write:
    """The writer of an elementwise op: its row, or its formula where the row does not express it."""

    def either(writer: Writer, op: Op) -> Value:
        try:
            value: Value = write(writer, op)
        except InexpressibleError:
            return write_formula(writer, op)
        return value

    return either


def write_formula(writer: Writer, op: Op) -> Value:
    """The instructions of an elementwise op or a reduction."""
    if isinstance(op, Reduce):
        return _reduction(writer, op)
    if not isinstance(op, Elementwise):
        raise InexpressibleError(op.op_name)
    details = op.outputs[0].details
    operands = [writer.broadcast(v, details.plain_dims) for v in writer.operands(op)]
    wide = [writer.cast(v, v.dtype.accumulator) for v in operands]
    formula = _Formula(writer, wide, details.plain_dims)
    # The formulas of quotients and remainders of floats are details of how they are computed.
    if op.op_name == "div_constant" and details.dtype.is_float:
        divisor = formula.constant(op.attr("divisor"), wide[0].dtype)
        return writer.cast(writer.same("divide", wide[0], divisor), details.dtype)
    if op.op_name == "mod" and details.dtype.is_float:  # with the sign of a it has a row
        return writer.cast(formula.floored("mod", *wide), details.dtype)
    return writer.cast(formula.write(elementwise_formula(op)), details.dtype)


def combining(combine: str, dtype: DType) -> str:
    """Return the opcode that combines elements of a type: min of bools is all, max is any; HLO's max keeps NaN."""
    same = {"min": "and", "max": "or"} if dtype == BOOL else {"larger": "max"}
    return same.get(combine, combine)


def _reduction(writer: Writer, op: Reduce) -> Value:
    x, out = op.inputs[0].details, op.outputs[0].details
    formula = reduction_formula(op, math.prod(x.plain_dims[axis] for axis in op.axes))
    value = writer.cast(writer.operand(op.inputs[0]), x.dtype.accumulator)
    value = _Formula(writer, [value], x.plain_dims).write(formula.element)
    kept = [size for axis, size in enumerate(x.plain_dims) if axis not in op.axes]
    if op.axes:
        combine, dtype = combining(formula.combine, value.dtype), value.dtype
        start = writer.constant(identity(combine, dtype), dtype, "identity")
        value = writer.apply(
            "reduce",
            [value, start],
            dtype,
            kept,
            op.name,
            dimensions=op.axes,
            to_apply=writer.body(combine, dtype),
        )
    value = _Formula(writer, [value], kept).write(formula.finish)
    return writer.reshape(writer.cast(value, out.dtype), out.plain_dims)


def compare(writer: Writer, name: str, *operands: Value) -> Value:
    """A comparison of arrays of one shape."""
    dims = operands[0].dims
    return writer.apply("compare", operands, BOOL, dims, direction=name.upper())


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
            if not term.name.isdigit():
                raise UndecidedSize(f"HLO needs a number, got {term.name}")
            return self.operands[int(term.name)]
        if term.kind == "const":
            return self.constant(term.value, term.dtype)
        parts = [self.write(part) for part in term.parts]
        if term.kind == "cast":
            return self.writer.cast(parts[0], term.dtype)
        if term.kind == "select":
            return self.writer.same("select", *parts)
        if term.kind == "compare":
            return compare(self.writer, term.name, *parts)
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
        if term.name == "erfc":
            erf = self.writer.same(OPCODES["erf"], *parts)
            return self.writer.same("subtract", self.constant(1, term.dtype), erf)
        if term.name == "bitcast":
            return self.writer.apply("bitcast-convert", parts, term.dtype, self.dims)
        if term.name not in OPCODES:
            raise InexpressibleError(term.name)
        return self.writer.same(OPCODES[term.name], *parts)

    def _unary(self, term: Term, x: Value) -> Value:
        if term.name == "trunc":
            negative = compare(self.writer, "lt", x, self.constant(0, x.dtype))
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
        return self.floored(term.name, a, b)

    def floored(self, name: str, a: Value, b: Value) -> Value:
        """Integer `div`, and `mod`, round down here, to zero in HLO; of integers they give 0 for b = 0."""
        writer = self.writer
        zero = self.constant(0, a.dtype)
        rest = writer.same("remainder", a, b)
        result = writer.same("divide", a, b) if name == "div" else rest
        if a.dtype.is_signed:
            inexact = compare(writer, "ne", rest, zero)
            signs = [compare(writer, "lt", v, zero) for v in (a, b)]
            past = writer.same("and", inexact, writer.same("xor", *signs))
            fixed = (
                writer.same("subtract", result, self.constant(1, a.dtype))
                if name == "div"
                else writer.same("add", rest, b)
            )
            result = writer.same("select", past, fixed, result)
        if a.dtype.is_float:
            return result
        return writer.same("select", compare(writer, "eq", b, zero), zero, result)
