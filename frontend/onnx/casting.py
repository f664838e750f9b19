"""Cast and CastLike. To floats of 8 bits, what is too large may become the largest number."""

from __future__ import annotations

from ...base.dtypes import F8E8M0FNU, F32, S32, U32, DType
from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.reading import Pair
from ..op_builder import Value
from .export import ELEMENT_TYPES, Exporter
from .scope import Handler, NodeContext

_LEAST, _MOST = 2.0**-127, 2.0**127  # of f8e8m0fnu


def cast_to(node: NodeContext, x: GraphTensor, dtype: DType) -> Value:
    """X in a type, as the attributes `saturate` and `round_mode` of the node say."""
    if x.details.dtype == dtype:
        return node.make("cast", x, dtype=dtype)
    saturates = node.attr_int("saturate", 1) != 0
    if x.details.dtype.is_float and dtype.kind in ("int", "uint") and dtype.is_storage:
        x = node.converted(x, S32)  # of which the lowest bits are kept
    if dtype == F8E8M0FNU:
        return node.make("cast", _power_of_two(node, x, saturates), dtype=dtype)
    return saturated(node, x, dtype) if saturates else node.make("cast", x, dtype=dtype)


def saturated(node: NodeContext, x: GraphTensor, dtype: DType) -> Value:
    """X in a type; if that is a float of 8 bits, between its largest numbers."""
    if dtype.is_float and dtype.bits == 8 and dtype.layout is not None:
        wide = x if x.details.dtype.is_float else node.converted(x, F32)
        most = dtype.largest
        x = node.helper("clamp", wide, min=-most, max=most)
    return node.make("cast", x, dtype=dtype)


def _power_of_two(node: NodeContext, x: GraphTensor, saturates: bool) -> GraphTensor:
    """X as f32, rounded to an exponent alone: `up` unless the node says `down` or `nearest`."""
    mode = node.attr_text("round_mode", "up")
    x = node.converted(x, F32)
    if mode not in ("up", "down", "nearest"):
        raise node.unsupported(f"round_mode {mode}")
    if mode != "nearest":
        bits = node.helper("bitcast", x, dtype=U32)
        if mode == "up":
            bits = node.helper("add", bits, node.constant(0x7FFFFF, U32))
        exponent = node.helper("and", bits, node.constant(0xFF800000, U32))
        power = node.helper("bitcast", exponent, dtype=F32)
        is_number = node.helper("eq", x, x)
        x = node.helper("select", is_number, power, x)
    return node.helper("clamp", x, min=_LEAST, max=_MOST) if saturates else x


def _cast(node: NodeContext, _: str) -> Value:
    return cast_to(node, node.tensor(0), node.attr_dtype("to"))


def _write(e: Exporter, op: Op, _: str) -> None:
    dtype: DType = op.attr("dtype")
    attrs: dict[str, int | str] = {"to": ELEMENT_TYPES[dtype]}
    if dtype.is_float and dtype.bits == 8:
        attrs["saturate"] = 0
    if dtype == F8E8M0FNU:
        attrs["round_mode"] = "nearest"
    (x,) = e.values(op)
    source = e.dtype(x)
    if source.is_float and dtype.kind in ("int", "uint") and dtype.is_storage:
        bounds = zip(("low", "high"), dtype.limits, strict=True)
        x = e.part(op, "Clip", [x, *(e.scalar(op, name, limit, source) for name, limit in bounds)])
    e.node(op, "Cast", [x], **attrs)


PAIRS = {"cast": Pair(_cast, _write)}

HANDLERS: dict[str, Handler] = {
    "CastLike": lambda node: cast_to(node, node.tensor(0), node.tensor(1).details.dtype)
}
