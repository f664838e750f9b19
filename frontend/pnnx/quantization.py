"""Tensors of bytes that know their scale and zero point, and floats rounded to such."""

from __future__ import annotations

from ...base.dtypes import F32, S8, U8, DType
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.quantize import Quantize
from .scope import Handler, Node

_TYPES = {13: U8, 12: S8, "torch.quint8": U8, "torch.qint8": S8}
"""Element types by PyTorch's number or name."""

_MOVES = ("reshape", "transpose", "slice", "broadcast")


def _scaled(node: Node, op_name: str, x: GraphTensor, dtype: DType, *axis: int) -> GraphTensor:
    """`quantize` or `dequantize` by the call's scale and zero point, or one for each index of an axis."""
    names = ("scales", "zero_points") if node.given("scales") else ("scale", "zero_point")
    size = [x.details.plain_dims[i] if (i,) == axis else 1 for i in range(x.details.rank)]
    scale, zero = (
        node.reshaped(node.tensor_of(name, wanted), size if axis else ())
        for name, wanted in zip(names, (F32, dtype), strict=True)
    )
    attrs = {"dtype": dtype.name} if op_name == "quantize" else {}
    return node.make(op_name, x, scale, zero, **attrs)


def _quantize(node: Node) -> GraphTensor:
    given = node.argument("dtype")
    if not isinstance(given, (int, str)) or given not in _TYPES:
        raise node.unsupported(f"dtype={given}")
    x = node.tensor_of()
    axis = [node.axis(node.attr_int("axis"), x.details.rank)] if "channel" in node.type else []
    return _scaled(node, "quantize", x, _TYPES[given], *axis)


def _dequantize(node: Node) -> GraphTensor:
    """By the scale and zero point of the operator that made the bytes."""
    x = source = node.tensor_of()
    while source.producer_owner.op_name in _MOVES:
        source = source.producer_owner.inputs[0]
    maker = source.producer_owner
    if not isinstance(maker, Quantize):
        raise node.unsupported(f"bytes that {maker.op_name} '{maker.name}' made")
    if any(y.details.elements > 1 for y in maker.inputs[1:]) and source is not x:
        raise node.unsupported("bytes of several scales that were moved")
    return node.make("dequantize", x, *maker.inputs[1:])


def _fake_quantize(node: Node) -> GraphTensor:
    """Rounded to bytes and back."""
    limits = node.attr_int("quant_min"), node.attr_int("quant_max")
    dtype = next((dtype for dtype in (U8, S8) if dtype.limits == limits), None)
    if dtype is None:
        raise node.unsupported(f"a range from {limits[0]} to {limits[1]}")
    x = node.tensor_of()
    axis = [node.axis(node.attr_int("axis"), x.details.rank)] if "channel" in node.type else []
    made = _scaled(node, "quantize", x, dtype, *axis).producer_owner
    return node.part().make("dequantize", made.outputs[0], *made.inputs[1:])


_TENSOR, _CHANNEL = ("input", "scale", "zero_point"), ("input", "scales", "zero_points", "axis")
_FAKE = {
    "tensor": ("input", "scale", "zero_point", "quant_min", "quant_max"),
    "channel": ("input", "scale", "zero_point", "axis", "quant_min", "quant_max"),
}
HANDLERS: dict[str, Handler] = {
    f"{prefix}{name}": handler
    for prefix in ("torch.", "aten::")
    for name, handler in {
        "quantize_per_tensor": Handler(_quantize, (*_TENSOR, "dtype")),
        "quantize_per_channel": Handler(_quantize, (*_CHANNEL, "dtype")),
        "fake_quantize_per_tensor_affine": Handler(_fake_quantize, _FAKE["tensor"]),
        "fake_quantize_per_channel_affine": Handler(_fake_quantize, _FAKE["channel"]),
        "dequantize": Handler(_dequantize),
    }.items()
}
"""Operators of this family."""
