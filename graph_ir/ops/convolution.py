"""Convolution over any number of spatial axes, the forms of it that have templates, and im2col."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...base.contraction import Contraction, accumulator_of
from ...base.dtypes import F32, S32, DType
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Cast, Expr
from ..ir.attributes import IntAttr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import FusibleOp, TunableOp
from ..ir.operands import Operand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .contraction_types import contraction_dtype, is_byte, result_dtype_attr
from .movement import Movement
from .window import KernelWindow, Window, Windowed, window_of


@register("convolution")
class Convolution(Windowed, FusibleOp):
    """y[n, o, p...] = sum over c, k... of x[n, group of o + c, p * stride + k * dilation - before] * w[o, c, k...].

    x [N, C, sizes...], w [O, C / groups, kernel...] of one dtype; padding is zeros, which may be left out: whether
    infinite weights on them make NaN is not defined. 16-bit floats accumulate in f32, integers wrap; with dtype=s32,
    8-bit operands in s32.
    """

    x = Operand("image [N, C, sizes...]")
    w = Operand("weights [O, C / groups, kernel...]")
    groups = IntAttr("groups of channels that do not mix", default=1)
    dtype = result_dtype_attr()

    @property
    def contraction(self) -> Contraction:
        """The types of image, weights, their sums and the result."""
        x, w, y = (i.details.dtype for i in (*self.inputs, *self.outputs))
        return Contraction(x, w, accumulator_of(x, w) if y.is_float else y, y)

    @property
    def window_rank(self) -> int:
        """The spatial axes of the image."""
        return self.x.details.rank - 2

    @property
    def window(self) -> Window:
        """Geometry over the spatial axes."""
        x, w = (i.details for i in self.inputs)
        return window_of(self, self.weight_dims(w)[2:], x.plain_dims[2:])

    def weight_dims(self, w: LogicalTensor) -> tuple[int, ...]:
        """[O, C / groups, kernel...], whichever form w has."""
        return w.plain_dims

    def result_dtype(self, x: LogicalTensor, w: LogicalTensor) -> DType:
        """The element type of the result. Raise UserError if the operands cannot be multiplied."""
        return contraction_dtype(self, x, w, self.dtype)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, O, positions...]."""
        x, w = checked_operands(self, inputs)
        dtype = self.result_dtype(x, w)
        groups = self.groups
        channels, outputs = x.plain_dims[1], w.plain_dims[0]
        if groups < 1 or channels % groups or outputs % groups:
            raise self.rule(
                "groups must divide the channels of x and of the result",
                f"{groups} groups of {channels} and {outputs} channels",
            )
        if w.plain_dims[1] * groups != channels:
            raise self.rule(
                "w must have the channels of one group of x on axis 1",
                f"{w} for {channels} channels in {groups} groups",
            )
        window = window_of(self, w.plain_dims[2:], x.plain_dims[2:])
        positions = window.output_sizes(x.plain_dims[2:])
        return [LogicalTensor(dtype, (x.plain_dims[0], outputs, *positions))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Compute im2col and a matmul per image; floats are summed in float64 and rounded once, as bytes are."""
        wide = widen if self.dtype is None else lambda array: array.astype(np.float64)
        x, w = (wide(array) for array in inputs)
        out, groups, window = self.outputs[0].details, self.groups, self.window
        dims = self.weight_dims(self.inputs[1].details)
        terms = math.prod(dims[1:])
        matrix = w.reshape(groups, dims[0] // groups, terms)
        result = np.empty(out.plain_dims, np.result_type(x, w))
        with np.errstate(all="ignore"):
            for image, target in zip(x, result, strict=True):
                view = window.view(image, 0)  # [C, positions..., kernel...]
                order = (0, *range(1 + window.rank, view.ndim), *range(1, 1 + window.rank))
                columns = view.transpose(order).reshape(groups, terms, math.prod(target.shape[1:]))
                target[...] = np.matmul(matrix, columns).reshape(target.shape)
        return [narrow(result.astype(np.int64) if self.dtype == S32 else result, out.dtype)]

    def get_gflop(self) -> float:
        """Two operations per multiply-add."""
        terms = math.prod(self.weight_dims(self.inputs[1].details)[1:])
        return 2.0 * self.outputs[0].details.typical.elements * terms / 1e9

    def computation(self) -> Computation:
        """The sum over the channels of a group and the window, zero outside the image."""
        x, w = (i.details for i in self.inputs)
        window, dtype = self.window, self.dtype or x.dtype.accumulator
        dims = self.weight_dims(w)
        inner, per_group = dims[1], dims[0] // self.groups
        op_name = "and" if dtype.kind == "bool" else "mul"

        def element(reads: Sequence[Read], index: Index, r: Index) -> Expr:
            batch, output, *positions = index
            channel = r[0]
            if self.groups > 1:
                channel = output // per_group * inner + channel
            zero = window.load(
                reads[0], (batch, channel), tuple(positions), r[1:], x.plain_dims[2:], _zero
            )
            position: Index = (output,)
            if w.rank > len(dims):
                position = (output // per_group, output % per_group)
            weight = t.cast(reads[1]((*position, *r)), dtype)
            return t.binary(op_name, t.cast(zero, dtype), weight)

        def finish(acc: Expr) -> Expr:
            return acc if acc.dtype == dtype else Cast(acc, dtype)

        combine = "or" if dtype.kind == "bool" else "add"
        identity = False if combine == "or" else 0
        return Reduction(dims[1:], combine, identity, element, finish)


def _zero(value: Expr) -> Expr:
    return t.const(0, value.dtype)


def checked_operands(
    op: Op, inputs: Sequence[LogicalTensor]
) -> tuple[LogicalTensor, LogicalTensor]:
    """x and w, of one rank, which is at least 3."""
    x, w = inputs
    if x.rank < 3 or w.rank != x.rank:
        raise op.rule(
            "x and w must have a common rank: two axes and at least one spatial axis",
            f"{x} and {w}",
        )
    return x, w


@register("im2col")
class Im2col(KernelWindow, Movement):
    """Copy x [N, C, sizes...] to [N, C, kernel..., positions...]: the input elements under each position of the window.

    Padding is zeros.
    """

    x = Operand("[N, C, sizes...]")

    def result_dims(self, inputs: Sequence[LogicalTensor]) -> tuple[int, ...]:
        """Leading axes, window axes, window positions."""
        window, dims = self.window, inputs[0].plain_dims
        lead = len(dims) - window.rank
        return (*dims[:lead], *window.kernel, *window.output_sizes(dims[lead:]))

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The strided view, copied."""
        window = self.window
        view = window.view(inputs[0], 0)
        lead = view.ndim - 2 * window.rank
        middle = lead + window.rank
        order = (*range(lead), *range(middle, view.ndim), *range(lead, middle))
        return [np.ascontiguousarray(view.transpose(order))]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The element the window sees, or zero."""
        window, dims = self.window, self.inputs[0].details.plain_dims
        lead = len(dims) - window.rank
        r, positions = index[lead : lead + window.rank], index[lead + window.rank :]
        return window.load(reads[0], index[:lead], positions, r, dims[lead:], _zero)


@register("depthwise_convolution")
class DepthwiseConvolution(Convolution, TunableOp):
    """A `convolution` over one or two spatial axes, one result per channel, run by `templates.channel_windows`
    or `templates.row_windows`.

    Floats, or bytes with s32 sums; with dtype=f32 also bytes by f32.
    """

    def result_dtype(self, x: LogicalTensor, w: LogicalTensor) -> DType:
        """f32 for bytes by f32, if that is requested; else as of every convolution."""
        if self.dtype == w.dtype == F32 and is_byte(x.dtype):
            return F32
        return super().result_dtype(x, w)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, C, positions...]."""
        found = super().infer(inputs)
        x, w = inputs
        if not self.groups == x.plain_dims[1] == w.plain_dims[0]:
            raise self.rule(
                "there must be as many groups as channels and results",
                f"{self.groups} groups of {x.plain_dims[1]} and {w.plain_dims[0]} channels",
            )
        return found


@register("direct_convolution")
class DirectConvolution(Convolution, TunableOp):
    """A `convolution` over one or two spatial axes, run by `templates.convolution`: floats, or bytes by signed bytes.

    With more than one group w is [groups, O / groups, C / groups, kernel...], so that each has its own panels.
    """

    def weight_dims(self, w: LogicalTensor) -> tuple[int, ...]:
        """[O, C / groups, kernel...], the groups joined."""
        if self.groups == 1:
            return w.plain_dims
        groups, outputs, *rest = w.plain_dims
        return (groups * outputs, *rest)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """[N, O, positions...]."""
        if self.groups == 1 or len(inputs) != 2:
            return super().infer(inputs)
        x, w = inputs
        if w.rank != x.rank + 1 or w.plain_dims[0] != self.groups:
            raise self.rule(
                "w of several groups must be [groups, O / groups, C / groups, kernel...]",
                f"{w} for {self.groups} groups and x {x}",
                "reshape it",
            )
        return super().infer([x, LogicalTensor(w.dtype, self.weight_dims(w))])

    @property
    def result_holds_sums(self) -> bool:
        """Partial sums are kept in the result, where its type is that of the operands and of their sums."""
        return self.contraction.a == self.contraction.accumulator
