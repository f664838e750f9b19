"""DynamicQuantizeLSTM, which ONNX Runtime's tool makes of LSTM: weights of bytes, activations of floats."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .fused_ops import standard
from .recurrent import read_recurrent
from .scope import Handler, NodeContext

ATTRIBUTES = (
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "input_forget",
)


def _dynamic_lstm(node: NodeContext) -> list[Value]:
    """The LSTM of the dequantised weights.

    ONNX Runtime rounds X and each state to u8 before they are multiplied, by their ranges: a means to its speed, whose
    errors are left out here.
    """
    names = [str(name) for name in node.node.input[:8]]
    for index, scale in ((1, 8), (2, 10)):
        names[index] = f"{node.name}.weights{index}"
        node.scope.values[names[index]] = _weights(node, index, scale)
    return read_recurrent(standard(node, "LSTM", names, ATTRIBUTES), "lstm")


def _weights(node: NodeContext, index: int, scale: int) -> GraphTensor:
    """[directions, 4 * hidden, size] of [directions, size, 4 * hidden], one scale for a direction or per column."""
    x = node.tensor(index)
    directions, _, columns = x.details.plain_dims

    def spread(at: int) -> GraphTensor:
        each = columns if node.details(at).elements > directions else 1
        return node.reshaped(node.tensor(at), (directions, 1, each))

    given = [spread(at) for at in (scale, scale + 1) if node.has(at)]
    return node.transposed(node.helper("dequantize", x, *given), (0, 2, 1))


HANDLERS: dict[str, Handler] = {"com.microsoft::DynamicQuantizeLSTM": _dynamic_lstm}
