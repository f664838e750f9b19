"""Reductions over axes: one table row per op."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.dims import is_known
from ...base.dtypes import S64, U64, DType, from_numpy
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxesAttr
from ..ir.computation import Computation, Index, Pointwise, Read, Reduction
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .elementwise import ANY, FLOAT, NUMBER, check_kind
from .elementwise_binary import divide
from .elementwise_unary import absolute

Finish = Callable[[Expr, Any], Expr]
LOGICAL = ("bool",)


def _keep(acc: Expr, count: int) -> Expr:
    return acc


def _same(x: Expr) -> Expr:
    return x


@dataclass(frozen=True)
class ReduceRow:
    """One reduction: `finish(combine over r of element(x_r), count)`; `reference(x, axes)` on arrays, keeping axes."""

    name: str
    meaning: str
    combine: str
    reference: Callable[[Array, tuple[int, ...]], Any]
    accepts: tuple[str, ...] = NUMBER
    element: Callable[[Expr], Expr] = _same
    finish: Finish = _keep


class Reduce(FusibleOp):
    """16-bit floats accumulate in f32.

    Over nothing the result is the identity of the operation: 0, 1, the smallest or largest value of the type.
    """

    operations: ClassVar[int] = 1
    row: ClassVar[ReduceRow]
    x = Operand()
    axes = AxesAttr("axes to reduce", default=None)
    keep_dims = BoolAttr("keep reduced axes, with size 1")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input without the reduced axes, or with size 1 there; same dtype."""
        (x,) = inputs
        check_kind(self, x, self.row.accepts)
        return [LogicalTensor(x.dtype, reduced_dims(x.plain_dims, self.axes, self.keep_dims))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The NumPy reduction, floats in float64 and rounded once."""
        out = self.outputs[0].details
        with np.errstate(all="ignore"):
            value = np.asarray(self.row.reference(widen(inputs[0]), self.axes))
        return [narrow(value.reshape(out.plain_dims), out.dtype)]

    def computation(self) -> Computation:
        """The reduction over the box of reduced axes; pointwise when there are none."""
        x, axes, row = self.inputs[0].details, self.axes, self.row
        extents = tuple(x.plain_dims[axis] for axis in axes)
        count, dtype = math.prod(extents), x.dtype.accumulator
        source = self._source

        def element(reads: Sequence[Read], index: Index, r: Index) -> Expr:
            return row.element(reads[0](source(index, r)))

        def finish(acc: Expr) -> Expr:
            return t.cast(row.finish(acc, count), dtype)

        if not axes:
            return Pointwise(lambda reads, index: finish(element(reads, index, ())))
        combine = self._combine(dtype)
        acc_dtype = row.element(t.const(0, dtype)).dtype
        return Reduction(extents, combine, identity(combine, acc_dtype), element, finish)

    def _combine(self, dtype: DType) -> str:
        combine = self.row.combine
        return (
            {"min": "and", "max": "or"}.get(combine, combine) if dtype.kind == "bool" else combine
        )

    def _source(self, index: Index, r: Index) -> Index:
        """Input index of a term: `r` on the reduced axes, the output's index elsewhere."""
        axes = self.axes
        inner = iter(r)
        outer = iter([i for axis, i in enumerate(index) if not (self.keep_dims and axis in axes)])
        rank = self.inputs[0].details.rank
        return tuple(next(inner) if axis in axes else next(outer) for axis in range(rank))


class _Largest(Reduce):
    """A max reduction whose NaNs are seen elsewhere, as in the exponentials of a softmax: one instruction a vector,
    not three."""

    keeps_nan = BoolAttr(
        "whether the result is NaN if any element is; else it may be anything", default=True
    )

    def _combine(self, dtype: DType) -> str:
        return "larger" if dtype.is_float and not self.keeps_nan else super()._combine(dtype)


def reduced_dims(dims: Sequence[Any], axes: Sequence[int], keep_dims: bool) -> tuple[Any, ...]:
    """The shape of a reduction over some axes of `dims`, which are kept with size 1 or left out."""
    kept = enumerate(dims)
    return tuple(1 if i in axes else n for i, n in kept if keep_dims or i not in axes)


def identity(combine: str, dtype: DType) -> int | float | bool:
    """The identity of `combine` in a type: combining it with x gives x."""
    if combine in ("min", "max", "larger", "log_add_exp"):
        sign = 1 if combine == "min" else -1
        if dtype.is_float:
            return sign * math.inf
        return dtype.limits[combine == "min"]
    if dtype.kind == "bool":
        return combine == "and"
    return 1 if combine == "mul" else 0


# --- mean of integers ----------------------------------------------------------------------------------------------


def _mean_term(x: Expr) -> Expr:
    # A sum in the type itself would wrap although the mean fits.
    if x.dtype.is_float:
        return x
    return t.cast(x, S64 if x.dtype.is_signed else U64)


def _mean_finish(acc: Expr, count: Any) -> Expr:
    terms = t.const(count, acc.dtype) if is_known(count) else t.cast(t.as_expr(count), acc.dtype)
    return divide(acc, terms, "trunc")


def _mean_ref(x: Array, axes: tuple[int, ...]) -> Any:
    count = math.prod(x.shape[axis] for axis in axes)
    if x.dtype.kind == "f":
        return np.sum(x, axis=axes) / np.float64(count)
    wide = np.int64 if x.dtype.kind == "i" else np.uint64
    total = np.sum(x, axis=axes, dtype=wide)
    if x.dtype.kind == "u":
        return total // wide(count)
    inexact = total % wide(count) != 0
    return total // wide(count) + (inexact & (total < 0))


# --- table ---------------------------------------------------------------------------------------------------------


def _own(function: Callable[..., Any]) -> Callable[[Array, tuple[int, ...]], Any]:
    """Return a sum or prod reduction in the array's dtype."""
    return lambda x, axes: function(x, axis=axes, dtype=x.dtype)


def _extreme(function: Callable[..., Any], combine: str) -> Callable[[Array, tuple[int, ...]], Any]:
    def reference(x: Array, axes: tuple[int, ...]) -> Any:
        if x.dtype == np.bool_:
            return function(x, axis=axes, initial=combine == "min")
        return function(x, axis=axes, initial=identity(combine, from_numpy(x.dtype)))

    return reference


def _square(x: Expr) -> Expr:
    return x * x


ROWS = (
    ReduceRow("reduce_sum", "Sum; integers wrap.", "add", _own(np.sum)),
    ReduceRow("reduce_mean", "Sum / count; of integers, summed in 64 bits and truncated.", "add", _mean_ref, NUMBER,
              _mean_term, _mean_finish),
    ReduceRow("reduce_max", "Largest element; NaN if any is NaN; `or` of bools.", "max", _extreme(np.max, "max"), ANY),
    ReduceRow("reduce_min", "Smallest element; NaN if any is NaN; `and` of bools.", "min", _extreme(np.min, "min"),
              ANY),
    ReduceRow("reduce_prod", "Multiplication; integers wrap.", "mul", _own(np.prod)),
    ReduceRow("reduce_any", "Whether any element is true.", "or", lambda x, axes: np.any(x, axis=axes), LOGICAL),
    ReduceRow("reduce_all", "Whether all elements are true.", "and", lambda x, axes: np.all(x, axis=axes), LOGICAL),
    ReduceRow("reduce_l1", "Sum of absolute values.", "add", lambda x, axes: _own(np.sum)(np.abs(x), axes), NUMBER,
              absolute),
    ReduceRow("reduce_l2", "Square root of the sum of squares.", "add",
              lambda x, axes: np.sqrt(np.sum(np.square(x), axis=axes)), FLOAT, _square,
              lambda acc, _: t.unary("sqrt", acc)),
    ReduceRow("reduce_sum_square", "Sum of squares; integers wrap.", "add",
              lambda x, axes: _own(np.sum)(np.square(x), axes), NUMBER, _square),
    ReduceRow("reduce_log_sum", "Logarithm of the sum.", "add", lambda x, axes: np.log(np.sum(x, axis=axes)), FLOAT,
              _same, lambda acc, _: t.call("log", acc)),
)  # fmt: skip


def _define(row: ReduceRow) -> None:
    name = "".join(part.capitalize() for part in row.name.split("_"))
    base = _Largest if row.name == "reduce_max" else Reduce
    register(row.name)(
        type(name, (base,), {"row": row, "__doc__": row.meaning, "__module__": __name__})
    )


for _row in ROWS:
    _define(_row)
