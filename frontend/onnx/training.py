"""One step of an optimizer, as graphs of training hold it: ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext

Step = Callable[["Formula", GraphTensor, GraphTensor, list[GraphTensor]], list[Value]]
"""(arithmetic, the tensor, its gradient, what is accumulated) -> the new tensor and what is accumulated then."""


class Formula:
    """Arithmetic on tensors and numbers, in the type of the gradient, at one step."""

    def __init__(self, node: NodeContext) -> None:
        self.node = node
        self.rate, self.count = node.tensor(0), node.tensor(1)
        if self.rate.details.elements != 1 or self.count.details.elements != 1:
            given = f"{self.rate.details} and {self.count.details}"
            raise node.rule("the rate and the number of steps must be scalars", given)

    def __call__(self, op: str, a: GraphTensor, b: GraphTensor | float) -> GraphTensor:
        """A binary op."""
        other = b if isinstance(b, GraphTensor) else self.node.constant(b, a.details.dtype)
        return self.node.helper(op, a, other)

    def number(self, name: str, default: float = 0.0) -> float:
        """An attribute."""
        return self.node.attr_float(name, default)

    def scalar(self, x: GraphTensor, like: GraphTensor) -> GraphTensor:
        """The rate, or the number of steps, in another tensor's type, without axes."""
        return self.node.reshaped(self.node.converted(x, like.details.dtype), ())

    def first(self, then: GraphTensor, otherwise: GraphTensor) -> GraphTensor:
        """One value at the first step and another later."""
        count = self.node.reshaped(self.count, ())
        later = self.node.helper("gt", self.node.converted(count, S64), self.node.constant(0, S64))
        return self.node.helper("select", later, otherwise, then)

    def root(self, x: GraphTensor) -> GraphTensor:
        """The square root."""
        return self.node.helper("sqrt", x)

    def regularized(self, x: GraphTensor, gradient: GraphTensor) -> GraphTensor:
        """The gradient with that of half the squared norm."""
        weight = self.number("norm_coefficient")
        return self("add", self("mul", x, weight), gradient) if weight else gradient


def _adagrad(
    f: Formula, x: GraphTensor, gradient: GraphTensor, kept: list[GraphTensor]
) -> list[Value]:
    g = f.regularized(x, gradient)
    squares = f("add", kept[0], f("mul", g, g))
    decay = f("add", f("mul", f.scalar(f.count, x), f.number("decay_factor")), 1.0)
    rate = f("div", f.scalar(f.rate, x), decay)
    size = f("add", f.root(squares), f.number("epsilon", 1e-6))
    return [f("sub", x, f("div", f("mul", g, rate), size)), squares]


def _adam(
    f: Formula, x: GraphTensor, gradient: GraphTensor, kept: list[GraphTensor]
) -> list[Value]:
    alpha, beta = f.number("alpha", 0.9), f.number("beta", 0.999)
    g = f.regularized(x, gradient)
    mean = f("add", f("mul", kept[0], alpha), f("mul", g, 1 - alpha))
    squares = f("add", f("mul", kept[1], beta), f("mul", f("mul", g, g), 1 - beta))
    rate, steps = f.scalar(f.rate, x), f.scalar(f.count, x)
    one = f.node.constant(1.0, x.details.dtype)
    left = [
        f("sub", one, f("pow", f.node.constant(base, x.details.dtype), steps))
        for base in (alpha, beta)
    ]
    rate = f.first(rate, f("div", f("mul", rate, f.root(left[1])), left[0]))
    size = f("add", f.root(squares), f.number("epsilon", 1e-6))
    moved = f("sub", x, f("div", f("mul", mean, rate), size))
    after = f.number("norm_coefficient_post")
    return [f("mul", moved, 1 - after) if after else moved, mean, squares]


def _momentum(
    f: Formula, x: GraphTensor, gradient: GraphTensor, kept: list[GraphTensor]
) -> list[Value]:
    mode, alpha = f.node.attr_text("mode"), f.node.attr_float("alpha")
    if mode not in ("standard", "nesterov"):
        raise f.node.rule("mode must be standard or nesterov", f"'{mode}'")
    g = f.regularized(x, gradient)
    scaled = f.first(g, f("mul", g, f.node.attr_float("beta")))
    speed = f("add", f("mul", kept[0], alpha), scaled)
    way = speed if mode == "standard" else f("add", g, f("mul", speed, alpha))
    return [f("sub", x, f("mul", way, f.scalar(f.rate, x))), speed]


def _each(step: Step, kinds: int) -> Handler:
    """The step for every tensor; inputs and outputs are grouped by kind: tensors, gradients, what is accumulated."""

    def handler(node: NodeContext) -> list[Value]:
        count, rest = divmod(node.count - 2, kinds)
        if rest or count < 1:
            raise node.rule(f"there must be {kinds} inputs for each tensor", f"{node.count - 2}")
        formula = Formula(node)
        results = []
        for first in range(2, 2 + count):
            x, gradient, *kept = (node.tensor(first + kind * count) for kind in range(kinds))
            results.append(step(formula, x, gradient, kept))
        return [values[kind] for kind in range(kinds - 1) for values in results]

    return handler


HANDLERS: dict[str, Handler] = {
    "ai.onnx.preview.training::Adagrad": _each(_adagrad, 3),
    "ai.onnx.preview.training::Adam": _each(_adam, 4),
    "ai.onnx.preview.training::Momentum": _each(_momentum, 3),
}
