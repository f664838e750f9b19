"""Normalizations of sums, as ONNX Runtime's optimizer writes them: of a residual, and of embeddings."""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import F32, S32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import positions
from ..correspondence.compositions.reduction import moments
from ..op_builder import Value, like
from .quantize import shaped
from .scope import Handler, NodeContext


def _normal(
    node: NodeContext, x: GraphTensor, scale: GraphTensor, bias: GraphTensor | None, simple: bool
) -> GraphTensor:
    """Layer norm of the last axis; the simple one only divides by the root of the mean of squares."""
    epsilon = node.attr_float("epsilon", 1e-12)
    if simple:
        return node.make("rms_norm", x, scale, axis=-1, epsilon=epsilon)
    parameters = [scale] if bias is None else [scale, bias]
    return node.make("layer_norm", x, *parameters, axis=-1, epsilon=epsilon)


def _statistics(node: NodeContext, x: GraphTensor, simple: bool) -> list[GraphTensor]:
    """Mean and 1 / sqrt(variance + epsilon), of f32, over the last axis."""
    wide, last = node.converted(x, F32), x.details.rank - 1
    if simple:
        mean = variance = node.helper(
            "reduce_mean", node.helper("square", wide), axes=(last,), keep_dims=True
        )
    else:
        mean, variance = moments(node, wide, (last,))
    shifted = node.helper("add", variance, like(node, node.attr_float("epsilon", 1e-12), wide))
    return [mean, node.helper("rsqrt", shifted)]


def _residual(node: NodeContext, bias: int) -> GraphTensor:
    """The first two inputs and the bias, the one at that index, added."""
    total = node.helper("add", node.tensor(0), node.tensor(1))
    return node.helper("add", total, node.tensor(bias)) if node.has(bias) else total


def _skip(node: NodeContext) -> list[Value]:
    x = _residual(node, 4)
    y = _normal(node, x, node.tensor(2), node.tensor(3) if node.has(3) else None, simple=False)
    return _results(node, y, x, simple=False)


def _skip_simple(node: NodeContext) -> list[Value]:
    x = _residual(node, 3)
    y = _normal(node, x, node.tensor(2), None, simple=True)
    return _results(node, y, x, simple=True)


def _results(node: NodeContext, y: GraphTensor, x: GraphTensor, simple: bool) -> list[Value]:
    wanted = node.wants(1) or node.wants(2)
    if not wanted and not node.wants(3):
        return [y]
    found = _statistics(node, x, simple) if wanted else [x, x]
    return [y, *found, x]


def _simple(node: NodeContext) -> list[Value]:
    """Over the axes from `axis` on, by a scale of their shape."""
    x = node.tensor(0)
    axis = node.axis(node.attr_int("axis", -1), x.details.rank)
    epsilon = node.attr_float("epsilon", 1e-5)
    y = node.make("rms_norm", x, node.tensor(1), axis=axis, epsilon=epsilon)
    if not node.wants(1):
        return [y]
    if axis != x.details.rank - 1:
        raise node.unsupported("the second output for several axes")
    return [y, _statistics(node, x, simple=True)[1]]


def _embed(node: NodeContext) -> list[Value]:
    """Layer norm of the embeddings of words, positions and segments added; the number of unmasked words; the sum."""
    total = _embedded(node, lambda index, at: _rows(node, node.tensor(index), at), 8)
    y = _normal(node, total, node.tensor(5), node.tensor(6), simple=False)
    return _with_mask(node, y, total)


def _embed_quantized(node: NodeContext) -> list[Value]:
    """The same of tables of bytes: the scale of input i is input i + 6, its zero point i + 11."""

    def real(index: int, x: GraphTensor) -> GraphTensor:
        given = [shaped(node, index + more, ()) for more in (6, 11) if node.has(index + more)]
        return node.helper("dequantize", x, *given)

    total = _embedded(
        node, lambda index, at: real(index, _rows(node, node.tensor(index), at)), None
    )
    scale, bias = (real(index, node.tensor(index)) for index in (5, 6))
    return _with_mask(node, _normal(node, total, scale, bias, simple=False), total)


def _rows(node: NodeContext, table: GraphTensor, at: GraphTensor) -> GraphTensor:
    return node.helper("gather", table, at, axis=0)


def _embedded(
    node: NodeContext, rows: Callable[[int, GraphTensor], GraphTensor], position_input: int | None
) -> GraphTensor:
    """Embeddings added: of words (input 2), positions (3; as that input says, or counted) and segments (4).

    `rows(index, at)` are the rows `at` of the table that is input `index`.
    """
    ids = node.tensor(0)
    length = ids.details.plain_dims[1]
    if position_input is not None and node.has(position_input):
        at = node.tensor(position_input)
    else:
        at = node.reshaped(positions(node, length, 0, 1), (length,))
    total = node.helper("add", rows(2, ids), rows(3, at))
    if node.has(1) and node.has(4):
        total = node.helper("add", total, rows(4, node.tensor(1)))
    return total


def _with_mask(node: NodeContext, y: GraphTensor, total: GraphTensor) -> list[Value]:
    """The result, the number of unmasked words, and the sum of the embeddings."""
    if not node.wants(1) and not node.wants(2):
        return [y]
    return [y, _unmasked(node, (node.details(0).plain_dims[0],)), total]


def _unmasked(node: NodeContext, shape: tuple[int, ...]) -> GraphTensor:
    """Count the words of each sentence that the mask keeps; 0 without a mask."""
    if not node.has(7):
        return node.helper("broadcast", node.constant(0, S32), shape=shape)
    kept = node.helper("reduce_sum", node.converted(node.tensor(7), S64), axes=(1,))
    return node.converted(node.reshaped(kept, shape), S32)


HANDLERS: dict[str, Handler] = {
    "SimplifiedLayerNormalization": _simple,
    "com.microsoft::SimplifiedLayerNormalization": _simple,
    "com.microsoft::SkipLayerNormalization": _skip,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_simple,
    "com.microsoft::EmbedLayerNormalization": _embed,
    "com.microsoft::QEmbedLayerNormalization": _embed_quantized,
}
