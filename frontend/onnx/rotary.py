"""RotaryEmbedding, of ONNX and of com.microsoft."""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import positions
from ..correspondence.compositions.rotary import rotary
from ..op_builder import OpBuilder, Value
from .scope import Handler, NodeContext


def angles_at(node: OpBuilder, table: GraphTensor, at: GraphTensor) -> GraphTensor:
    """Rows of a table [positions, angles] for positions [B, L]."""
    if table.details.rank != 2:
        raise node.rule("tables of angles must have 2 axes", str(table.details))
    return node.helper("gather", table, at, axis=0)


def _heads_apart(node: NodeContext, x: GraphTensor, size: int) -> GraphTensor:
    """[B, L, heads, size] of [B, heads, L, size] or of [B, L, heads * size]."""
    if x.details.rank == 4:
        return node.transposed(x, (0, 2, 1, 3))
    if x.details.rank != 3:
        raise node.rule("the input must have 3 or 4 axes", str(x.details))
    batch, length, width = x.details.plain_dims
    if size < 1 or width % size:
        raise node.rule("the size of a head must divide the width", f"{size} and {width}")
    return node.reshaped(x, (batch, length, width // size, size))


def _rotated(node: NodeContext, cos: GraphTensor, sin: GraphTensor, size: int) -> GraphTensor:
    """Apply the rotary embedding to the heads of the first input, in its shape."""
    x = node.tensor(0)
    apart = _heads_apart(node, x, size)
    y = rotary(node, apart, cos, sin, bool(node.attr_int("interleaved", 0)))
    if x.details.rank == 4:
        return node.transposed(y, (0, 2, 1, 3))
    return node.reshaped(y, x.details.plain_dims)


def _head_size(node: NodeContext, otherwise: int) -> int:
    """The size of a head of an input with 3 axes."""
    heads = node.attr_int("num_heads", 0)
    width = node.details(0).plain_dims[-1]
    if not heads:
        return otherwise
    if width % heads:
        raise node.rule("num_heads must divide the width", f"{heads} and {width}")
    return int(width // heads)


def _read_rotary(node: NodeContext) -> Value:
    """Rows of the tables are those of `position_ids`; without it the tables are [B, L, angles]."""
    cos, sin = node.tensor(1), node.tensor(2)
    if node.has(3):
        cos, sin = (angles_at(node, table, node.tensor(3)) for table in (cos, sin))
    if node.details(0).rank == 3 and not node.attr_int("num_heads", 0):
        raise node.rule("num_heads must be given for an input with 3 axes", "none")
    _check_angles(node, cos, node.attr_int("rotary_embedding_dim", 0))
    return _rotated(node, cos, sin, _head_size(node, 0))


def _check_angles(node: NodeContext, cos: GraphTensor, rotated: int) -> None:
    if rotated and cos.details.plain_dims[-1] * 2 != rotated:
        raise node.rule(f"the tables must have {rotated} / 2 angles", str(cos.details))


def _read_microsoft(node: NodeContext) -> Value:
    """`position_ids` are the positions [B, L], or the first of them [1]."""
    if node.attr_int("is_packed_batching", 0):
        raise node.unsupported("packed batching")
    rotated = node.attr_int("rotary_embedding_dim", 0)
    tables = node.tensor(2), node.tensor(3)
    _check_angles(node, tables[0], rotated)
    at = node.converted(node.tensor(1), S64)
    if at.details.rank == 1:
        at = positions(node, _length(node), 1, 2, node.reshaped(at, (1, 1)))
    cos, sin = (angles_at(node, table, at) for table in tables)
    return _rotated(node, cos, sin, _head_size(node, 2 * cos.details.plain_dims[-1]))


def _length(node: NodeContext) -> Size:
    size: Size = node.details(0).plain_dims[-2]
    return size


HANDLERS: dict[str, Handler] = {
    "RotaryEmbedding": _read_rotary,
    "com.microsoft::RotaryEmbedding": _read_microsoft,
}
