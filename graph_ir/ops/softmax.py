"""Ops based on exp(x - max), so that exp cannot overflow: softmax, log_softmax, reduce_log_sum_exp."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..ir.attributes import BoolAttr
from ..ir.axis_attributes import AxesAttr, AxisAttr
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .compose import Composer
from .elementwise import FLOAT, check_kind
from .reduce import reduced_dims


class _AlongAxis(CompositeOp):
    """Base of the softmax pair. Floats only; 16-bit ones are computed in f32."""

    operations: ClassVar[int] = 5  # max, subtract, exp, sum, divide
    x = Operand()
    axis = AxisAttr("normalized axis", default=-1)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input's dtype and shape."""
        check_kind(self, inputs[0], FLOAT)
        return super().infer(inputs)

    def shifted(self, make: Composer) -> tuple[GraphTensor, GraphTensor, GraphTensor]:
        """(x - max, exp of it, its sum along the axis)."""
        x = make.widened(self.inputs[0])
        # The sum of the exponentials is NaN if any element is.
        largest = make("reduce_max", x, axes=(self.axis,), keep_dims=True, keeps_nan=False)
        shifted = make("sub", x, largest)
        powers = make("exp", shifted)
        return shifted, powers, make("reduce_sum", powers, axes=(self.axis,), keep_dims=True)


def _shifted(x: Array, axis: int) -> tuple[Any, Any, Any]:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(shifted)
    return shifted, powers, np.sum(powers, axis=axis, keepdims=True)


@register("softmax")
class Softmax(_AlongAxis):
    """exp(x) / sum(exp(x)) along `axis`. A row with +inf or NaN, or of -inf alone, is NaN."""

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64."""
        with np.errstate(all="ignore"):
            _, powers, total = _shifted(widen(inputs[0]), self.axis)
            return [narrow(powers / total, self.outputs[0].details.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """reduce_max, sub, exp, reduce_sum, div."""
        make = Composer(graph, self)
        _, powers, total = self.shifted(make)
        return [make.to(make("div", powers, total), self.outputs[0].details.dtype)]


@register("log_softmax")
class LogSoftmax(_AlongAxis):
    """x - log(sum(exp(x))) along `axis`."""

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64."""
        with np.errstate(all="ignore"):
            shifted, _, total = _shifted(widen(inputs[0]), self.axis)
            return [narrow(shifted - np.log(total), self.outputs[0].details.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """reduce_max, sub, exp, reduce_sum, log, sub."""
        make = Composer(graph, self)
        shifted, _, total = self.shifted(make)
        return [make.to(make("sub", shifted, make("log", total)), self.outputs[0].details.dtype)]


@register("reduce_log_sum_exp")
class ReduceLogSumExp(CompositeOp):
    """log(sum(exp(x))) over `axes`. Floats only."""

    operations: ClassVar[int] = 4

    x = Operand()
    axes = AxesAttr("axes to reduce", default=None)
    keep_dims = BoolAttr("keep reduced axes, with size 1")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The input without the reduced axes, or with size 1 there."""
        (x,) = inputs
        check_kind(self, x, FLOAT)
        return [LogicalTensor(x.dtype, reduced_dims(x.plain_dims, self.axes, self.keep_dims))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64, shifted by the largest finite element."""
        out = self.outputs[0].details
        x = widen(inputs[0])
        with np.errstate(all="ignore"):
            largest = np.max(x, axis=self.axes, keepdims=True, initial=-np.inf)
            shift = np.where(np.isinf(largest), 0.0, largest)
            value = np.log(np.sum(np.exp(x - shift), axis=self.axes, keepdims=True)) + shift
        return [narrow(value.reshape(out.plain_dims), out.dtype)]

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """log(reduce_sum(exp(x - max))) + max, an infinite max is replaced so that inf - inf does not occur."""
        make = Composer(graph, self)
        out = self.outputs[0].details
        x = make.widened(self.inputs[0])
        largest = make("reduce_max", x, axes=self.axes, keep_dims=True, keeps_nan=False)
        zero = make.scalar(0.0, x.details.dtype)
        shift = make("select", make("isinf", largest), zero, largest)
        total = make(
            "reduce_sum", make("exp", make("sub", x, shift)), axes=self.axes, keep_dims=True
        )
        value = make("add", make("log", total), shift)
        if value.details.plain_dims != out.plain_dims:
            value = make("reshape", value, shape=out.plain_dims)
        return [make.to(value, out.dtype)]
