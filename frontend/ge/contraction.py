"""Matmuls, Einstein sums, reductions and softmax."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...base.dtypes import S32, DType
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ops.contraction_types import is_byte
from ..correspondence.compositions.reduction import lp_norm, reduce
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from ..einsum import einsum
from ..op_builder import Value
from .document import TypeName
from .dump_builder import DumpBuilder
from .scope import Handler, NodeContext


def _read_matmul(node: NodeContext, op_name: str) -> Value:
    """Read a matmul, possibly batched; the attributes that transpose its operands have two names."""
    a, b = node.pair()
    if node.has("offset_w"):
        raise node.unsupported("offset_w")
    is_plain = node.type.startswith("MatMul")
    for x in (a, b):
        if x.details.rank != 2 if is_plain else x.details.rank < 2:
            wanted = "matrices" if is_plain else "matrices or stacks of them"
            raise node.rule(f"operands must be {wanted}", f"{a.details} and {b.details}")
    first, second = (f"{'transpose' if is_plain else 'adj'}_x{i}" for i in (1, 2))
    attrs = {"transpose_a": node.attr_bool(first), "transpose_b": node.attr_bool(second)}
    contracted = node.make(op_name, a, b, **attrs, **sums_of_bytes(a, b))
    if not node.has("bias"):
        return contracted
    return node.helper("add", contracted, node.tensor_as("bias", contracted.details.dtype))


def sums_of_bytes(a: GraphTensor, b: GraphTensor) -> dict[str, DType]:
    """Return the attribute that accumulates byte matmuls in s32, which is their result dtype."""
    return {"dtype": S32} if all(is_byte(x.details.dtype) for x in (a, b)) else {}


def _write_matmul(builder: DumpBuilder, op: Op, type_name: str) -> None:
    """Write a matmul; those of bytes have s32 results without an attribute that says so."""
    builder.whole(op, type_name, builder.operands(op, "x1", "x2"), **builder.row_attributes(op))


def _read_reduce(node: NodeContext, op_name: str) -> Value:
    """Over all axes where none are given, unless that means none."""
    x, rank = node.tensor("x"), node.tensor("x").details.rank
    axes: tuple[int, ...] | None = tuple(
        dict.fromkeys(node.axis(a, rank) for a in node.ints("axes"))
    )
    keeps = "noop_with_empty_axes" in node.signature.defaults
    if not axes and not (keeps and node.attr_bool("noop_with_empty_axes")):
        axes = None
    return reduce(node, op_name, x, axes, node.attr_bool("keep_dims"))


def _write_reduce(builder: DumpBuilder, op: Op, type_name: str) -> None:
    axes, keep = cast(Any, op).axes, op.attr("keep_dims")
    if axes:
        builder.whole(op, type_name, builder.operands(op, "x"), axes=axes, keep_dims=keep)
    else:
        builder.whole(op, "Identity", builder.operands(op, "x"))


def _read_arg(node: NodeContext, op_name: str) -> Value:
    found = node.make(op_name, node.tensor("x"), axis=node.integer("dimension"), keep_dims=False)
    return node.converted(found, S32 if node.type.endswith("D") else node.attr_dtype("dtype"))


def _write_arg(builder: DumpBuilder, op: Op, type_name: str) -> None:
    if op.attr("last"):
        raise InexpressibleError(f"{op.op_name} with last")
    axis = cast(Any, op).axis
    inputs = builder.operands(op, "x")
    inputs["dimension"] = builder.const(np.array(axis, np.int64), op, "axis")
    if not op.attr("keep_dims"):
        builder.whole(op, type_name, inputs, dtype=TypeName("DT_INT64"))
        return
    index = builder.part(op, type_name, inputs, dtype=TypeName("DT_INT64"))
    builder.whole(op, "Unsqueeze", {"x": index}, axes=(axis,))


def _arg_max_with_value(node: NodeContext) -> list[Value]:
    x, axis, keep = node.tensor("x"), node.attr_int("dimension"), node.attr_bool("keep_dims")
    index = node.make("arg_max", x, axis=axis, keep_dims=keep)
    value = node.helper("reduce_max", x, axes=(axis,), keep_dims=keep)
    return [node.converted(index, S32), value]


def _read_norm(node: NodeContext, _: str) -> Value:
    x, p = node.tensor("x"), node.attr_int("p")
    if p < 1:
        raise node.unsupported(f"p={p}")
    axes = tuple(node.axis(axis, x.details.rank) for axis in node.attr_ints("axes")) or None
    return lp_norm(node, x, p, axes, node.attr_bool("keepdim"))


def _write_norm(builder: DumpBuilder, op: Op, type_name: str) -> None:
    axes, keep = cast(Any, op).axes, op.attr("keep_dims")
    if not axes:
        raise InexpressibleError(f"{op.op_name} with no axes")
    p = int(op.op_name[-1])
    builder.whole(op, type_name, builder.operands(op, "x"), p=p, axes=axes, keepdim=keep)


PAIRS = {
    "matmul": Pair(_read_matmul, _write_matmul),
    "reduce": Pair(_read_reduce, _write_reduce),
    "arg": Pair(_read_arg, _write_arg),
    "norm": Pair(_read_norm, _write_norm),
}

HANDLERS: dict[str, Handler] = {
    "ArgMaxWithValue": _arg_max_with_value,
    "Einsum": lambda node: einsum(node, node.attr_text("equation"), node.tensors("x")),
}
