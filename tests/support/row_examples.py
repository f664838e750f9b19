"""A graph of one op for each cell of the correspondence table."""

from __future__ import annotations

from typing import Any

from graphc.base.dtypes import BOOL, F32, S32, U8, DType
from graphc.frontend.correspondence.row import Row
from graphc.frontend.correspondence.spelling import Spelling
from graphc.frontend.correspondence.values import MUST_BE_GIVEN
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup
from graphc.graph_ir.ops.elementwise import Elementwise
from graphc.graph_ir.ops.reduce import Reduce

from .every_op import EXAMPLES, SHAPE

NOT_EVERYWHERE = ("last", "antialias", "scales")
"""Attributes of the examples that some formats have no form for."""


IN_REACH: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "sum_pool F.avg_pool2d": ((2, 4, 6), {"kernel": (2, 3)}),
    "lp_pool F.lp_pool1d": ((2, 4, 6), {"kernel": (3,), "p": 2.0}),
    "im2col F.unfold": ((1, 2, 4, 6), {"kernel": (2, 3), "strides": (1, 2)}),
    "max_pool_indices F.max_pool1d": ((2, 4, 6), {"kernel": (3,), "strides": (2,)}),
    "resize F.interpolate": ((2, 4, 6), {"shape": (2, 4, 9), "mode": "linear"}),
}
"""Size of the operand and attributes where the op's own example is beyond what the format can express."""


def row_example(row: Row, spelling: Spelling) -> Graph:
    """The op `op` of a row as the spelling can say it, its inputs and outputs."""
    types, attrs = _types_and_attrs(row, spelling)
    if (
        spelling.pair and row.name in EXAMPLES
    ):  # its function may need what the text does not mention
        attrs = {k: v for k, v in EXAMPLES[row.name][1].items() if k not in NOT_EVERYWHERE} | attrs
    if (known := f"{row.name} {spelling.types[0]}") in IN_REACH:
        dims, attrs = IN_REACH[known]
        types = [(F32, dims)]
    if attrs.get("transpose_a") or attrs.get("transpose_b"):
        types = [(F32, (4, 4))] * 2
    graph = Graph("example")
    tensors = [graph.make_input(LogicalTensor(*t), f"in{i}") for i, t in enumerate(types)]
    for tensor in graph.make(row.name, tensors, attrs, "op").outputs:
        graph.make_output(tensor)
    return graph


def _types_and_attrs(
    row: Row, spelling: Spelling
) -> tuple[list[tuple[DType, tuple[int, ...]]], dict[str, Any]]:
    """Inputs and attributes of an op that the spelling can say; attributes are not defaults where it names them."""
    cls = lookup(row.name)
    wanted = {k: v for k, v in spelling.fixed.items() if k != "rank"}
    if issubclass(cls, Elementwise):
        kinds = [kind for kind in cls.row.accepts if not spelling.kinds or kind in spelling.kinds]
        choices = (F32, U8 if row.name in ("shl", "shr") else S32, BOOL)
        dtype = next(d for d in choices if d.kind in kinds)
        defaults = {key: declared.default for key, declared in cls.row.attrs.items()}
        given = {k: 0.25 for k, default in defaults.items() if default is MUST_BE_GIVEN}
        named = [k for k in defaults if k in spelling.mentioned]
        given |= {k: 0.75 for k in named if isinstance(defaults[k], float)}
        count = len(cls.row.inputs)
        types: list[tuple[DType, tuple[int, ...]]] = [
            (BOOL if i < cls.row.conditions else dtype, SHAPE) for i in range(count)
        ]
        if row.name == "prelu":  # formats differ in the shapes of slopes; one per channel all have
            types[1] = (dtype, (SHAPE[1], 1))
        return types, given | wanted
    if issubclass(cls, Reduce):
        return [(BOOL if cls.row.accepts == ("bool",) else F32, SHAPE)], {
            "axes": (0, 2),
            "keep_dims": True,
        }
    inputs, attrs = EXAMPLES[row.name]
    required = sum(not formal.optional for formal in spelling.operands)
    if not spelling.pair:  # the bias beside the scale, say
        inputs = [*inputs, *inputs[-1:] * (required - len(inputs))]
    return inputs, {k: v for k, v in attrs.items() if k in (*spelling.mentioned, "dtype")} | wanted
