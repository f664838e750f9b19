"""DynamicQuantizeLSTM, which ONNX Runtime's tool makes of LSTM: bytes are multiplied, states are floats."""

from __future__ import annotations

from ..op_builder import Value
from .fused_ops import standard
from .recurrent import Scales, read_recurrent
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
    """The LSTM of the dequantized weights, of X and states that are rounded to u8 before they are multiplied.

    X has one scale for all steps, the states of a batch one in each step, of rows that have ended too. So does ONNX
    Runtime with one thread; several round the states of their parts of a batch by the ranges of these. Weights
    are [directions, size, 4 * hidden], those of LSTM are transposed.
    """
    names = [str(name) for name in node.node.input]
    for index in (1, 2):
        names[index] = f"{node.name}.weights{index}"
        node.scope.values[names[index]] = node.transposed(node.tensor(index), (0, 2, 1))
    return read_recurrent(
        standard(node, "LSTM", names, ATTRIBUTES), "lstm", Scales((8, 9), (10, 11))
    )


HANDLERS: dict[str, Handler] = {"com.microsoft::DynamicQuantizeLSTM": _dynamic_lstm}
