"""Operators about the graph itself: attributes, expressions, Python lists."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...base.dims import Dim
from ...base.dtypes import BOOL, F16, F32, F64, S32, S64
from ...base.errors import UnsupportedError, UserError
from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.compositions.axes import mesh_grid
from ..correspondence.compositions.complex_numbers import Complex
from ..correspondence.compositions.reduction import prod, reduce, variance
from ..correspondence.compositions.triangles import identity
from ..torch_calls.call import shown
from ..torch_calls.creation import CALLS as CREATION
from .export import Exporter
from .expression import Step, evaluate_expression, parse_expression
from .param_value import parse_scalar
from .scope import Element, Handler, Node, Value


def _attribute(node: Node) -> Any:
    if len(node.op.attributes) != 1:
        raise node.rule("there must be one attribute", str(len(node.op.attributes)))
    (key,) = node.op.attributes
    if node.op.attributes[key].part is None:
        return node.weight(key)
    pairs = node.scope.weights.read(node.name, key, node.op.attributes[key])
    parts = zip(("real", "imag"), np.moveaxis(pairs, -1, 0), strict=True)
    return Complex(*(node.stored(part.copy(), f"{key}.{word}") for word, part in parts))


def _expression(node: Node) -> Any:
    try:
        steps = parse_expression(node.text("expr") or "")
    except (UserError, UnsupportedError) as error:
        error.said(f"{node.op}: {error}")
        raise
    written = node.op.types.get(node.op.outputs[0])
    is_integer = written and written.dtype and written.dtype.kind in ("int", "uint")
    if is_integer and steps[-1] == Step("call", "div", 2):
        steps[-1] = Step("call", "floor_divide", 2)  # the tool leaves out `rounding_mode="floor"`
    return evaluate_expression(steps, node.values, node)


def _slice_indexes(node: Node) -> Value:
    """A list such as (0,@0,2147483647)."""
    text = node.text("indexes") or ""
    items: list[Element] = []
    for item in text.strip("()[]").split(","):
        if not item.startswith("@"):
            items.append(parse_scalar(item))
            continue
        number = item[1:]
        if (
            not (number.isascii() and number.isdigit())
            or not len(number) < 9
            or int(number) >= len(node.values)
        ):
            raise node.rule(
                f"'{item[:16]}' must be one of the inputs", f"{len(node.values)} inputs"
            )
        value = node.values[int(number)]
        if isinstance(value, list):
            raise node.unsupported("a list of lists")
        items.append(value)
    return items


def _construct(node: Node) -> Any:
    """A tuple or list, maybe of others."""
    return [*node.values]


def _unpack(node: Node) -> tuple[Value, ...]:
    value = node.argument("input")
    if not isinstance(value, list):
        raise node.rule("the input must be a tuple or a list", "one value")
    return tuple(value)


def _constant(node: Node) -> Value:
    return node.argument("value")


def _mesh_grid(node: Node) -> Value:
    vectors = node.argument("tensors")
    if not isinstance(vectors, list) or not all(isinstance(x, GraphTensor) for x in vectors):
        raise node.rule("the input must be a list of tensors", shown(vectors))
    is_xy = node.attr_text("indexing", "ij") == "xy"
    return [*mesh_grid(node, cast(list[GraphTensor], vectors), is_xy)]


def _spread(node: Node) -> Value:
    """The forms without axes, whose only argument is positional."""
    unbiased = node.attr_bool("unbiased", True)
    return variance(node, node.tensor_of(), None, unbiased, is_root=node.type.endswith("std"))


_SCALAR_TYPES = {None: None, 3: S32, 4: S64, 5: F16, 6: F32, 7: F64, 11: BOOL}
"""Element types as ATen numbers them."""


def _identity(node: Node) -> Value:
    """Rows, maybe columns, then dtype, layout, device and pin_memory, all by position."""
    sizes, options = node.values[:-4], node.values[-4:]
    is_number = all(type(size) in (int, Dim) for size in sizes)
    if not is_number or len(sizes) not in (1, 2) or options[0] not in (*_SCALAR_TYPES,):
        raise node.unsupported(f"an identity matrix of {shown([*node.values])}")
    return identity(node, sizes[0], sizes[-1], _SCALAR_TYPES[options[0]])  # type: ignore[arg-type,index]


def _some_or_all(node: Node) -> Value:
    """Over all axes, or those that are given."""
    x, axes = node.tensor_of(), node.attr_ints("dim", None)
    axes = None if axes is None else tuple(node.axis(axis, x.details.rank) for axis in axes)
    op_name = f"reduce_{node.type[-3:]}"
    return reduce(node, op_name, x, axes, node.attr_bool("keepdim", False))


HANDLERS: dict[str, Handler] = {
    **{f"aten::{w}": Handler(_some_or_all, ("input", "dim", "keepdim")) for w in ("all", "any")},
    "aten::eye": Handler(_identity, ("*",)),
    "aten::prod": Handler(lambda node: prod(node, node.tensor_of(), node.dtype()), ("input", "dtype")),
    "pnnx.Attribute": Handler(_attribute, ()), "pnnx.Expression": Handler(_expression, ("*",)),
    "pnnx.SliceIndexes": Handler(_slice_indexes, ("*",)), "prim::Constant": Handler(_constant, ()),
    **{f"prim::{kind}Construct": Handler(_construct, ("*",)) for kind in ("Tuple", "List")},
    **{f"prim::{kind}Unpack": Handler(_unpack) for kind in ("Tuple", "List")},
    **{f"{prefix}meshgrid": Handler(_mesh_grid, ("tensors", "indexing")) for prefix in ("torch.", "aten::") },
    **{f"aten::{name}": Handler(_spread, ("input", "unbiased")) for name in ("std", "var")},
    "Tensor.size": CREATION["size"], "Tensor.to": CREATION["to"], "torch.arange": CREATION["arange"],
}  # fmt: skip


def _write_constant(e: Exporter, op: Op) -> str:
    value = op.attr("value")
    return e.append("pnnx.Attribute", op.name, [], op.outputs[0].details, weights={"data": value})


def _write_output(e: Exporter, op: Op) -> str:
    return e.append("pnnx.Output", op.attr("temp.result"), [e.operand(op.inputs[0])], None)


EXPORTERS = {
    "input": lambda e, op: e.append("pnnx.Input", op.name, [], op.outputs[0].details),
    "constant": _write_constant,
    "output": _write_output,
}
"""Writers by op name."""
