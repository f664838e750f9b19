"""ai.onnx.preview: FlexAttention, whose graphs change the scores before the softmax and the weights behind it."""

from __future__ import annotations

from ...base.dtypes import DType
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import scores_of
from ..correspondence.compositions.heads import Sizes
from ..op_builder import Value
from .scope import Handler, NodeContext
from .tensors import to_dtype


def _flex_attention(node: NodeContext) -> Value:
    sizes, dtype = _sizes(node), node.details(0).dtype
    wide = _precision(node, dtype)
    q, k, v = (sizes.grouped(node, node.converted(node.tensor(i), wide)) for i in range(3))
    scale = node.attr_float("scale") if node.given("scale") else None
    scores = _changed(node, sizes, "score_mod", scores_of(node, q, k, scale))
    weights = node.helper("softmax", scores, axis=-1)
    y = node.make("matmul_core", _changed(node, sizes, "prob_mod", weights), v)
    shape = (sizes.batch, sizes.heads, sizes.queries, y.details.plain_dims[-1])
    return node.reshaped(node.converted(y, dtype), shape)


def _sizes(node: NodeContext) -> Sizes:
    """The common sizes. Raise UserError if queries, keys and values do not match."""
    dims = [node.details(i).plain_dims for i in range(3)]
    q, k, v = dims
    fits = {len(d) for d in dims} == {4} and (k[0], k[3]) == (q[0], q[3]) and v[:3] == k[:3]
    if not fits or not k[1] or q[1] % k[1] or not k[2]:
        raise node.rule(
            "Q, K and V must be [batch, heads, length, size] of one batch, Q and K of one size, and K's heads must "
            "divide Q's",
            ", ".join(str(node.details(i)) for i in range(3)),
        )
    return Sizes(q[0], q[1], k[1], q[2], 0, k[2])


def _precision(node: NodeContext, dtype: DType) -> DType:
    """The type of the scores: f32 or wider unless the node names another."""
    given = node.attr_int("softmax_precision", 0)
    wanted = to_dtype(f"FlexAttention '{node.name}'", given) if given else dtype.accumulator
    if not wanted.is_float or wanted.bits < 16:
        raise node.rule("softmax_precision must be a float type", str(wanted))
    return wanted


def _changed(node: NodeContext, sizes: Sizes, name: str, x: GraphTensor) -> GraphTensor:
    """Apply a graph of the node to scores or weights, which it takes as [batch, heads, queries, keys]."""
    if not node.given(name):
        return x
    graph, whole = node.attr_graph(name), (sizes.batch, sizes.heads, sizes.queries, sizes.keys)
    if len(graph.input) != 1 or len(graph.output) != 1:
        rule = f"{name} must take and return one tensor"
        raise node.rule(rule, f"{len(graph.input)} inputs and {len(graph.output)} outputs")
    given = node.reshaped(x, whole)
    y = node.scope.as_tensor(node.scope.inline(graph, {graph.input[0].name: given})[0])
    if y.details.plain_dims != whole or y.details.dtype != given.details.dtype:
        raise node.rule(f"{name} must return {given.details}", str(y.details))
    return node.reshaped(y, x.details.plain_dims)


HANDLERS: dict[str, Handler] = {"ai.onnx.preview::FlexAttention": _flex_attention}
