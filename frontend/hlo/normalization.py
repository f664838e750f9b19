"""batch-norm-inference, -training and -grad, as arithmetic."""

from __future__ import annotations

import math
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, Step
from .shapes import HLO_NAMES, Shape
from .values import fits


class _Features:
    """The operand of a batch norm and its feature axis."""

    def __init__(self, step: Step, *wanted: str) -> None:
        """Check operands against the shape of x, or that of one value per feature: `wanted` are "x" and "feature"."""
        self.step = step
        self.x, *others = step.tensors(len(wanted) + 1)
        self.axis: int = step.attribute("feature_index")
        dims, type_ = self.x.details.plain_dims, HLO_NAMES[self.x.details.dtype]
        if not 0 <= self.axis < len(dims):
            raise step.rule(
                f"feature_index must be an axis of {step.shown(self.x)}", str(self.axis)
            )
        shapes = {"x": Shape(type_, dims), "feature": Shape(type_, (dims[self.axis],))}
        for index, (word, other) in enumerate(zip(wanted, others, strict=True), 1):
            if not fits(shapes[word], other):
                raise step.rule(
                    f"operand {index} must be {shapes[word].logical()}", step.shown(other)
                )
        self.others = tuple(i for i in range(len(dims)) if i != self.axis)
        self.shape = tuple(size if i == self.axis else 1 for i, size in enumerate(dims))
        self.count = math.prod(dims[i] for i in self.others)

    def wide(self, x: GraphTensor) -> GraphTensor:
        """One value for each feature, in a shape that broadcasts to the operand's."""
        return self.step.reshaped(x, self.shape)

    def sum(self, x: GraphTensor) -> GraphTensor:
        """The sum over all axes but the features'."""
        return self.step.make("reduce_sum", x, axes=self.others, keep_dims=False)

    def mean(self, x: GraphTensor) -> GraphTensor:
        """The mean over all axes but the features'."""
        return self.step.make("reduce_mean", x, axes=self.others, keep_dims=False)

    def scalar(self, value: float) -> GraphTensor:
        """A constant of the operand's type."""
        return self.step.constant(value, self.x.details.dtype)

    def inverse_deviation(self, variance: GraphTensor) -> GraphTensor:
        """1 / sqrt(variance + epsilon)."""
        epsilon = self.scalar(self.step.attribute("epsilon"))
        return self.step.make("rsqrt", self.step.make("add", variance, epsilon))

    def normal(
        self, scale: GraphTensor, offset: GraphTensor, mean: GraphTensor, variance: GraphTensor
    ) -> GraphTensor:
        """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
        make = self.step.make
        factor = make("mul", self.inverse_deviation(variance), scale)
        centered = make("sub", self.x, self.wide(mean))
        return make("add", make("mul", centered, self.wide(factor)), self.wide(offset))


def _inference(step: Step) -> GraphTensor:
    features = _Features(step, *["feature"] * 4)
    return features.normal(*step.tensors()[1:])


def _training(step: Step) -> Any:
    """(y, mean, biased variance)."""
    features = _Features(step, "feature", "feature")
    mean = features.mean(features.x)
    centered = step.make("sub", features.x, features.wide(mean))
    variance = features.mean(step.make("mul", centered, centered))
    scale, offset = step.tensors()[1:]
    return features.normal(scale, offset, mean, variance), mean, variance


def _gradient(step: Step) -> Any:
    """(gradient of x, of scale, of offset)."""
    features = _Features(step, "feature", "feature", "feature", "x")
    scale, mean, variance, dy = step.tensors()[1:]
    inverse = features.inverse_deviation(variance)
    centered = step.make("sub", features.x, features.wide(mean))
    dot = features.sum(step.make("mul", dy, centered))
    d_offset = features.sum(dy)
    count = features.scalar(features.count)
    # The components of dy along the mean and the deviation have no effect on y.
    square = step.make("mul", inverse, inverse)
    lean = step.make("mul", centered, features.wide(step.make("mul", square, dot)))
    rest = step.make("sub", step.make("mul", dy, count), features.wide(d_offset))
    factor = step.make("div", step.make("mul", scale, inverse), count)
    dx = step.make("mul", step.make("sub", rest, lean), features.wide(factor))
    return dx, step.make("mul", dot, inverse), d_offset


HANDLERS: dict[str, Handler] = {
    "batch-norm-inference": _inference,
    "batch-norm-training": _training,
    "batch-norm-grad": _gradient,
}
