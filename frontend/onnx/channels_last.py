"""Convolutions, max pools and batch norms of images whose channels are the last axis, by ONNX Runtime and QONNX."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.reading import Pair
from ..op_builder import Value
from .fused_ops import standard
from .normalize import PAIRS as NORMS
from .scope import Handler, NodeContext
from .windows import PAIRS as WINDOWS

QONNX = "qonnx.custom_op.channels_last"


def channels_first(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """Return `x` with its last axis moved behind the first."""
    rank = x.details.rank
    return node.transposed(x, (0, rank - 1, *range(1, rank - 1)))


def channels_back(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """Return `x` with its second axis moved to the end."""
    return node.transposed(x, (0, *range(2, x.details.rank), 1))


def _wrapped(op_type: str, row: str, pair: Pair, moved: int = 1) -> Handler:
    """Read a node as ONNX's op of this type, the channels of its first `moved` inputs and of its result moved."""
    read = pair.read
    assert read is not None

    def handler(node: NodeContext) -> Value:
        names = [str(name) for name in node.node.input]
        for index in range(moved):
            first = f"{node.name}.first{index}"
            node.scope.values[first] = channels_first(node, node.tensor(index))
            names[index] = first
        plain = standard(node, op_type, names, [a.name for a in node.node.attribute])
        y = read(plain, row)
        return channels_back(node, y[0] if isinstance(y, list) else y)

    return handler


_CONVOLUTION, _POOL, _NORM = WINDOWS["convolution"], WINDOWS["pool"], NORMS["batch_norm"]

HANDLERS: dict[str, Handler] = {
    "com.microsoft::NhwcConv": _wrapped("Conv", "convolution", _CONVOLUTION),
    "com.microsoft::NhwcMaxPool": _wrapped("MaxPool", "max_pool", _POOL),
    f"{QONNX}::Conv": _wrapped("Conv", "convolution", _CONVOLUTION, moved=2),
    f"{QONNX}::MaxPool": _wrapped("MaxPool", "max_pool", _POOL),
    f"{QONNX}::BatchNormalization": _wrapped("BatchNormalization", "batch_norm", _NORM),
}
"""Operators of this family. QONNX's weights have their channels last too."""
