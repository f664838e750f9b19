"""com.microsoft.nchwc: convolutions and pools of images whose channels lie in blocks, as ONNX Runtime writes them.

Its tensors have the shapes of plain ones, their channels filled up to whole blocks; here they are plain. Only weights
tell how long a block is: the file does not, it is 16 where the machine that wrote it has 512-bit vectors, else 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from onnx import NodeProto

from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array, GraphTensor
from ..correspondence.compositions.windows import global_average_pool, global_max_pool
from ..op_builder import Value
from .fused_ops import fused_convolution, standard
from .scope import Handler, NodeContext
from .windows import PAIRS as WINDOWS

DOMAIN = "com.microsoft.nchwc"

_WINDOW = (
    *("auto_pad", "kernel_shape", "pads", "strides", "dilations", "ceil_mode", "count_include_pad"),
    "group",
)


def channel_block(nodes: Iterable[NodeProto], values: Mapping[str, Value]) -> int:
    """Return the channel block size, 8 or 16, inferred from zero padding of weights; 0 if both fit everywhere."""
    channels: dict[str, int] = {}
    for node in nodes:
        known = [channels.get(name, 0) for name in node.input]
        w = values.get(node.input[1]) if node.op_type == "Conv" else None
        if node.domain == DOMAIN and isinstance(w, np.ndarray) and w.ndim == 4 and w.size:
            channels[node.output[0]] = w.shape[0]
            if w.shape[0] % 16 == 8 or (w.shape[1] >= 8 and w.shape[1] % 16 == 8):
                return 8
            if w.shape[0] % 16 == 0 and not w.reshape(w.shape[0] // 16, -1, 16)[-1, :, 8:].any():
                return 16
        elif node.domain == DOMAIN and node.op_type == "ReorderOutput" and known[0]:
            kept = next((a.i for a in node.attribute if a.name == "channels"), known[0])
            if known[0] - kept >= 8:
                return 16
        elif known and all(known) and node.op_type != "ReorderOutput":
            channels[node.output[0]] = sum(known) if node.op_type == "Concat" else known[0]
    return 0


def _plain_weights(node: NodeContext, w: Array, groups: int) -> Array:
    """[O, I, height, width] of what lies as O/b I/b height width bI bO, or, of few channels, O/b I height width bO."""
    block = node.scope.channel_block
    if not block:
        raise UnsupportedError(
            f"Conv '{node.name}': weights in blocks of 8 or of 16, the file does not say which, are not supported",
            "write the model with ORT_ENABLE_EXTENDED, which keeps plain weights",
        )
    outputs, inputs, *kernel = w.shape
    if len(kernel) != 2 or outputs % block or (inputs >= block and inputs % block):
        raise node.rule(f"W must have whole blocks of {block} channels", str(list(w.shape)))
    if inputs < block and (groups == 1 or inputs == 1):
        lying = w.reshape(outputs // block, inputs, *kernel, block)
        return lying.transpose(0, 4, 1, 2, 3).reshape(w.shape)
    lying = w.reshape(outputs // block, inputs // block, *kernel, block, block)
    return lying.transpose(0, 5, 1, 4, 2, 3).reshape(w.shape)


def _filled(node: NodeContext, x: GraphTensor, channels: int) -> GraphTensor:
    """X with channels of zeros behind its own."""
    given, here = x.details.plain_dims[1], range(x.details.rank)
    if given == channels:
        return x
    after = tuple(channels - given if axis == 1 else 0 for axis in here)
    return node.helper("pad", x, before=(0,) * len(here), after=after, value=0.0)


def _convolution(node: NodeContext) -> Value:
    groups, w = node.attr_int("group", 1), node.array(1, "weights")
    if w.ndim != 4:
        raise node.rule("W must have 4 axes", str(list(w.shape)))
    plain = _plain_weights(node, w, groups)
    names = [f"{node.name}.{word}" for word in ("image", "weights")]
    wanted = w.shape[1] * groups
    if node.details(0).plain_dims[1] > wanted:
        raise node.rule(f"X must have at most {wanted} channels", str(node.details(0)))
    node.scope.values[names[0]] = _filled(node, node.tensor(0), wanted)
    node.scope.values[names[1]] = np.ascontiguousarray(plain)
    given = [*names, *map(str, node.node.input[2:])]
    kept = (*_WINDOW, "activation", "activation_params")
    return fused_convolution(standard(node, "Conv", given, kept))


def _pool(row: str, op_type: str) -> Handler:
    def read(node: NodeContext) -> Value:
        pool = WINDOWS["pool"].read
        assert pool is not None
        found: Value = pool(standard(node, op_type, [node.node.input[0]], _WINDOW), row)
        return found

    return read


def _reorder_input(node: NodeContext) -> Value:
    x = node.tensor(0)
    rank = x.details.rank
    if node.attr_int("channels_last", 0):
        return node.transposed(x, (0, rank - 1, *range(1, rank - 1)))
    return x


def _reorder_output(node: NodeContext) -> Value:
    x = node.tensor(0)
    x = node.sliced(x, 1, 0, node.attr_int("channels", x.details.plain_dims[1]))
    if node.attr_int("channels_last", 0):
        return node.transposed(x, (0, *range(2, x.details.rank), 1))
    return x


def _upsample(node: NodeContext) -> Value:
    """Upsample by integer factors; the nearest element is the one before."""
    scales = np.array(node.attr_ints("scales"), np.float32)
    mode = node.attr_text("mode", "nearest")
    coordinates = node.attr_text("coordinate_transformation_mode", "asymmetric")
    x = node.tensor(0)
    if len(scales) != x.details.rank:
        raise node.rule(f"scales must have {x.details.rank} entries", str(scales.tolist()))
    shape = tuple(int(n * s) for n, s in zip(x.details.plain_dims, scales, strict=True))
    return node.make(
        "resize", x, shape=shape, mode=mode, coordinates=coordinates, nearest_mode="floor"
    )


HANDLERS: dict[str, Handler] = {
    f"{DOMAIN}::{op_type}": handler
    for op_type, handler in {
        "Conv": _convolution,
        "MaxPool": _pool("max_pool", "MaxPool"),
        "AveragePool": _pool("avg_pool", "AveragePool"),
        "GlobalMaxPool": lambda node: global_max_pool(node, node.tensor(0)),
        "GlobalAveragePool": lambda node: global_average_pool(node, node.tensor(0)),
        "ReorderInput": _reorder_input,
        "ReorderOutput": _reorder_output,
        "Upsample": _upsample,
    }.items()
}
