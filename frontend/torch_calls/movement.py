"""Shapes, slices, splits and borders that rows of the table cannot express."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.dims import MOST, Dim, Size, ceil_quotient, is_known
from ...base.size_limits import at_least
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.movement import (
    Stretch,
    axis_slice,
    bordered,
    element_index,
    reshape,
    slice_ranges,
    split,
    split_evenly,
    stretch,
    unstack,
)
from ..correspondence.compositions.numpy_names import with_axes
from .builder import Builder
from .call import Call, Handler, Value


def _read_reshape(node: Call, _: str) -> Value:
    """A 0 copies the size of the input's axis; for an empty tensor it is a size of 0, unless there is a -1."""
    x, shape = node.tensor_of(), node.attr_ints("shape")
    return reshape(node, x, shape, allowzero=0 in x.details.plain_dims and -1 not in shape)


# Borders.

OPEN_END = 2147483647
"""The value PNNX writes for an omitted end index; PyTorch uses the largest s64."""

PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
_MODULES = {
    "Zero": "constant",
    "Constant": "constant",
    "Reflection": "reflect",
    "Replication": "replicate",
    "Circular": "circular",
}


def _read_pad(node: Call, _: str) -> Value:
    """The name of a module says its mode and axes; one width counts for all borders."""
    if not node.is_module:
        mode, widths = node.attr_text("mode", "constant"), node.attr_ints("pad")
    else:
        kind, _, axes = node.type.removeprefix("nn.").partition("Pad")
        mode, widths = _MODULES[kind], node.attr_ints("padding")
        widths = widths * (2 * int(axes[0])) if len(widths) == 1 else widths
    return padded(node, node.tensor_of(), widths, mode, node.attr_float("value", 0.0))


def padded(
    node: Builder, x: GraphTensor, widths: Sequence[int], mode: str, value: float = 0.0
) -> GraphTensor:
    """`widths` are (before, after) of the last axis, then of the one before it, and so on."""
    rank = x.details.rank
    if len(widths) % 2 or len(widths) > 2 * rank:
        given = f"{list(widths)} for {x.details}"
        raise node.rule("there must be two widths for each padded axis", given)
    if mode not in PAD_MODES:
        raise node.rule(f"mode must be {', '.join(PAD_MODES)}", mode)
    none = (0,) * (rank - len(widths) // 2)
    before, after = ((*none, *widths[i::2][::-1]) for i in (0, 1))
    attrs: dict[str, Any] = {"value": value} if mode == "constant" else {}
    return bordered(node, x, before, after, mode=PAD_MODES[mode], **attrs)


# Slices.


def _read_slice(node: Call, _: str) -> Value:
    x = node.tensor_of()
    taken, dropped = sliced_ranges(node, x)
    return node.reshaped(slice_ranges(node, x, taken), kept_sizes(taken, dropped))


def sliced_ranges(node: Call, x: GraphTensor) -> tuple[list[range | Stretch], set[int]]:
    """The elements that a slice selects along each axis of x, and the axes removed by single indices.

    One axis (dim, start, end, step, select), or several at once (dims, starts, ...).
    """
    is_single = not node.given("dims")
    names = ("dim", "start", "end", "step", "select")
    dims, *fields = (_field(node, name if is_single else f"{name}s") for name in names)
    dims = [0] if dims is None else dims
    starts, ends, steps, selects = (
        [None] * len(dims) if field is None else field for field in fields
    )
    if any(len(field) != len(dims) for field in (starts, ends, steps, selects)):
        lengths = ", ".join(str(len(field)) for field in (dims, starts, ends, steps, selects))
        raise node.rule("dims, starts, ends, steps and selects must have one length", lengths)
    old = x.details.plain_dims
    taken: list[range | Stretch] = [Stretch(0, size) for size in old]
    dropped = set()
    for dim, start, end, step, select in zip(dims, starts, ends, steps, selects, strict=True):
        if dim is None or not old:
            raise node.rule("dims must name axes of the input", f"{dim} of {x.details}")
        axis = node.axis(dim, len(old))
        if select is not None and select != OPEN_END:
            taken[axis] = Stretch(element_index(node, select, old[axis]), 1)
            dropped.add(axis)
        elif step is not None and step < 1:
            raise node.rule("a step must be positive", str(step))
        else:
            first, last = 0 if start is None else start, MOST if end is None else end
            taken[axis] = axis_slice(node, first, last, 1 if step is None else step, old[axis])
    return taken, dropped


def kept_sizes(taken: Sequence[range | Stretch], dropped: set[int]) -> list[Size]:
    """The shape of a slice."""
    return [stretch(part).size for axis, part in enumerate(taken) if axis not in dropped]


def _field(node: Call, name: str) -> list[Any] | None:
    """One entry per axis of a slice; None where it is not given, or not for that axis."""
    value = node.argument(name)
    if value is None:
        return None
    values = value if isinstance(value, list) else [value]
    if any(isinstance(v, GraphTensor) for v in values):
        raise node.unsupported(
            f"'{name}' that depends on the model's data", "make it a number of the program"
        )
    if not all(v is None or type(v) in (int, Dim) for v in values):
        raise node.rule(f"'{name}' must hold integers", str(values)[:80])
    return [v if isinstance(v, (int, Dim)) else None for v in values]


# Splits: as many outputs as the line names.


def _read_split(node: Call) -> tuple[Value, ...]:
    """torch.chunk, split, tensor_split and unbind."""
    x = node.tensor_of()
    if not x.details.rank:
        raise node.rule("the input must have axes", str(x.details))
    axis = node.axis(node.attr_int("dim", 0), x.details.rank)
    total = x.details.plain_dims[axis]
    kind = next(name for name in _SIZES if name in node.type)
    sizes = _SIZES[kind](node, total)
    if len(sizes) != node.count or sum(sizes) != total or any(one < 0 for one in sizes):
        shown = str(list(sizes[:8]))[:-1] + (", ...]" if len(sizes) > 8 else "]")
        raise node.rule(f"{node.count} outputs must share the {total} elements", f"sizes {shown}")
    return tuple(unstack(node, x, axis) if kind == "unbind" else split(node, x, axis, sizes))


def _equal_sizes(node: Call, total: Any, each: Any) -> list[Any]:
    """Parts of `each` elements, the last one smaller; parts beyond the line's outputs are not listed."""
    if each < 1:
        raise node.rule("the size of a part must be 1 or more", str(each))
    if not is_known(total, each):  # as many parts for every size
        rest = total - (node.count - 1) * each
        if at_least(rest, 1) and at_least(each, rest):
            return [each] * (node.count - 1) + [rest]
    most = min(-(-total // each), node.count + 1) if total else 1
    return [max(0, min(each, total - i * each)) for i in range(most)]


def _chunk_sizes(node: Call, total: int) -> Sequence[int]:
    chunks = node.attr_int("chunks")
    if chunks < 1:
        raise node.rule("chunks must be 1 or more", str(chunks))
    if not total:
        return [0] * min(chunks, node.count + 1)
    return _equal_sizes(node, total, ceil_quotient(total, chunks))


def _split_sizes(node: Call, total: int) -> Sequence[int]:
    """A list of sizes, or the size of every part."""
    given = node.argument("split_size_or_sections")
    sizes = node.attr_ints("split_size_or_sections")
    return sizes if isinstance(given, list) else _equal_sizes(node, total, sizes[0])


def _tensor_split_sizes(node: Call, total: int) -> Sequence[int]:
    """Parts between indices, or as many parts as there are outputs, the first ones larger."""
    if node.given("indices"):
        marks = [slice(i, None).indices(total)[0] for i in node.attr_ints("indices")]
        return np.diff([0, *marks, total]).tolist()
    count = node.attr_int("sections")
    if count != node.count:
        raise node.rule(f"sections must be the {node.count} outputs", str(count))
    return [total // count + (i < total % count) for i in range(count)]


def split_along(node: Call, axis: int) -> Any:
    """torch.vsplit, hsplit and dsplit: parts of an axis, the only one of a vector, or equal ones by their number."""
    x, given = node.tensor_of(), node.argument("sections")
    axis = min(axis, x.details.rank - 1)
    total = x.details.plain_dims[axis]
    if isinstance(given, list):
        marks = [slice(i, None).indices(total)[0] for i in node.attr_ints("sections")]
        return split(node, x, axis, np.diff([0, *marks, total]).tolist())
    return split_evenly(node, x, axis, node.attr_int("sections"))


_SIZES: dict[str, Callable[[Call, Any], Sequence[Any]]] = {
    "chunk": _chunk_sizes,
    "tensor_split": _tensor_split_sizes,
    "split": _split_sizes,
    "unbind": lambda node, total: [1] * min(total, node.count + 1),
}
"""Window arguments by parts of operator names; the longer names first."""


def _read_ranked(node: Call, _: str) -> Value:
    """One tensor, or each of a list, with as many axes as the function's name says."""
    given, rank = node.argument("input") or node.argument("tensors"), int(node.type[-2])
    if isinstance(given, list):
        return [with_axes(node.part(), node.tensor(x), rank) for x in given]  # type: ignore[arg-type]
    return with_axes(node, node.tensor_of(), rank)


READS = {"ranked": _read_ranked, "reshape": _read_reshape, "pad": _read_pad, "slice": _read_slice}

CALLS = dict.fromkeys(_SIZES, Handler(_read_split))
"""Functions with as many outputs as a call has."""
