"""Normalizations: layer_norm, rms_norm, group_norm, instance_norm and batch_norm with given statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..ir.attributes import FloatAttr, IntAttr
from ..ir.axis_attributes import AxisAttr
from ..ir.graph import Array, Graph, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import CompositeOp
from ..ir.operands import Operand, OptionalOperand
from ..ir.reference import narrow, widen
from ..ir.registry import register
from .compose import Composer


class Normalization(CompositeOp):
    """Base: (x - mean) / sqrt(variance + epsilon) * scale + bias, computed in f32 for 16-bit floats.

    All operands have x's dtype.
    """

    operations: ClassVar[int] = 8  # two sums, subtract, square, multiply, scale, bias and the root
    epsilon = FloatAttr("added to the variance", default=1e-5)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """x's dtype and shape."""
        x = inputs[0]
        if not x.dtype.is_float or any(other.dtype != x.dtype for other in inputs):
            given = " and ".join(str(other.dtype) for other in inputs)
            raise self.rule("inputs must have one float dtype", given, "insert a cast")
        self.check_shapes(inputs)
        return super().infer(inputs)

    def check_shapes(self, inputs: Sequence[LogicalTensor]) -> None:
        """Raise UserError unless the shapes fit."""

    def _narrowed(self, value: Any) -> list[Array]:
        return [narrow(value, self.outputs[0].details.dtype)]


def _mean(x: Array, axes: tuple[int, ...]) -> Any:
    """np.mean that gives NaN over nothing without a warning."""
    count = math.prod(x.shape[axis] for axis in axes)
    return np.sum(x, axis=axes, keepdims=True) / np.float64(count)


def _normalized(x: Array, axes: tuple[int, ...], epsilon: float) -> Any:
    centered = x - _mean(x, axes)
    return centered / np.sqrt(_mean(np.square(centered), axes) + epsilon)


def _standardize(
    make: Composer, x: GraphTensor, axes: tuple[int, ...], epsilon: float, center: bool = True
) -> GraphTensor:
    """(x - mean) * rsqrt(mean of squares + epsilon) over `axes`; without `center` the mean is not subtracted."""
    if center:
        x = make("sub", x, make("reduce_mean", x, axes=axes, keep_dims=True))
    variance = make("reduce_mean", make("square", x), axes=axes, keep_dims=True)
    shifted = make("add", variance, make.scalar(epsilon, x.details.dtype))
    return make("mul", x, make("rsqrt", shifted))


def _affine(make: Composer, x: GraphTensor, parameters: Sequence[GraphTensor]) -> GraphTensor:
    """x * scale + bias, as far as they are given."""
    for op_name, tensor in zip(("mul", "add"), parameters, strict=False):
        x = make(op_name, x, make.widened(tensor))
    return x


@register("layer_norm")
class LayerNorm(Normalization):
    """Mean and variance over the axes from `axis` on; scale and bias broadcast to x."""

    x = Operand()
    scale = OptionalOperand()
    bias = OptionalOperand()
    axis = AxisAttr("first of the normalized axes", default=-1)
    center: ClassVar[bool] = True

    @property
    def axes(self) -> tuple[int, ...]:
        """The normalized axes."""
        return tuple(range(self.axis, self.x.details.rank))

    def check_shapes(self, inputs: Sequence[LogicalTensor]) -> None:
        """The parameters broadcast to x."""
        x = inputs[0]
        for index, other in enumerate(inputs[1:], 1):
            if not _broadcasts(other.plain_dims, x.plain_dims):
                raise self.rule(f"{self.input_name(index)} must broadcast to x", f"{other} and {x}")

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64."""
        x, *parameters = (widen(array) for array in inputs)
        with np.errstate(all="ignore"):
            if self.center:
                value = _normalized(x, self.axes, self.epsilon)
            else:
                value = x / np.sqrt(_mean(np.square(x), self.axes) + self.epsilon)
            value = value * parameters[0] if parameters else value
            value = value + parameters[1] if len(parameters) > 1 else value
        return self._narrowed(value)

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """Means, elementwise arithmetic and one rsqrt per row."""
        make = Composer(graph, self)
        x = make.widened(self.inputs[0])
        value = _standardize(make, x, self.axes, self.epsilon, self.center)
        value = _affine(make, value, self.inputs[1:])
        return [make.to(value, self.outputs[0].details.dtype)]


@register("rms_norm")
class RmsNorm(LayerNorm):
    """x / sqrt(mean(x**2) + epsilon) * scale over the axes from `axis` on."""

    x = Operand()
    scale = OptionalOperand()
    center: ClassVar[bool] = False


class _ChannelNormalization(Normalization):
    """Base: x [N, C, ...] normalized over runs of channels and all later axes; scale and bias [C]."""

    x = Operand("[N, C, ...]")
    scale = OptionalOperand("[C]")
    bias = OptionalOperand("[C]")

    def group_count(self, channels: int) -> int:
        """Number of groups the channels are split into."""
        raise NotImplementedError

    def check_shapes(self, inputs: Sequence[LogicalTensor]) -> None:
        """Channels split evenly; parameters have one element per channel."""
        _check_channels(self, inputs, 1)
        channels = inputs[0].plain_dims[1]
        groups = self.group_count(channels)
        if channels and (groups < 1 or channels % groups):
            raise self.rule("channels must split evenly into groups", f"C={channels} and {groups}")

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64."""
        x, *parameters = (widen(array) for array in inputs)
        with np.errstate(all="ignore"):
            value = _normalized(x.reshape(self._grouped()), (2,), self.epsilon).reshape(x.shape)
        shape = _channel_shape(x.shape, 1)
        value = value * parameters[0].reshape(shape) if parameters else value
        value = value + parameters[1].reshape(shape) if len(parameters) > 1 else value
        return self._narrowed(value)

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """A reshape to [N, groups, rest], layer norm of that, a reshape back, scale and bias.

        Where each channel is a group, scale and bias come before the reshape back: in the loop that normalizes.
        """
        make = Composer(graph, self)
        dims, inner = self.inputs[0].details.plain_dims, self._grouped()
        grouped = make("reshape", make.widened(self.inputs[0]), shape=inner)
        value = _standardize(make, grouped, (2,), self.epsilon)
        scaled = inner if inner[1] == dims[1] else dims
        if scaled is dims:
            value = make("reshape", value, shape=dims)
        shape = _channel_shape(scaled, 1)
        value = _affine(make, value, [make("reshape", p, shape=shape) for p in self.inputs[1:]])
        if scaled is inner:
            value = make("reshape", value, shape=dims)
        return [make.to(value, self.outputs[0].details.dtype)]

    def _grouped(self) -> tuple[int, int, int]:
        batch, channels, *space = self.inputs[0].details.plain_dims
        groups = self.group_count(channels)
        return batch, groups, (channels // groups if groups else 0) * math.prod(space)


@register("group_norm")
class GroupNorm(_ChannelNormalization):
    """x [N, C, ...] normalized over each of `groups` groups of channels and all later axes."""

    groups = IntAttr("runs of channels", default=1)

    def group_count(self, channels: int) -> int:
        """Return the number of groups, that of the attribute."""
        return self.groups


@register("instance_norm")
class InstanceNorm(_ChannelNormalization):
    """x [N, C, ...] normalized over all axes after the channel."""

    def group_count(self, channels: int) -> int:
        """Every channel is a group."""
        return channels


@register("batch_norm")
class BatchNorm(Normalization):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias with given statistics [C] of `axis`."""

    x = Operand()
    scale = Operand("[C]")
    bias = Operand("[C]")
    mean = Operand("[C]")
    variance = Operand("[C]")
    axis = AxisAttr("axis of the channels", default=1)

    def check_shapes(self, inputs: Sequence[LogicalTensor]) -> None:
        """The statistics and parameters have one element per channel."""
        _check_channels(self, inputs, self.axis)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64."""
        shape = _channel_shape(inputs[0].shape, self.axis)
        x = widen(inputs[0])
        scale, bias, mean, variance = (widen(array).reshape(shape) for array in inputs[1:])
        with np.errstate(all="ignore"):
            value = (x - mean) / np.sqrt(variance + self.epsilon) * scale + bias
        return self._narrowed(value)

    def decompose(self, graph: Graph) -> list[GraphTensor]:
        """x * a + b with a = scale * rsqrt(variance + epsilon), b = bias - mean * a, which fold when constant."""
        make = Composer(graph, self)
        x = make.widened(self.inputs[0])
        scale, bias, mean, variance = (make.widened(p) for p in self.inputs[1:])
        shifted = make("add", variance, make.scalar(self.epsilon, x.details.dtype))
        factor = make("mul", scale, make("rsqrt", shifted))
        offset = make("sub", bias, make("mul", mean, factor))
        shape = _channel_shape(x.details.plain_dims, self.axis)
        value = _affine(make, x, [make("reshape", p, shape=shape) for p in (factor, offset)])
        return [make.to(value, self.outputs[0].details.dtype)]


def _check_channels(op: Normalization, inputs: Sequence[LogicalTensor], axis: int) -> None:
    x = inputs[0]
    if x.rank < 2:
        raise op.rule("x must have a batch and a channel axis", str(x))
    for index, other in enumerate(inputs[1:], 1):
        if other.plain_dims != (x.plain_dims[axis],):
            name = op.input_name(index)
            raise op.rule(f"{name} must have shape [{x.plain_dims[axis]}]", str(other))


def _channel_shape(dims: Sequence[int], axis: int) -> tuple[int, ...]:
    """Shape that aligns a vector of channels with `axis`."""
    return tuple(size if i == axis else 1 for i, size in enumerate(dims))


def _broadcasts(dims: tuple[int, ...], target: tuple[int, ...]) -> bool:
    tail = target[len(target) - len(dims) :]
    return len(dims) <= len(target) and all(d in (1, s) for d, s in zip(dims, tail, strict=True))
