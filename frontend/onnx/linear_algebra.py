"""Det and com.microsoft's Inverse by elimination, with the largest element of each column as pivot; CDist."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.arithmetic import distances
from ..correspondence.compositions.linear_algebra import determinant, inverse
from ..op_builder import Value
from .scope import Handler, NodeContext


def _check_square(node: NodeContext) -> None:
    details = node.details(0)
    if details.rank < 2 or details.plain_dims[-1] != details.plain_dims[-2]:
        raise node.rule("the last two axes must be square", str(details))


def _determinant(node: NodeContext) -> Value:
    _check_square(node)
    x = node.tensor(0)
    return node.converted(determinant(node, _wide(node, x)), x.details.dtype)


def _inverse(node: NodeContext) -> Value:
    """A singular matrix gives what is not finite."""
    _check_square(node)
    x = node.tensor(0)
    return node.converted(inverse(node, _wide(node, x)), x.details.dtype)


def _wide(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """16-bit floats as f32."""
    return node.converted(x, x.details.dtype.accumulator)


def _distances(node: NodeContext) -> Value:
    """Distances between all rows of one matrix and all rows of another."""
    a, b = node.tensor(0), node.tensor(1)
    if {a.details.rank, b.details.rank} != {2} or a.details.plain_dims[1] != b.details.plain_dims[
        1
    ]:
        rule = "both inputs must be matrices of as many columns"
        raise node.rule(rule, f"{a.details} and {b.details}")
    metric = node.attr_text("metric", "sqeuclidean")
    if metric == "euclidean":
        return distances(node, a, b)
    if metric != "sqeuclidean":
        raise node.rule("metric must be euclidean or sqeuclidean", f"'{metric}'")
    rows, columns = a.details.plain_dims
    gap = node.helper("sub", node.reshaped(a, (rows, 1, columns)), b)
    return node.make("reduce_sum_square", gap, axes=(2,), keep_dims=False)


HANDLERS: dict[str, Handler] = {
    "Det": _determinant,
    "com.microsoft::CDist": _distances,
    "com.microsoft::Inverse": _inverse,
}
