"""Reads and writes elementwise nodes that a row of the table cannot express."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import BOOL, F32
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ops.activation import clamp_limits
from ..correspondence.compositions.activation import clip
from ..correspondence.compositions.assignment import masked_fill
from ..correspondence.compositions.indexing import one_hot
from ..correspondence.compositions.windows import per_channel
from ..correspondence.reading import Pair
from ..op_builder import Value
from .dump_builder import DumpBuilder
from .scope import Handler, NodeContext


def _read_real_div(node: NodeContext, _: str) -> Value:
    a, b = node.pair()
    if not a.details.dtype.is_float:  # "real" division of integers gives floats
        a, b = node.converted(a, F32), node.converted(b, F32)
    return node.make("div", a, b)


def _read_prelu(node: NodeContext, _: str) -> Value:
    x = node.tensor("x")
    return node.make("prelu", x, per_channel(node, x, node.tensor_as("weight", x.details.dtype)))


def _affine(node: NodeContext, x: GraphTensor, scale: float, shift: float) -> GraphTensor:
    if scale != 1.0:
        x = node.helper("mul", x, node.constant(scale, x.details.dtype))
    return x if shift == 0.0 else node.helper("add", x, node.constant(shift, x.details.dtype))


def _read_exp(node: NodeContext, _: str) -> Value:
    base = node.attr_float("base")
    x = _affine(node, node.tensor("x"), node.attr_float("scale"), node.attr_float("shift"))
    if base != -1.0:
        if base <= 0:
            raise node.rule("base must be positive or -1, which stands for e", str(base))
        x = node.helper("mul", x, node.constant(math.log(base), x.details.dtype))
    return node.make("exp", x)


def _read_log(node: NodeContext, _: str) -> Value:
    base = node.attr_float("base")
    x = _affine(node, node.tensor("x"), node.attr_float("scale"), node.attr_float("shift"))
    if base == -1.0:
        return node.make("log", x)
    if base <= 0 or base == 1.0:
        raise node.rule("base must be positive and not 1, or -1, which stands for e", str(base))
    factor = node.constant(1 / math.log(base), x.details.dtype)
    return node.make("mul", node.helper("log", x), factor)


def _read_clip(node: NodeContext, _: str) -> Value:
    x, names = node.tensor("x"), ("clip_value_min", "clip_value_max")
    bounds = [node.value(name) for name in names]
    if not any(isinstance(bound, GraphTensor) or np.isnan(bound).any() for bound in bounds):
        return clip(node, x, *bounds)
    low, high = (node.tensor_as(name, x.details.dtype) for name in names)
    return node.make("min", node.helper("max", x, low), high)


def _write_clip(builder: DumpBuilder, op: Op, type_name: str) -> None:
    dtype = op.inputs[0].details.dtype
    limits = clamp_limits(dtype, op.attr("min"), op.attr("max"))
    widest = (-np.inf, np.inf) if dtype.is_float else dtype.limits
    inputs = builder.operands(op, "x")
    for name, limit, most in zip(("min", "max"), limits, widest, strict=True):
        value = np.asarray(most if limit is None else limit, dtype.numpy)
        inputs[f"clip_value_{name}"] = builder.const(value, op, name)
    builder.whole(op, type_name, inputs)


def _write_plain(builder: DumpBuilder, op: Op, type_name: str) -> None:
    builder.whole(op, type_name, builder.operands(op, "x"))


def _bias_add(node: NodeContext) -> Value:
    x = node.tensor("x")
    bias = node.tensor_as("bias", x.details.dtype)
    if bias.details.rank != 1:
        raise node.rule("bias must be a vector", str(bias.details))
    if node.attr_text("data_format").startswith("NC"):
        bias = per_channel(node, x, bias)
    return node.make("add", x, bias)


def condition(node: NodeContext, name: str) -> GraphTensor:
    """Input `name` as bools: non-zero is true."""
    return node.converted(node.tensor(name), BOOL)


def _masked_fill(node: NodeContext) -> Value:
    x = node.tensor("x")
    return masked_fill(node, x, node.tensor("mask"), node.scalar("value", x.details.dtype))


def _read_select(node: NodeContext, _: str) -> Value:
    chosen, (a, b) = condition(node, "condition"), node.pair()
    if chosen.details.rank == 1 and a.details.rank > 1:  # it selects rows
        chosen = node.reshaped(chosen, (chosen.details.elements,) + (1,) * (a.details.rank - 1))
    return node.make("select", chosen, a, b)


def _one_hot(node: NodeContext) -> Value:
    depth = node.integer("depth")
    on, off = node.pair("on_value", "off_value")
    return one_hot(node, node.tensor("x"), on, off, depth, node.attr_int("axis"))


PAIRS = {
    "real_div": Pair(_read_real_div), "copy": Pair(lambda node, _: node.value("x"), _write_plain),
    "prelu": Pair(_read_prelu), "exp": Pair(_read_exp, _write_plain), "log": Pair(_read_log, _write_plain),
    "clip": Pair(_read_clip, _write_clip), "select": Pair(_read_select),
}  # fmt: skip

HANDLERS: dict[str, Handler] = {
    "BiasAdd": _bias_add,
    "MaskedFill": _masked_fill,
    "OneHot": _one_hot,
    "OneHotD": _one_hot,
}
