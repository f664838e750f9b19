"""Searches in sorted rows, of ATen."""

from __future__ import annotations

from ...base.dtypes import S32, S64
from ..torch_calls.arithmetic import promoted
from ..torch_calls.call import Value
from .node import Node, Read


def _read_search(node: Node) -> Value:
    """Count the elements of a sorted row before each value: its index there."""
    names = ("boundaries", "self") if "bucketize" in node.type else ("sorted_sequence", "self")
    row, x = promoted(node, node.tensor_of(names[0]), node.operand(names[1]))
    if node.given("sorter"):
        sorter = node.tensor_of("sorter", S64)
        row = node.helper("gather_elements", row, sorter, axis=row.details.rank - 1)
    is_right = node.attr_bool("right", False) or node.attr_text("side", "left") == "right"
    dims, ends = x.details.plain_dims, row.details.plain_dims
    values = node.reshaped(x, (*dims, 1))
    edges = node.reshaped(row, (*ends[:-1], 1, ends[-1])) if len(ends) > 1 else row
    behind = node.helper("gt" if is_right else "ge", edges, values)
    below = node.helper("not", behind)  # NaN lies behind everything
    count = node.helper("reduce_sum", node.converted(below, S64), axes=(-1,), keep_dims=False)
    return node.converted(count, S32 if node.attr_bool("out_int32", False) else S64)


HANDLERS: dict[str, Read] = dict.fromkeys(("searchsorted", "bucketize"), _read_search)
