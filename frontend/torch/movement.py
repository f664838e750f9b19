"""Operators of ATen that move elements, and functions of Python under other names."""

from __future__ import annotations

from ...base.dims import MOST, Dim
from ..correspondence.compositions.movement import slice_axes, squeeze
from ..torch_calls.call import Value
from ..torch_calls.movement import padded
from ..torch_calls.op_table import CALLS
from .node import Node, Read

_SPLITS = ("split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk")
_BORDERS = {"reflection": "reflect", "replication": "replicate", "constant": "constant"}


def _read_slice(node: Node) -> Value:
    """Ends behind the axis are the axis's, however many elements a dynamic one has."""
    x, start, end = node.tensor_of(), node.argument("start"), node.argument("end")
    if not x.details.rank:
        raise node.rule("the input must have axes", "a scalar")
    ends = [0 if start is None else start, MOST if end is None else end]
    if not all(isinstance(at, (int, Dim)) for at in ends):
        raise node.unsupported(
            "a slice that depends on the model's data", "make it a number of the program"
        )
    begin, stop = ends
    step = node.attr_int("step", 1)
    return slice_axes(node, x, [begin], [stop], [node.attr_int("dim", 0)], [step])  # type: ignore[list-item]


def _read_pad(node: Node) -> Value:
    """The mode is in the name."""
    mode = next(ours for name, ours in _BORDERS.items() if name in node.type)
    widths = node.attr_ints("pad" if mode == "constant" else "padding")
    return padded(node, node.tensor_of(), widths, mode, node.attr_float("value", 0.0))


def _read_squeeze(node: Node) -> Value:
    """All axes of size 1, or those of a list, of which there may be none."""
    x = node.tensor_of()
    axes = node.attr_ints("dim", None)
    given = None if axes is None else tuple(node.axis(axis, x.details.rank) for axis in axes)
    return x if given == () or not x.details.rank else squeeze(node, x, given, strict=False)


def _read_cat(node: Node) -> Value:
    """Vectors without elements count as nothing beside tensors of other ranks; of several types one is made."""
    tensors = [node.as_output(x, 0) for x in node.tensors()]
    rank = max(x.details.rank for x in tensors)
    kept = [x for x in tensors if x.details.rank == rank or x.details.plain_dims != (0,)]
    axis = node.axis(node.attr_int("dim", 0), rank)
    return node.make("concat", *kept, axis=axis) if len(kept) > 1 else kept[0]


HANDLERS: dict[str, Read] = {
    "squeeze": _read_squeeze,
    **dict.fromkeys(_SPLITS, CALLS["split"].run),
    "cat": _read_cat,
    **dict.fromkeys(("slice", "slice_copy"), _read_slice),
    "constant_pad_nd": _read_pad,
    **{f"{kind}_pad{n}d": _read_pad for kind in ("reflection", "replication") for n in "123"},
}
