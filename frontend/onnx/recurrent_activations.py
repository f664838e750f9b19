"""The activations that LSTM, GRU and RNN name in attributes, with their parameters."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.recurrent import Bend
from ..op_builder import OpBuilder, like
from .scope import NodeContext

_PLAIN = ("relu", "tanh", "sigmoid", "softsign", "softplus")

_DEFAULTS: dict[str, dict[str, float]] = {
    "leakyrelu": {"alpha": 0.01},
    "thresholdedrelu": {"alpha": 1.0},
    "elu": {"alpha": 1.0},
    "hardsigmoid": {"alpha": 0.2, "beta": 0.5},
    "affine": {"alpha": 1.0, "beta": 0.0},
    "scaledtanh": {"alpha": 1.0, "beta": 1.0},
}
_OPS = {"leakyrelu": "leaky_relu", "elu": "elu", "hardsigmoid": "hard_sigmoid"}
"""Activations that are ops with the same parameters."""


def activations_of(
    node: NodeContext, defaults: tuple[str, ...], directions: int
) -> list[list[Bend]]:
    """The activations of each direction. Parameters are assigned, in order, to those that take them."""
    names = node.attr_texts("activations") or defaults * directions
    if len(names) != len(defaults) * directions:
        raise node.rule(
            f"activations must name {len(defaults) * directions} functions", str(list(names))
        )
    given = {
        name: iter(node.attr_floats(f"activation_{name}"))
        if node.given(f"activation_{name}")
        else iter(())
        for name in ("alpha", "beta")
    }
    found = [_activation(node, name, given) for name in names]
    count = len(defaults)
    return [found[i * count : (i + 1) * count] for i in range(directions)]


def _activation(node: NodeContext, name: str, given: dict[str, Iterator[float]]) -> Bend:
    key = name.lower()
    if key in _PLAIN:
        return lambda build, x: build.helper(key, x)
    if key not in _DEFAULTS:
        known = ", ".join((*_PLAIN, *_DEFAULTS))
        raise node.rule(f"activations must be among {known}", f"'{name}'")
    values = {n: next(given[n], default) for n, default in _DEFAULTS[key].items()}
    if key in _OPS:
        return lambda build, x: build.helper(_OPS[key], x, **values)
    return lambda build, x: _composed(build, key, x, *(like(build, v, x) for v in values.values()))


def _composed(
    build: OpBuilder, key: str, x: GraphTensor, alpha: GraphTensor, *beta: GraphTensor
) -> GraphTensor:
    if key == "affine":
        return build.helper("add", build.helper("mul", x, alpha), *beta)
    if key == "scaledtanh":
        return build.helper("mul", alpha, build.helper("tanh", build.helper("mul", *beta, x)))
    above = build.helper("ge", x, alpha)  # thresholdedrelu
    return build.helper("select", above, x, like(build, 0, x))
