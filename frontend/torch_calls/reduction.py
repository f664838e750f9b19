"""Reductions over axes, statistics, and indices of the largest and smallest elements."""

from __future__ import annotations

import math

from ...base.dtypes import F32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.factorizations import matrix_norm
from ..correspondence.compositions.numpy_names import covariance
from ..correspondence.compositions.reduction import lp_norm
from .arithmetic import FUNCTIONS, as_float, logical
from .call import Call, Results, Value, shown


def _axes(node: Call, rank: int) -> tuple[int, ...]:
    """The reduced axes, sorted: all of them where dim is absent or empty."""
    given = node.attr_ints("dim", ())
    axes = [node.axis(axis, rank) for axis in given]
    if len(set(axes)) != len(axes):
        raise node.rule("dims must be distinct", str(given))
    if not rank:
        return ()
    return tuple(sorted(axes)) if axes else tuple(range(rank))


def _reduced(node: Call, op_name: str, x: GraphTensor) -> GraphTensor:
    axes = _axes(node, x.details.rank)
    return node.make(op_name, x, axes=axes, keep_dims=node.attr_bool("keepdim", False))


def _read_reduce(node: Call, op_name: str) -> Value:
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


def _read_extreme(node: Call, op_name: str) -> Results:
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


def _read_arg(node: Call, search: str) -> Value:
    x = node.tensor_of()
    keep, has_axis = node.attr_bool("keepdim", False), node.given("dim")
    if not x.details.rank:
        return node.constant(0, S64)
    if has_axis:
        return node.make(
            search, x, axis=node.axis(node.attr_int("dim"), x.details.rank), keep_dims=keep
        )
    index = node.make(search, node.reshaped(x, (x.details.elements,)), axis=0, keep_dims=False)
    return node.reshaped(index, (1,) * x.details.rank if keep else ())


def _read_norm(node: Call, _: str) -> Value:
    """`p` is a number, inf, or the word fro."""
    x = node.tensor_of()
    if node.argument("p") == "nuc":
        raise node.unsupported("p=nuc", "use torch.linalg.matrix_norm")
    p = 2.0 if node.argument("p") == "fro" else node.attr_float("p", 2.0)
    return lp_norm(node, x, p, _axes(node, x.details.rank), node.attr_bool("keepdim", False))


def _read_linalg_norm(node: Call, _: str) -> Value:
    """Norms of vectors, of all elements, or of matrices: where two axes are given, or an order and a matrix."""
    x, order = node.tensor_of("input", node.dtype()), node.argument("ord")
    axes, keep = _axes(node, x.details.rank), node.attr_bool("keepdim", False)
    is_default = order in (None, "fro")
    if len(axes) != 2 or is_default:
        if len(axes) > 2 and not is_default:
            raise node.unsupported(f"ord={shown(order)} over {len(axes)} axes")
        return lp_norm(node, x, 2.0 if is_default else node.attr_float("ord"), axes, keep)
    if order != "nuc" and abs(node.attr_float("ord")) not in (1, 2, math.inf):
        raise node.rule("ord must be fro, nuc, inf, 1, 2 or one of these negated", shown(order))
    dims = x.details.plain_dims
    given = [node.axis(axis, len(dims)) for axis in node.attr_ints("dim", axes)]
    others = [axis for axis in range(len(dims)) if axis not in given]
    matrices = node.transposed(x, (*others, *given))
    norm = matrix_norm(node, matrices, "nuc" if order == "nuc" else node.attr_float("ord"))
    shape = [1 if axis in given else dims[axis] for axis in range(len(dims))]
    return node.reshaped(norm, shape) if keep else norm


def _read_covariance(node: Call, _: str) -> Value:
    """Covariances by counts or weights of the columns, either of which may be absent."""
    x = as_float(node, node.operand())
    counts, weights = (node.optional(f"{letter}weights", x.details.dtype) for letter in "fa")
    return covariance(node, x, counts, weights, node.attr_int("correction", 1))


READS = {
    "reduce": _read_reduce, "norm": _read_norm, "linalg_norm": _read_linalg_norm, "arg": _read_arg,
    "extreme": _read_extreme, "covariance": _read_covariance,
}  # fmt: skip
