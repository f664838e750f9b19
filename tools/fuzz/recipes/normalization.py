"""Normalizations as one op."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....graph_ir.ir.graph import GraphTensor
from ..scope import Scope
from .reductions import one_axis


def epsilon(scope: Scope) -> dict[str, Any]:
    """The attribute, or nothing."""
    return {"epsilon": scope.random.choice((1e-3, 1e-6))} if scope.chance(0.4) else {}


def over_last(scope: Scope, name: str, most: int) -> None:
    """layer_norm or rms_norm with up to `most` parameters."""
    x = scope.any(("float",), 1)
    axis = -1 if scope.chance(0.7) else one_axis(scope, x.details.rank)
    dims = x.details.plain_dims[axis:]
    count = scope.random.randint(0, most)
    parameters = [scope.weight(x.details.dtype, dims) for _ in range(count)]
    scope.make(name, [x, *parameters], axis=axis, **epsilon(scope))


def by_channel(scope: Scope, name: str) -> None:
    """group_norm or instance_norm."""
    x = scope.any(("float",), 2)
    channels = x.details.plain_dims[1]
    attrs = epsilon(scope)
    if name == "group_norm":
        divisors = [g for g in (1, 2, 3, 4, channels) if g and channels % g == 0]
        attrs["groups"] = scope.random.choice(divisors)
    count = scope.random.choice((0, 1, 2, 2))
    scope.make(name, [x, *_channels(scope, x, 1, count)], **attrs)


def batch_norm(scope: Scope) -> None:
    """Given statistics, the variance positive."""
    x = scope.any(("float",), 2)
    axis = 1 if scope.chance(0.7) else one_axis(scope, x.details.rank)
    scale, bias, mean, variance = _channels(scope, x, axis, 4)
    variance = scope.one("abs", variance)
    attrs = epsilon(scope)
    if axis != 1:
        attrs["axis"] = axis
    scope.make("batch_norm", [x, scale, bias, mean, variance], **attrs)


def _channels(scope: Scope, x: GraphTensor, axis: int, count: int) -> list[GraphTensor]:
    dims = (x.details.plain_dims[axis],)
    return [scope.weight(x.details.dtype, dims) for _ in range(count)]


RECIPES: dict[str, Callable[[Scope], None]] = {
    "layer_norm": partial(over_last, name="layer_norm", most=2),
    "rms_norm": partial(over_last, name="rms_norm", most=1),
    "group_norm": partial(by_channel, name="group_norm"),
    "instance_norm": partial(by_channel, name="instance_norm"),
    "batch_norm": batch_norm,
}
