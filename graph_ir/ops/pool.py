"""Pooling: reductions over windows, averages and norms based on them, and local response normalization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.dims import is_known
from ...base.dtypes import DType
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import BoolAttr, FloatAttr, IntAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp, FusibleOp
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .compose import Composer
from .elementwise import ANY, FLOAT, NUMBER, check_kind
from .reduce import identity
from .window import KernelWindow


class Pool(KernelWindow):
    """Base: windows over the last len(kernel) axes of x."""

    accepts: ClassVar[tuple[str, ...]] = NUMBER
    x = Operand()

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The window's output sizes instead of the last axes."""
        (x,) = inputs
        check_kind(self, x, self.accepts)
        lead = x.rank - self.window.rank
        sizes = self.window.output_sizes(x.plain_dims[lead:])
        return [LogicalTensor(x.dtype, (*x.plain_dims[:lead], *sizes))]

    def get_gflop(self) -> float:
        """One operation per element of each window."""
        return self.outputs[0].details.typical.elements * math.prod(self.window.kernel) / 1e9


class WindowReduce(Pool, FusibleOp):
    """Base: each window reduced to one element.

    Padding is the identity of the reduction. 16-bit floats accumulate in f32, integers wrap.
    """

    combine: ClassVar[str]

    @property
    def fill(self) -> int | float | bool:
        """The value of padding."""
        return identity(self.combination, self.inputs[0].details.dtype.accumulator)

    @property
    def combination(self) -> str:
        """The elementwise op that combines two elements."""
        logical = self.inputs[0].details.dtype.kind == "bool"
        return {"min": "and", "max": "or"}[self.combine] if logical else self.combine

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The reduction of the strided view, floats in float64 and rounded once."""
        (x,) = (widen(array) for array in inputs)
        view = self.window.view(x, self.fill)
        axes = tuple(range(view.ndim - self.window.rank, view.ndim))
        functions: dict[str, Any] = {"max": np.max, "min": np.min, "or": np.any, "and": np.all}
        with np.errstate(all="ignore"):
            if self.combine in ("add", "mul"):
                function: Any = np.sum if self.combine == "add" else np.prod
                value = function(view, axis=axes, dtype=x.dtype)
            else:
                value = functions[self.combination](view, axis=axes)
        return [narrow(value, self.outputs[0].details.dtype)]

    def computation(self) -> Computation:
        """The reduction over the box of the window."""
        window, dims, value = self.window, self.inputs[0].details.plain_dims, self.fill
        lead = len(dims) - window.rank

        def fill(like: Expr) -> Expr:
            return t.const(value, like.dtype)

        def element(reads: Sequence[Read], index: Index, r: Index) -> Expr:
            return window.load(reads[0], index[:lead], index[lead:], r, dims[lead:], fill)

        return Reduction(window.kernel, self.combination, value, element, lambda acc: acc)


_REDUCED = (
    ("max_pool", "max", ANY, "The largest element of each window, NaN if any is NaN; `or` of bools."),
    ("min_pool", "min", ANY, "The smallest element of each window, NaN if any is NaN; `and` of bools."),
    ("sum_pool", "add", NUMBER, "The sum of each window."),
    ("prod_pool", "mul", NUMBER, "The cumulative product over each window."),
)  # fmt: skip
"""Name, elementwise op, dtype kinds and meaning of each."""
for _name, _combine, _kinds, _meaning in _REDUCED:
    _members = {"combine": _combine, "accepts": _kinds, "__doc__": _meaning, "__module__": __name__}
    register(_name)(type(_name.title().replace("_", ""), (WindowReduce,), _members))


class PooledOp(Pool, CompositeOp):
    """Base: an op made of others over the windows of `max_pool`, whose attributes it has."""

    def window_attrs(self) -> dict[str, Any]:
        """The attributes of the pool this is made of."""
        return {key: value for key, value in self.attrs.items() if key in Pool.schema.attributes}


class FloatPool(PooledOp):
    """Base: a float function of window sums, computed in f32 for 16-bit floats."""

    accepts: ClassVar[tuple[str, ...]] = FLOAT

    def sums(self, x: Array) -> Array:
        """Sum of each window of an array of x's shape."""
        window = self.window
        view = window.view(x, 0)
        return np.asarray(view.sum(axis=tuple(range(view.ndim - window.rank, view.ndim))))


@register("avg_pool")
class AvgPool(FloatPool):
    """The mean of each window.

    Divided by the elements inside x, or, with `count_include_pad`, inside x and its padding (elements that `ceil_mode`
    adds beyond it never count). A window without any gives NaN.
    """

    count_include_pad = BoolAttr("count padding as elements of the mean")

    def counts(self) -> Array:
        """Elements that each window is divided by: float64 of the positions' shape."""
        window = self.window
        sizes = self.inputs[0].details.plain_dims[-window.rank :]
        total = np.ones(())
        for axis, positions in enumerate(window.output_sizes(sizes)):
            before, after = window.before[axis], window.after[axis]
            step, taps = window.dilations[axis], window.kernel[axis]
            first = np.arange(positions) * window.strides[axis] - before
            low, high = (
                (-before, sizes[axis] + after) if self.count_include_pad else (0, sizes[axis])
            )
            begin, end = (np.clip(-((first - x) // step), 0, taps) for x in (low, high))
            total = np.multiply.outer(total, np.maximum(end - begin, 0.0))
        return total

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Sums over counts, in float64."""
        with np.errstate(all="ignore"):
            value = self.sums(widen(inputs[0])) / self.counts()
        return [narrow(value, self.outputs[0].details.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """A sum, divided by a constant."""
        make = Composer(graph, self)
        total = make("sum_pool", make.widened(self.inputs[0]), **self.window_attrs())
        dtype, x = total.details.dtype, self.inputs[0].details
        if not is_known(*x.plain_dims[-self.window.rank :]):
            divisor = self._counts_in_runs(make, dtype)
            return [make.to(make("div", total, divisor), x.dtype)]
        counts = self.counts()
        if counts.size and (counts == counts.flat[0]).all():
            divisor = make.scalar(float(counts.flat[0]), dtype)
        else:
            name = f"{self.name}.counts"
            divisor = graph.make_constant(counts.astype(dtype.numpy), name)
        return [make.to(make("div", total, divisor), self.outputs[0].details.dtype)]

    def _counts_in_runs(self, make: Composer, dtype: DType) -> GraphTensor:
        """`counts` of dynamic sizes: one number where all windows are whole, else the sums of ones."""
        window = self.window
        is_padded = any((*window.before, *window.after))
        if not window.ceil_mode and (self.count_include_pad or not is_padded):
            return make.scalar(float(math.prod(window.kernel)), dtype)
        none, one = ((n,) * (self.inputs[0].details.rank - window.rank) for n in (0, 1))
        shape = (*one, *self.inputs[0].details.plain_dims[-window.rank :])
        ones, attrs = make("broadcast", make.scalar(1.0, dtype), shape=shape), self.window_attrs()
        if not self.count_include_pad:
            return make("sum_pool", ones, **attrs)
        before, after = (*none, *window.before), (*none, *window.after)
        zeros = (0,) * window.rank
        ones = make("pad", ones, before=before, after=after, value=1.0)
        counts = make("sum_pool", ones, **{**attrs, "before": zeros, "after": zeros})
        positions = self.outputs[0].details.plain_dims[-window.rank :]
        starts, steps = (0,) * len(before), (1,) * len(before)
        return make("slice", counts, starts=starts, steps=steps, sizes=(*one, *positions))


@register("lp_pool")
class LpPool(FloatPool):
    """(sum of |x| ** p over each window) ** (1 / p)."""

    p = FloatAttr("exponent", default=2.0)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The window's positions instead of the last axes."""
        if not self.p > 0:
            raise self.rule("p must be positive", str(self.p))
        return super().infer(inputs)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64."""
        with np.errstate(all="ignore"):
            value = self.sums(np.abs(widen(inputs[0])) ** self.p) ** (1 / self.p)
        return [narrow(value, self.outputs[0].details.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Powers, a sum, and the root."""
        make = Composer(graph, self)
        x, attrs = make.widened(self.inputs[0]), self.window_attrs()
        dtype = x.details.dtype
        if self.p == 2:
            value = make("sqrt", make("sum_pool", make("square", x), **attrs))
        elif self.p == 1:
            value = make("sum_pool", make("abs", x), **attrs)
        else:
            powers = make("pow", make("abs", x), make.scalar(self.p, dtype))
            total = make("sum_pool", powers, **attrs)
            value = make("pow", total, make.scalar(1 / self.p, dtype))
        return [make.to(value, self.outputs[0].details.dtype)]


MAX_SLICES = 16
"""Up to this window size, squares of neighboring channels are added individually; a pool would need the
plain layout."""


@register("lrn")
class LocalResponseNorm(CompositeOp):
    """x / (k + alpha / size * sum of squares of `size` channels around) ** beta, for x [N, C, ...].

    The window of channel c is c - (size - 1) // 2 to c + size // 2.
    """

    x = Operand("[N, C, ...]")
    size = IntAttr("channels of a window", least=1)
    alpha = FloatAttr(default=1e-4)
    beta = FloatAttr(default=0.75)
    k = FloatAttr(default=1.0)
    axis = AxisAttr("axis of the channels", default=1)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's dtype and shape."""
        check_kind(self, inputs[0], FLOAT)
        return super().infer(inputs)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64."""
        x = widen(inputs[0])
        size, axis = self.size, self.axis
        pads = [(0, 0)] * x.ndim
        pads[axis] = ((size - 1) // 2, size // 2)
        padded = np.pad(np.square(x), pads)
        windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis) if x.size else padded
        with np.errstate(all="ignore"):
            total = windows.sum(-1) if x.size else x
            value = x / (self.k + self.alpha / size * total) ** self.beta
        return [narrow(value, self.outputs[0].details.dtype)]

    def get_gflop(self) -> float:
        """`size` multiply-adds and four more operations per element."""
        return self.inputs[0].details.typical.elements * (2 * self.size + 4) / 1e9

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """The sum of the squares around, then a power."""
        make = Composer(graph, self)
        x = make.widened(self.inputs[0])
        if x.details.is_empty:
            return [self.inputs[0]]
        total = self._windows(make, x) if self.size > MAX_SLICES else self._slices(make, x)
        alpha, beta, k = self.alpha / self.size, self.beta, self.k
        dtype = x.details.dtype
        scaled = make("mul", make.scalar(alpha, dtype), total)
        base = make("add", make.scalar(k, dtype), scaled)
        if (
            beta == 0.75 and alpha >= 0 and k >= 0
        ):  # roots of non-negative values are faster than a power
            root = make("sqrt", base)
            power = make("mul", root, make("sqrt", root))
        else:
            power = make("pow", base, make.scalar(beta, dtype))
        return [make.to(make("div", x, power), self.outputs[0].details.dtype)]

    def _slices(self, make: Composer, x: GraphTensor) -> GraphTensor:
        """The channels stored once with zeros around, and added at each distance: element by element in any layout."""
        dims, size, axis = x.details.plain_dims, self.size, self.axis
        edges = [(*dims[:axis], n, *dims[axis + 1 :]) for n in ((size - 1) // 2, size // 2)]
        zero = make.scalar(0, x.details.dtype)
        before, after = (make("broadcast", zero, shape=shape) for shape in edges)
        stored = make("concat", before, x, after, axis=axis)
        total = None
        for distance in range(size):
            starts = tuple(distance if i == axis else 0 for i in range(len(dims)))
            square = make("square", make("slice", stored, starts=starts, sizes=dims))
            total = square if total is None else make("add", total, square)
        assert total is not None
        return total

    def _windows(self, make: Composer, x: GraphTensor) -> GraphTensor:
        """A pool over the channels, with all axes behind them as one."""
        dims, size, axis = x.details.plain_dims, self.size, self.axis
        rows = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]))
        squares = make("reshape", make("square", x), shape=rows)
        pads = {"before": ((size - 1) // 2, 0), "after": (size // 2, 0)}
        return make("reshape", make("sum_pool", squares, kernel=(size, 1), **pads), shape=dims)
