"""Reductions over axes, statistics, and indices of the largest and smallest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import F32, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.compositions.reduction import lp_norm
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from .arithmetic import FUNCTIONS, logical
from .export import WORDS, Exporter
from .scope import Node, Results, Value


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


def _read_extreme(node: Node, op_name: str) -> Results:
    """torch.max and torch.min: of two tensors, of all elements, or along a dim with the indices of the extremes."""
    name = op_name.removeprefix("reduce_")
    if node.given("other"):
        return FUNCTIONS[name](node, node.operand(), node.operand("other"))
    x = node.tensor_of()
    values = _reduced(node, op_name, x)
    if node.count == 1:
        return values
    axis = node.axis(node.attr_int("dim"), x.details.rank)
    if not x.details.rank:
        return values, node.constant(0, S64)
    keep = node.attr_bool("keepdim", False)
    return values, node.helper(f"arg_{name}", x, axis=axis, keep_dims=keep)


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
    """`p` is a number, inf, or the word fro."""
    x = node.tensor_of()
    if node.argument("p") == "nuc":
        raise node.unsupported("p=nuc")
    p = 2.0 if node.argument("p") == "fro" else node.attr_float("p", 2.0)
    return lp_norm(node, x, p, _axes(node, x.details.rank), node.attr_bool("keepdim", False))


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
    "extreme": Pair(_read_extreme),
}
"""Functions that read and write cells a row cannot express, by the name after `by`."""
