"""Elementwise functions of several ops, which PNNX keeps under their torch names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from .arithmetic import FUNCTIONS, as_float, promoted
from .promotion import Operand, result_dtype
from .scope import Handler, Node, Value

_LARGEST = {
    "f64": float(np.finfo(np.float64).max),
    "f32": float(np.finfo(np.float32).max),
    "f16": 65504.0,
    "bf16": 2.0**128 - 2.0**120,
}


def _add_product(op_name: str) -> Callable[[Node], Value]:
    """input + value * (tensor1 op tensor2)."""

    def run(node: Node) -> Value:
        product = FUNCTIONS[op_name](node.part(), node.operand("tensor1"), node.operand("tensor2"))
        scaled = FUNCTIONS["mul"](node.part(), product, node.number("value", 1))
        return FUNCTIONS["add"](node, node.operand(), scaled)

    return run


def _lerp(node: Node) -> Value:
    """start + weight * (end - start)."""
    part, start = node.part(), node.operand()
    gap = FUNCTIONS["sub"](part, node.operand("end"), start)
    step = FUNCTIONS["mul"](part, gap, node.operand("weight"))
    return FUNCTIONS["add"](node, start, step)


def _reversed_sub(node: Node) -> Value:
    product = FUNCTIONS["mul"](node.part(), node.operand(), node.number("alpha", 1))
    return FUNCTIONS["sub"](node, node.operand("other"), product)


def _hypot(node: Node) -> Value:
    """sqrt(x^2 + y^2), scaled by the larger operand so that squares do not overflow."""
    x, y = (as_float(node, z) for z in promoted(node, node.operand(), node.operand("other")))
    x, y = node.helper("abs", x), node.helper("abs", y)
    large, small = node.helper("max", x, y), node.helper("min", x, y)
    ratio = node.helper("div", small, large)
    one = node.constant(1, x.details.dtype)
    root = node.helper("sqrt", node.helper("add", one, node.helper("square", ratio)))
    length = node.helper("mul", large, root)
    plain = node.helper("eq", small, node.constant(0, x.details.dtype))  # 0 / 0 is not a number
    length = node.helper("select", plain, large, length)
    endless = node.helper("isinf", large)
    return node.make("select", endless, large, length)


def _exp2(node: Node) -> Value:
    x = as_float(node, node.operand())
    return node.make("pow", node.constant(2, x.details.dtype), x)


def _is_finite(node: Node) -> Value:
    x = as_float(node, node.operand())
    return node.make("not", node.helper("or", node.helper("isnan", x), node.helper("isinf", x)))


def _nan_to_num(node: Node) -> Value:
    """Replace NaN and infinities, by default with 0 and the largest numbers."""
    x = node.tensor_of()
    dtype = x.details.dtype
    if not dtype.is_float:
        return x
    most = _LARGEST[dtype.name]
    zero = node.constant(0, dtype)

    def given(name: str, default: float) -> GraphTensor:
        return node.constant(node.attr_float(name, default), dtype)

    endless = node.helper("isinf", x)
    positive = node.helper("gt", x, zero)
    replaced = node.helper("select", positive, given("posinf", most), given("neginf", -most))
    kept = node.helper("select", endless, replaced, x)
    return node.make("select", node.helper("isnan", x), given("nan", 0.0), kept)


def _one_hot(node: Node) -> Value:
    ids, count = node.tensor_of(), node.attr_int("num_classes", -1)
    if count < 0:
        raise node.unsupported("num_classes that the data decides")
    column = node.reshaped(ids, (*ids.details.plain_dims, 1))
    places = node.constant(np.arange(count), ids.details.dtype)
    return node.make("cast", node.helper("eq", column, places), dtype=S64.name)


def _cross(node: Node) -> Value:
    """The vector product along an axis of three: each element is a difference of two products."""
    x, y = promoted(node, node.operand(), node.operand("other"))
    axis = node.axis(node.attr_int("dim", -1), x.details.rank)
    if x.details.plain_dims[axis : axis + 1] != (3,) or x.details.rank != y.details.rank:
        raise node.rule("both inputs must have 3 elements on dim", f"{x.details} and {y.details}")

    def turned(z: GraphTensor, by: int) -> GraphTensor:
        places = node.constant((np.arange(3) + by) % 3, S64)
        return node.helper("gather", z, places, axis=axis)

    first, second = (node.helper("mul", turned(x, 1 + i), turned(y, 2 - i)) for i in (0, 1))
    return node.make("sub", first, second)


def _cosine(node: Node) -> Value:
    """x . y / (max(|x|, eps) * max(|y|, eps)) along an axis."""
    left, right = node.operand("x1"), node.operand("x2")
    x, y = (as_float(node, z) for z in promoted(node, left, right))
    axis = node.axis(node.attr_int("dim", 1), max(x.details.rank, y.details.rank))
    epsilon = node.attr_float("eps", 1e-8)
    dims = np.broadcast_shapes(x.details.plain_dims, y.details.plain_dims)
    parts = [_unit(node, node.broadcast(z, dims), axis, epsilon) for z in (x, y)]
    product = node.helper("mul", *parts)
    return node.make("reduce_sum", product, axes=(axis,), keep_dims=False)


def _unit(node: Node, x: GraphTensor, axis: int, epsilon: float) -> GraphTensor:
    norm = node.helper("reduce_l2", x, axes=(axis,), keep_dims=True)
    return node.helper("div", x, node.helper("clamp", norm, min=epsilon, max=None))


def _distances(node: Node) -> Value:
    """|x_i - y_j| of all rows of two matrices, for p = 2."""
    x, y = node.tensor_of("x1"), node.tensor_of("x2")
    if node.attr_float("p", 2.0) != 2:
        raise node.unsupported(f"p={node.attr_float('p', 2.0)}")
    node.argument("compute_mode")
    if min(x.details.rank, y.details.rank) < 2:
        raise node.rule("inputs must be matrices", f"{x.details} and {y.details}")
    *outer, rows, width = x.details.plain_dims
    *others, columns, _ = y.details.plain_dims
    x = node.reshaped(x, (*outer, rows, 1, width))
    gap = node.helper("sub", x, node.reshaped(y, (*others, 1, columns, width)))
    return node.make("reduce_l2", gap, axes=(gap.details.rank - 1,), keep_dims=False)


def _bounded(op_name: str, slot: str) -> Handler:
    def run(node: Node) -> Value:
        operands: list[Operand] = [node.operand(), node.operand(slot)]
        dtype = result_dtype(operands)
        return node.make(op_name, *(node.tensor(z, dtype) for z in operands))

    return Handler(run, ("input", slot))


_PRODUCT = ("input", "tensor1", "tensor2", "value")
_PAIR = ("x1", "x2")

_BY_NAME: dict[str, Handler] = {
    "addcmul": Handler(_add_product("mul"), _PRODUCT),
    "addcdiv": Handler(_add_product("div"), _PRODUCT),
    "lerp": Handler(_lerp, ("input", "end", "weight")),
    "rsub": Handler(_reversed_sub, ("input", "other", "alpha")),
    "hypot": Handler(_hypot, ("input", "other")),
    "exp2": Handler(_exp2),
    "isfinite": Handler(_is_finite),
    "nan_to_num": Handler(_nan_to_num, ("input", "nan", "posinf", "neginf")),
    "one_hot": Handler(_one_hot, ("input", "num_classes")),
    "cross": Handler(_cross, ("input", "other", "dim")),
    "cosine_similarity": Handler(_cosine, (*_PAIR, "dim", "eps")),
    "cdist": Handler(_distances, (*_PAIR, "p", "compute_mode")),
    "clamp_min": _bounded("max", "min"),
    "clamp_max": _bounded("min", "max"),
}

HANDLERS: dict[str, Handler] = {
    **{f"{p}{name}": h for p in ("torch.", "Tensor.", "aten::") for name, h in _BY_NAME.items()},
    **{f"F.{name}": _BY_NAME[name] for name in ("one_hot", "cosine_similarity")},
    "nn.CosineSimilarity": _BY_NAME["cosine_similarity"],
}
"""Operators of this family."""
