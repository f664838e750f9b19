"""Reductions over axes, statistics, and indices of the largest and smallest elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...base.dtypes import F32, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from .arithmetic import FUNCTIONS, logical
from .export import WORDS, Exporter
from .scope import Handler, Node, Value


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    """The reduced axes, sorted: all of them where dim is absent or empty."""
    given = node.attr_ints("dim", ())
    axes = [node.axis(axis, rank) for axis in given]
    if len(set(axes)) != len(axes):
        raise node.rule("dims must be distinct", str(given))
    if not rank:
        return ()
    return tuple(sorted(axes)) if axes else tuple(range(rank))


def _reduced(node: Node, op_name: str, x: GraphTensor) -> GraphTensor:
    axes = _axes(node, x.details.rank)
    return node.make(op_name, x, axes=axes, keep_dims=node.attr_bool("keepdim", False))


def _read_reduce(node: Node, op_name: str) -> Value:
    """Small integers and bools are added up and multiplied as s64."""
    wanted = node.dtype()
    if op_name in ("reduce_any", "reduce_all"):
        return _reduced(node, op_name, logical(node, node.operand()))
    x = node.tensor_of()
    dtype = wanted or x.details.dtype
    if wanted is None and op_name in ("reduce_sum", "reduce_prod") and not dtype.is_float:
        dtype = S64
    if op_name == "reduce_log_sum_exp" and not dtype.is_float:
        dtype = F32
    if op_name == "reduce_mean" and not dtype.is_float:
        raise node.rule("the input must be a float", str(x.details), "give dtype=torch.float")
    return _reduced(node, op_name, node.converted(x, dtype))


def _extreme(name: str) -> Callable[[Node], Value | tuple[Value, ...]]:
    """torch.max and torch.min: of two tensors, of all elements, or along a dim with the indices of the extremes."""
    op_name, search = f"reduce_{name}", f"arg_{name}"

    def run(node: Node) -> Value | tuple[Value, ...]:
        if node.given("other"):
            return FUNCTIONS[name](node, node.operand(), node.operand("other"))
        x = node.tensor_of()
        if node.count == 1:
            return _reduced(node, op_name, x)
        values = _reduced(node, op_name, x)
        axis = node.axis(node.attr_int("dim"), x.details.rank)
        keep = node.attr_bool("keepdim", False)
        return values, _places(node, search, x, axis, keep)

    return run


def _places(node: Node, search: str, x: GraphTensor, axis: int, keep: bool) -> GraphTensor:
    if not x.details.rank:
        return node.constant(0, S64)
    return node.helper(search, x, axis=axis, keep_dims=keep)


def _read_arg(node: Node, search: str) -> Value:
    x = node.tensor_of()
    if not x.details.rank:
        return node.constant(0, S64)
    keep = node.attr_bool("keepdim", False)
    if node.given("dim"):
        return node.make(
            search, x, axis=node.axis(node.attr_int("dim"), x.details.rank), keep_dims=keep
        )
    place = node.make(search, node.reshaped(x, (x.details.elements,)), axis=0, keep_dims=False)
    return node.reshaped(place, (1,) * x.details.rank if keep else ())


def _read_norm(node: Node, _: str) -> Value:
    power = node.argument("p", 2)
    if power in (1, 1.0):
        return _reduced(node, "reduce_l1", node.tensor_of())
    if power in (2, 2.0, "fro"):
        return _reduced(node, "reduce_l2", node.tensor_of())
    if power == "nuc":
        raise node.unsupported("p=nuc")
    x = node.tensor_of()
    axes, keep = _axes(node, x.details.rank), node.attr_bool("keepdim", False)
    return power_norm(node, x, node.attr_float("p", 2.0), axes, keep)


def power_norm(
    node: Node, x: GraphTensor, power: float, axes: tuple[int, ...], keep: bool
) -> GraphTensor:
    """(sum of |x| ** power) ** (1 / power), in f32 for 16-bit floats; the extreme of |x| for +-inf, a count for 0."""
    dtype = x.details.dtype
    if not dtype.is_float:
        raise node.rule("the input must be a float", str(x.details))
    size = node.helper("abs", node.converted(x, dtype.accumulator))
    wide, over = size.details.dtype, {"axes": axes, "keep_dims": keep}
    if math.isinf(power):
        return node.converted(
            node.make("reduce_max" if power > 0 else "reduce_min", size, **over), dtype
        )
    if not power:
        other = node.converted(node.helper("ne", size, node.constant(0, wide)), wide)
        return node.converted(node.make("reduce_sum", other, **over), dtype)
    powers = node.helper("pow", size, node.constant(power, wide))
    total = node.helper("reduce_sum", powers, **over)
    return node.converted(node.make("pow", total, node.constant(1 / power, wide)), dtype)


def _spread(is_root: bool) -> Callable[[Node], Value]:
    """Variance or standard deviation, in f32 for 16-bit floats."""

    def run(node: Node) -> Value:
        x = node.tensor_of()
        dtype = x.details.dtype
        wide = node.converted(x, dtype.accumulator)
        axes = _axes(node, x.details.rank)
        correction = (
            node.attr_float("correction", 1)
            if node.given("correction")
            else node.attr_bool("unbiased", True)
        )
        keep = node.attr_bool("keepdim", False)
        centered = node.helper(
            "sub", wide, node.helper("reduce_mean", wide, axes=axes, keep_dims=True)
        )
        total = node.helper(
            "reduce_sum", node.helper("square", centered), axes=axes, keep_dims=keep
        )
        count = 1
        for axis in axes:
            count *= x.details.plain_dims[axis]
        divisor = node.constant(max(count - correction, 0), wide.details.dtype)
        variance = node.helper("div", total, divisor)
        return node.converted(node.make("sqrt", variance) if is_root else variance, dtype)

    return run


def _spread_and_mean(is_root: bool) -> Callable[[Node], tuple[Value, ...]]:
    spread = _spread(is_root)

    def run(node: Node) -> tuple[Value, ...]:
        x = node.tensor_of()
        over = {"axes": _axes(node, x.details.rank), "keep_dims": node.attr_bool("keepdim", False)}
        value = spread(node)
        return value, node.helper("reduce_mean", x, **over)

    return run


def _both_extremes(node: Node) -> tuple[Value, ...]:
    x = node.tensor_of()
    over = {"axes": _axes(node, x.details.rank), "keep_dims": node.attr_bool("keepdim", False)}
    return tuple(node.helper(f"reduce_{name}", x, **over) for name in ("min", "max"))


def _write_reduce(e: Exporter, op: Op, type_name: str) -> str:
    x, axes, keep = op.inputs[0].details, op.axes, op.attr("keep_dims")  # type: ignore[attr-defined]
    params: dict[str, Any] = {"dim": axes, "keepdim": keep}
    if type_name in ("torch.sum", "torch.prod") and not x.dtype.is_float and x.dtype != S64:
        params["dtype"] = WORDS[x.dtype.name]
    if type_name == "torch.norm":
        params["p"] = 1 if op.op_name == "reduce_l1" else 2
    if not axes and x.rank:
        raise InexpressibleError(f"{op.op_name} over no axes")
    if type_name == "torch.prod":
        if len(axes) > 1:
            return _product_axis_by_axis(e, op, axes, keep, params)
        params["dim"] = axes[0] if axes else None
    return e.call(op, type_name, **params)


def _product_axis_by_axis(
    e: Exporter, op: Op, axes: Sequence[int], keep: bool, params: dict[str, Any]
) -> str:
    """torch.prod takes one dim: reduce the last one first, so that the others keep their numbers."""
    x = op.inputs[0].details
    operand, dims = e.operand(op.inputs[0]), list(x.plain_dims)
    for axis in reversed(axes):
        dims[axis : axis + 1] = [1] if keep else []
        result = LogicalTensor(x.dtype, tuple(dims))
        operand = e.append("torch.prod", op.name, [operand], result, {**params, "dim": axis})
    return operand


PAIRS = {
    "reduce": Pair(_read_reduce, _write_reduce),
    "norm": Pair(_read_norm, _write_reduce),
    "arg": Pair(_read_arg),
}
"""Functions that read and write cells a row cannot express, by the name after `by`."""

_SPREAD = ("input", "dim", "unbiased", "keepdim")

_BY_NAME: dict[str, Handler] = {
    "std": Handler(_spread(is_root=True)),
    "var": Handler(_spread(is_root=False)),
    "std_mean": Handler(_spread_and_mean(is_root=True), _SPREAD),
    "var_mean": Handler(_spread_and_mean(is_root=False), _SPREAD),
    "aminmax": Handler(_both_extremes, ("input", "dim", "keepdim")),
    "max": Handler(_extreme("max"), ("input", "other")),
    "min": Handler(_extreme("min"), ("input", "other")),
}

HANDLERS: dict[str, Handler] = {
    f"{prefix}.{name}": handler
    for prefix in ("torch", "Tensor")
    for name, handler in _BY_NAME.items()
} | {f"aten::{name}": _BY_NAME[name] for name in ("std_mean", "var_mean", "aminmax")}
"""Operators of this family."""
