"""QONNX: QuantLSTMCell, an LSTM of Brevitas whose gates and states are rounded by quantizers of their own.

Only Brevitas defines it: `_QuantLSTMCell` of `brevitas.nn.quant_rnn` (0.13).
"""

from __future__ import annotations

from ...base.dtypes import F32
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.contraction import matmul
from ..correspondence.compositions.control import CountedLoop, Round
from ..correspondence.compositions.indexing import dynamic_size
from ..op_builder import OpBuilder, Value, like
from .qonnx import DOMAINS, quantized
from .scope import Handler, NodeContext

_GATES = (("input", "sigmoid"), ("forget", "sigmoid"), ("cell", "tanh"), ("output", "sigmoid"))
_QUANTIZERS = (
    "output", "cell_state", *(f"{gate}_acc" for gate, _ in _GATES), *(f"{gate}_{name}" for gate, name in _GATES),
    "hidden_state_tanh",
)  # fmt: skip
"""Quantizers in the order of their inputs, from input 15 on: a scale, a zero point and a width each."""


def _cell(node: NodeContext) -> list[Value]:
    x, reverse = node.converted(node.tensor(0), F32), bool(node.attr_int("reverse_input", 0))
    perm = (1, 0, 2) if node.attr_int("batch_first", 0) else (0, 1, 2)
    rows, (h, c), (inputs, states) = node.transposed(x, perm), (node.tensor(i) for i in (1, 2)), [
        [node.transposed(node.tensor(first + i), (1, 0)) for i in range(4)] for first in (3, 7)
    ]  # fmt: skip
    given = [matmul(node, rows, weight) for weight in inputs]
    biases = [node.tensor(11 + i) for i in range(4)]
    length = rows.details.plain_dims[0]

    def step(
        build: OpBuilder, trip: GraphTensor, state: list[GraphTensor], fixed: list[GraphTensor]
    ) -> Round:
        at = build.helper("sub", dynamic_size(build, length - 1), trip) if reverse else trip

        def rounded(name: str, op_name: str, *operands: GraphTensor) -> GraphTensor:
            first = 15 + 3 * _QUANTIZERS.index(name)
            scale, zero = (build.constant(node.array(i, name), F32) for i in (first, first + 1))
            y = build.helper(op_name, *operands)
            return quantized(node, build, y, (scale, zero), first, f"{name}_")

        def gate(i: int) -> GraphTensor:
            name, function = _GATES[i]
            part = matmul(build, state[0], fixed[4 + i])
            total = build.helper("add", build.helper("gather", fixed[i], at, axis=0), part)
            total = rounded(f"{name}_acc", "add", total, fixed[8 + i])
            return rounded(f"{name}_{function}", function, total)

        taken, new, shown = gate(0), gate(2), gate(3)
        if node.attr_int("cifg", 0):
            one = rounded("input_sigmoid", "copy", like(build, 1, taken))
            kept = build.helper("sub", one, taken)
        else:
            kept = gate(1)
        parts = [rounded("cell_state", "mul", *pair) for pair in ((kept, state[1]), (taken, new))]
        cell = rounded("cell_state", "add", *parts)
        hidden = rounded("output", "mul", shown, rounded("hidden_state_tanh", "tanh", cell))
        return Round([hidden, cell], [hidden])

    h, c, results = CountedLoop(node, length, None, [reverse]).make(
        [h, c], [*given, *states, *biases], step
    )
    return [node.transposed(results, perm), h, c]


HANDLERS: dict[str, Handler] = {f"{domain}::QuantLSTMCell": _cell for domain in DOMAINS}
