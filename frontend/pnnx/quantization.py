"""Tensors of bytes that know their scale and zero point, and floats rounded to such."""

from __future__ import annotations

from ...base.dtypes import F32, F64, S8, U8, DType
from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, Node

_TYPES = {13: U8, 12: S8, "torch.quint8": U8, "torch.qint8": S8}
"""Element types by PyTorch's number or name."""

_MOVES = ("reshape", "transpose", "slice", "broadcast")


def _parameters(node: Node, x: GraphTensor, dtype: DType) -> tuple[GraphTensor, GraphTensor]:
    """The call's scale and zero point, or one for each index of an axis, so that they broadcast to x."""
    axis = node.axis(node.attr_int("axis"), x.details.rank) if _by_channel(node) else None
    names = ("scales", "zero_points") if node.given("scales") else ("scale", "zero_point")
    size = [x.details.plain_dims[i] if i == axis else 1 for i in range(x.details.rank)]
    dims = () if axis is None else tuple(size)
    scale, zero = (
        node.reshaped(node.tensor_of(name, wanted), dims)
        for name, wanted in zip(names, (F32, dtype), strict=True)
    )
    return scale, zero


def _by_channel(node: Node) -> bool:
    return "channel" in node.type


def _quantize(node: Node) -> GraphTensor:
    """x / scale + zero point, rounded after the sum: one fused operation for a tensor, two roundings for channels.

     scale; that is PyTorch's arithmetic/ scale; that is PyTorch's arithmetic, whose halves become other integers than
    those of a zero point added to an integer.
    """
    given = node.argument("dtype")
    if not isinstance(given, (int, str)) or given not in _TYPES:
        raise node.unsupported(f"dtype={given}")
    x, dtype = node.tensor_of(), _TYPES[given]
    scale, zero = _parameters(node, x, dtype)
    one = node.constant(1.0, F32)
    operands = (x, node.helper("div", one, scale), zero)
    real, inverse, offset = (node.converted(y, F32 if _by_channel(node) else F64) for y in operands)
    moved = node.helper("add", node.helper("mul", real, inverse), offset)
    made = node.make("quantize", node.converted(moved, F32), one, dtype=dtype.name)
    node.scope.scales[made] = scale, zero
    return made


def _dequantize(node: Node) -> GraphTensor:
    """Dequantize by the scale and zero point of the operator that made the bytes."""
    x = source = node.tensor_of()
    while source.producer_owner.op_name in _MOVES:
        source = source.producer_owner.inputs[0]
    maker, given = source.producer_owner, node.scope.scales.get(source)
    if given is None:
        raise node.unsupported(f"bytes that {maker.op_name} '{maker.name}' made")
    if any(y.details.elements > 1 for y in given) and source is not x:
        raise node.unsupported("bytes of several scales that were moved")
    return node.make("dequantize", x, *given)


def _fake_quantize(node: Node) -> GraphTensor:
    """Rounded to bytes and back; here the zero point is added to an integer."""
    limits = node.attr_int("quant_min"), node.attr_int("quant_max")
    dtype = next((dtype for dtype in (U8, S8) if dtype.limits == limits), None)
    if dtype is None:
        raise node.unsupported(f"a range from {limits[0]} to {limits[1]}")
    x = node.tensor_of()
    scale, zero = _parameters(node, x, dtype)
    one = node.constant(1.0, F32)
    steps = node.helper("mul", x, node.helper("div", one, scale))
    made = node.helper("quantize", steps, one, zero, dtype=dtype.name)
    return node.make("dequantize", made, scale, zero)


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
