"""Turns tensors of a group of fusible ops into expressions: inputs become loads, ops inline into their consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...base.dtypes import DType
from ...base.errors import InternalError
from ...tensor_ir import builder as t
from ...tensor_ir.names import value_name
from ...tensor_ir.nodes import Binary, Buffer, Cast, Const, Expr, Let, Select, Unary, Var
from ...tensor_ir.sizes import shape_of
from .computation import Index, Pointwise, Read
from .graph import GraphTensor
from .op_kinds import FusibleOp


class GroupValues:
    """Reads any tensor of a group at a plain index.

    `buffers` holds the tensors in memory, `given` those computed by the loop nest around (a finished accumulator).
    `suffix` makes the names of several instances in one function distinct.
    Every value is bound by a `Let` in `lets`, in order of need, so each is computed once.
    """

    def __init__(
        self,
        buffers: Mapping[GraphTensor, Buffer],
        given: Mapping[GraphTensor, Read] | None = None,
        suffix: str = "",
    ) -> None:
        self.buffers = buffers
        self.suffix = suffix
        self.given = dict(given or {})
        self.lets: list[Let] = []
        self._known: dict[tuple[GraphTensor, Index], Expr] = {}

    def read(self, tensor: GraphTensor) -> Read:
        """The function plain index -> value of `tensor`, 16-bit floats widened to f32."""

        def at(index: Index) -> Expr:
            key = (tensor, index)
            if key not in self._known:
                buffer = self.buffers.get(tensor)
                kind = buffer.name if buffer else tensor.producer_owner.op_name
                self._known[key] = self.bind(self._value(tensor, index), kind)
            return self._known[key]

        return at

    def bind(self, value: Expr, kind: str) -> Expr:
        """Bind a value to a name, so that using it twice computes it once."""
        if isinstance(value, (Var, Const)):
            return value
        var = Var(value_name(kind, self.suffix, len(self.lets)), value.dtype)
        self.lets.append(Let(var, value))
        return var

    def _value(self, tensor: GraphTensor, index: Index) -> Expr:
        if tensor in self.given:
            return computed(self.given[tensor](index), tensor.details.dtype)
        if tensor in self.buffers:
            return widen(self.buffers[tensor][index_in(self.buffers[tensor], tensor, index)])
        op = tensor.producer_owner
        computation = op.computation() if isinstance(op, FusibleOp) else None
        if not isinstance(computation, Pointwise):
            raise InternalError(f"{op!r} was fused where only pointwise ops can be")
        value = computation.element([self.read(x) for x in op.inputs], index)
        dtype = tensor.details.dtype
        return value if _is_held(value, dtype) else computed(value, dtype)


def index_in(buffer: Buffer, tensor: GraphTensor, index: Index) -> Index:
    """Return the buffer index of the element at a plain index; a buffer may be flat, as matmul operands are."""
    return stored_at(buffer, tensor, tensor.details.format.blocked_index(index))


def stored_at(buffer: Buffer, tensor: GraphTensor, position: Index) -> Index:
    """The same of the element at an index in memory."""
    if len(buffer.shape) == len(position):
        return position
    offset = t.as_expr(0)
    for i, size in zip(position, tensor.details.physical_dims, strict=True):
        offset = offset * size + i
    return (offset,)


def widen(value: Expr) -> Expr:
    """16-bit floats as f32, which they are computed in; other types unchanged."""
    return Cast(value, value.dtype.accumulator) if value.dtype != value.dtype.accumulator else value


def computed(value: Expr, dtype: DType) -> Expr:
    """Return the value of a tensor of `dtype` in the type it is computed with.

    Types of less than 16 bits round or wrap every value; f16 and bf16 do where a kernel stores them.
    """
    if value.dtype == dtype or (value.dtype == dtype.accumulator and dtype.bits >= 16):
        return widen(value)
    return widen(Cast(value, dtype))


def _is_held(value: Expr, dtype: DType) -> bool:
    """Return whether a value in the type that `dtype` is computed with is known to be one of `dtype`.

    A variable is: it is bound to an element of a tensor, and only casts make elements of another type of these.
    """
    if value.dtype != dtype.accumulator:
        return False
    match value:
        case Var():
            return True
        case Const():
            with np.errstate(all="ignore"):
                return bool(np.asarray(value.value).astype(dtype.numpy) == value.value)
        case Select():
            return all(_is_held(x, dtype) for x in (value.then, value.otherwise))
        case Binary("min" | "max" | "larger"):
            return all(_is_held(x, dtype) for x in (value.left, value.right))
        case Unary("neg" | "abs"):
            return dtype.is_float and dtype.is_signed and _is_held(value.operand, dtype)
    return False


def narrow(value: Expr, dtype: DType) -> Expr:
    """A computed value in its storage type."""
    return value if value.dtype == dtype else Cast(value, dtype)


def parameters(
    inputs: Sequence[GraphTensor], outputs: Sequence[GraphTensor]
) -> dict[GraphTensor, Buffer]:
    """A buffer parameter for each tensor, in order: inputs `in0`, `in1`, ... (each once), outputs `out0`, ..."""
    named = [(f"in{i}", x) for i, x in enumerate(dict.fromkeys(inputs))] + [
        (f"out{i}", y) for i, y in enumerate(outputs)
    ]
    return {
        tensor: Buffer(name, tensor.details.dtype, shape_of(tensor.details.physical_dims))
        for name, tensor in named
    }
