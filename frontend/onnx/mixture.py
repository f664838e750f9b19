"""com.microsoft MoE and QMoE: each row goes through the k experts that its router prefers.

Semantics: ONNX Runtime's description of the operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...base.dtypes import F32, S64, U8
from ...base.packed_words import WORD_BYTES, packed_words
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.matmul_nbits import known_zero
from ...graph_ir.rewriting.values import constant_value
from ..correspondence.compositions.experts import ExpertLayer, PackedLayer, Routes, routes_of
from ..op_builder import Value, like
from .quantize import shaped
from .scope import Handler, NodeContext
from .weight_only import dequantized, middle_of, unpacked

Layer = ExpertLayer | PackedLayer

GATED = "swiglu"
ACTIVATIONS = ("relu", "gelu", "silu", "identity", GATED)


def _mixture(node: NodeContext, layer_of: Callable[[NodeContext, int], Layer | None]) -> Value:
    """`layer_of` gives layer 1, 2 or 3 of the experts; None for a third one that is left out."""
    kind = node.attr_text("activation_type", "relu")
    if kind not in ACTIVATIONS:
        raise node.unsupported(f"activation_type={kind}")
    for name in ("use_sparse_mixer", "swiglu_limit_after_activation"):
        if node.attr_int(name, 0):
            raise node.unsupported(f"{name}=1")
    x = node.tensor(0)
    size = x.details.plain_dims[-1]
    tokens = math.prod(x.details.plain_dims[:-1])
    flat = node.converted(node.reshaped(x, (tokens, size)), F32)
    first, second, third = (layer_of(node, number) for number in (1, 2, 3))
    assert first is not None and second is not None
    routes = _routes(node, first.weights.details.plain_dims[0])
    rows = node.helper("gather", flat, routes.rows, axis=0)
    hidden = routes.through(node, rows, first)
    beside = None if third is None else routes.through(node, rows, third)
    y = routes.joined(node, routes.through(node, _activated(node, kind, hidden, beside), second))
    return node.reshaped(node.converted(y, x.details.dtype), x.details.plain_dims)


def _routes(node: NodeContext, experts: int) -> Routes:
    """Choose the experts of each token, and sort the tokens by them."""
    router, k = node.converted(node.tensor(1), F32), node.attr_int("k", 1)
    if router.details.rank != 2 or router.details.plain_dims[1] != experts or not 0 < k <= experts:
        rule = f"router_probs must be [tokens, {experts}] and k in [1, {experts}]"
        raise node.rule(rule, f"{router.details} and {k}")
    weights, chosen = node.outputs(
        "top_k", node.helper("softmax", router, axis=1), k=k, axis=1, largest=True
    )
    chosen = node.converted(chosen, S64)
    normalizes = bool(node.attr_int("normalize_routing_weights", 0))
    if node.type == "QMoE":
        if node.has(14):
            mix = node.converted(node.tensor(14), F32)
            weights = node.helper("gather_elements", mix, chosen, axis=1)
        else:  # on CPUs, ONNX Runtime takes the softmax of the chosen ones whatever the attribute says
            normalizes = True
    if normalizes:
        total = node.helper("reduce_sum", weights, axes=(1,), keep_dims=True)
        weights = node.helper("div", weights, total)
    return routes_of(node, weights, chosen, experts)


def _activated(
    node: NodeContext, kind: str, x: GraphTensor, beside: GraphTensor | None
) -> GraphTensor:
    """The hidden values, with those of a third layer or of the other half as factors where there are any."""
    if kind == GATED:
        return _gated(node, x, beside)
    if kind == "gelu":
        x = node.helper("gelu", x, approximate="tanh")
    elif kind == "silu":
        x = node.helper("mul", x, node.helper("sigmoid", x))
    elif kind == "relu":
        x = node.helper("relu", x)
    return x if beside is None else node.helper("mul", x, beside)


def _gated(node: NodeContext, x: GraphTensor, beside: GraphTensor | None) -> GraphTensor:
    """G * sigmoid(alpha * G) * (L + beta), both bounded; G and L are columns in turn, halves, or of two layers."""
    form = node.attr_int("swiglu_fusion", 0)
    rows, width = x.details.plain_dims
    if form == 0 and beside is not None:
        gate, up = x, beside
    elif form in (1, 2) and beside is None and width % 2 == 0:
        apart = (rows, width // 2, 2) if form == 1 else (rows, 2, width // 2)
        axis, both = (2 if form == 1 else 1), node.reshaped(x, apart)
        gate, up = (
            node.reshaped(node.sliced(both, axis, i, 1), (rows, width // 2)) for i in range(2)
        )
    else:
        rule = "swiglu_fusion must be 1 or 2 for one layer of an even width, and 0 for two"
        raise node.rule(rule, f"{form} and {x.details}")
    limit = node.attr_float("swiglu_limit", math.inf)
    if limit < math.inf:
        gate = node.helper("min", gate, like(node, limit, gate))
        up = node.helper("clamp", up, min=-limit, max=limit)
    slope = like(node, node.attr_float("activation_alpha", 1.0), gate)
    gate = node.helper("mul", gate, node.helper("sigmoid", node.helper("mul", slope, gate)))
    return node.helper(
        "mul", gate, node.helper("add", up, like(node, node.attr_float("activation_beta", 0.0), up))
    )


def _plain_layer(node: NodeContext, number: int) -> ExpertLayer | None:
    at = 2 * number
    if not node.has(at):
        return None
    return ExpertLayer(node.tensor(at), node.tensor(at + 1) if node.has(at + 1) else None)


def _quantized_layer(node: NodeContext, number: int) -> Layer | None:
    """Weights of 2, 4 or 8 bits with a scale per row, or per block of `block_size`; constants stay packed."""
    at, zero_at = 3 * number - 1, 10 + number
    if not node.has(at):
        return None
    if (kind := node.attr_text("quant_type", "int")) != "int":
        raise node.unsupported(f"quant_type={kind}")
    bits = node.attr_int("expert_weight_bits", 4)
    bits = node.attr_int(f"fc{number}_expert_weight_bits", bits)
    experts, rows, size = node.details(at).plain_dims
    if bits not in (2, 4, 8):
        raise node.unsupported(f"weights of {bits} bits")
    width = size * (8 // bits)
    block = node.attr_int("block_size", 0) or width
    blocks = width // max(block, 1)
    if width % block or node.details(at + 1).elements != experts * rows * blocks:
        rule = f"there must be a scale per row or per block of block_size, for weights of {width} columns"
        raise node.rule(rule, f"{node.details(at + 1)}, block_size {block}")
    numbers = unpacked(node, at, (experts, rows), bits)
    scale = node.converted(shaped(node, at + 1, (experts, rows, blocks)), F32)
    zero = _zero_points(node, zero_at, (experts, rows, blocks), bits)
    bias = node.tensor(at + 2) if node.has(at + 2) else None
    levels, zeros = constant_value(numbers), constant_value(zero)
    if levels is not None and zeros is not None and block % (8 * WORD_BYTES // bits) == 0:
        words = packed_words(levels.reshape(-1, width), bits).reshape(experts, rows, size)
        zeros = zeros.reshape((1, 1) if zeros.size == 1 else (experts, rows, blocks))
        attrs = {"bits": bits, "group": block, "parts": "expert", "zero": known_zero(zeros)}
        operands = node.constant(words, U8), scale, node.constant(zeros, F32)
        return PackedLayer(operands, attrs, bias)
    numbers = node.reshaped(numbers, (experts, rows, blocks, block))
    weights = dequantized(node, numbers, node.reshaped(scale, (experts, rows, blocks, 1)), zero)
    return ExpertLayer(node.reshaped(weights, (experts, rows, width)), bias)


def _zero_points(
    node: NodeContext, index: int, dims: tuple[int, int, int], bits: int
) -> GraphTensor:
    """[experts, rows, blocks, 1]: packed along the last axis that has several, or the middle of the range."""
    experts, rows, blocks = dims
    if not node.has(index):
        return middle_of(node, bits, 4)
    outer, count = (
        ((experts, rows), blocks) if node.details(index).rank == 3 else ((experts,), rows)
    )
    numbers = unpacked(node, index, outer, bits)
    known = constant_value(numbers)
    if known is not None:
        return node.constant(known[..., :count].reshape(*dims, 1), U8)
    return node.reshaped(node.sliced(numbers, len(outer), 0, count), (*dims, 1))


HANDLERS: dict[str, Handler] = {
    "com.microsoft::MoE": lambda node: _mixture(node, _plain_layer),
    "com.microsoft::QMoE": lambda node: _mixture(node, _quantized_layer),
}
