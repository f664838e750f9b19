"""com.microsoft: matmuls and convolutions with their activation, as ONNX Runtime's optimizer writes them."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.contraction import matmul, scaled
from ..op_builder import Value
from .matmul import read_gemm
from .scope import Handler, NodeContext
from .windows import read_convolution


def _plain(node: NodeContext, op_type: str, inputs: list[str]) -> NodeContext:
    """The node without its activation."""
    kept = [a.name for a in node.node.attribute if not a.name.startswith("activation")]
    return standard(node, op_type, inputs, kept)


def standard(
    node: NodeContext, op_type: str, inputs: Sequence[str], attributes: Sequence[str]
) -> NodeContext:
    """The node as one of ONNX, with inputs of these names and those of its attributes."""
    proto = NodeProto()
    proto.CopyFrom(node.node)
    proto.op_type, proto.domain = op_type, ""
    del proto.input[:], proto.attribute[:]
    proto.input.extend(inputs)
    proto.attribute.extend(a for a in node.node.attribute if a.name in attributes)
    return NodeContext(proto, node.scope)


def _activated(node: NodeContext, x: GraphTensor, kind: str, numbers: tuple[float, ...]) -> Value:
    names = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "HardSwish": "hard_swish"}
    if kind in names:
        return node.helper(names[kind], x)
    if kind == "LeakyRelu":
        return node.helper("leaky_relu", x, alpha=(*numbers, 0.01)[0])
    if kind == "HardSigmoid":
        alpha, beta = numbers[:2] if len(numbers) > 1 else (0.2, 0.5)
        return node.helper("hard_sigmoid", x, alpha=alpha, beta=beta)
    if kind == "Clip" and len(numbers) > 1:
        low, high = (node.constant(n, x.details.dtype) for n in numbers[:2])
        return node.helper("min", node.helper("max", x, low), high)
    if kind:
        raise node.unsupported(f"activation {kind}")
    return x


def _inputs(node: NodeContext, count: int) -> list[str]:
    return [str(name) for name in node.node.input[:count]]


def _fused_gemm(node: NodeContext) -> Value:
    y = read_gemm(_plain(node, "Gemm", _inputs(node, 3)), "")
    given = ("activation_alpha", "activation_beta")
    numbers = tuple(node.attr_float(name) for name in given if node.given(name))
    return _activated(node, y, node.attr_text("activation", ""), numbers)


def fused_convolution(node: NodeContext) -> Value:
    """A convolution, plus the fourth operand, activated."""
    y = read_convolution(_plain(node, "Conv", _inputs(node, 3)), "convolution")
    if node.has(3):
        y = node.helper("add", y, node.tensor(3))
    numbers = node.attr_floats("activation_params") if node.given("activation_params") else ()
    return _activated(node, y, node.attr_text("activation", ""), numbers)


def _operand(node: NodeContext, index: int, side: str) -> GraphTensor:
    """A or B; `transBatch` moves its first axis behind the batches, `trans` then turns its matrices."""
    x = node.tensor(index)
    rank = x.details.rank
    if node.attr_int(f"transBatch{side}", 0) and rank > 2:
        x = node.transposed(x, (*range(1, rank - 1), 0, rank - 1))
    return x


def _fused_matmul(node: NodeContext) -> Value:
    """alpha * A @ B; a vector is never transposed."""
    a, b = _operand(node, 0, "A"), _operand(node, 1, "B")
    transposes = [node.attr_int(f"trans{side}", 0) for side in "AB"]
    if min(a.details.rank, b.details.rank) < 2:
        y = matmul(node, a, b)
    else:
        y = node.make(
            "matmul_core", a, b, transpose_a=bool(transposes[0]), transpose_b=bool(transposes[1])
        )
    return scaled(node, y, node.attr_float("alpha", 1.0))


HANDLERS: dict[str, Handler] = {
    "com.microsoft::FusedConv": fused_convolution,
    "com.microsoft::FusedGemm": _fused_gemm,
    "com.microsoft::FusedMatMul": _fused_matmul,
    "com.microsoft::TransposeMatMul": _fused_matmul,
}
