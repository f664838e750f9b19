"""Operators that take parts of a tensor at positions given in the file: slices, rolls, splits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from .param_value import OPEN_END
from .scope import Handler, Node, Value


def _sized(node: Node) -> tuple[GraphTensor, int, int]:
    """The input, its axis `dim` (default 0), and the size of that."""
    x = node.tensor_of()
    if not x.details.rank:
        raise node.rule("the input must have axes", str(x.details))
    axis = node.axis(node.integer("dim", 0), x.details.rank)
    return x, axis, x.details.plain_dims[axis]


def _select(node: Node) -> Value:
    x, axis, size = _sized(node)
    index = _index(node, node.integer("index"), size)
    dims = x.details.plain_dims
    return node.reshaped(node.part_of(x, axis, index, 1), (*dims[:axis], *dims[axis + 1 :]))


def _index(node: Node, index: int, size: int) -> int:
    if not -size <= index < size:
        raise node.rule(f"the index must be in [{-size}, {size})", str(index))
    return index % size


def _narrow(node: Node) -> Value:
    x, axis, size = _sized(node)
    start, length = node.integer("start"), node.integer("length")
    start = start + size if start < 0 else start
    if start < 0 or length < 0 or start + length > size:
        raise node.rule(f"the part must lie in the {size} elements", f"{length} from {start} on")
    return node.part_of(x, axis, start, length)


def _slice(node: Node) -> Value:
    x = node.tensor_of()
    taken, dropped = sliced_ranges(node, x)
    return node.reshaped(_taken(node, x, taken), kept_sizes(taken, dropped))


def sliced_ranges(node: Node, x: GraphTensor) -> tuple[list[range], set[int]]:
    """The elements that a slice selects along each axis of x, and the axes removed by single indices.

    One axis (dim, start, end, step, select), or several at once (dims, starts, ...).
    """
    is_single = "dims" not in node.op.params
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
    taken = [range(size) for size in old]
    dropped = set()
    for dim, start, end, step, select in zip(dims, starts, ends, steps, selects, strict=True):
        if dim is None or not old:
            raise node.rule("dims must name axes of the input", f"{dim} of {x.details}")
        axis = node.axis(dim, len(old))
        if select is not None and select != OPEN_END:
            place = _index(node, select, old[axis])
            taken[axis] = range(place, place + 1)
            dropped.add(axis)
        else:
            taken[axis] = _range(node, old[axis], start, end, step)
    return taken, dropped


def kept_sizes(taken: Sequence[range], dropped: set[int]) -> list[int]:
    """The shape of a slice."""
    return [len(r) for axis, r in enumerate(taken) if axis not in dropped]


def _field(node: Node, name: str) -> list[int | None] | None:
    """One entry per axis of a slice; None where it is not given, or not for that axis."""
    value = node.argument(name)
    if value is None:
        return None
    values = value if isinstance(value, list) else [value]
    if any(isinstance(v, GraphTensor) for v in values):
        raise node.unsupported(f"'{name}' that depends on the model's data")
    if not all(v is None or type(v) is int for v in values):
        raise node.rule(f"'{name}' must hold integers", str(values)[:80])
    return [v if isinstance(v, int) else None for v in values]


def _range(node: Node, size: int, start: int | None, end: int | None, step: int | None) -> range:
    step = 1 if step is None else step
    if step < 1:
        raise node.rule("a step must be positive", str(step))
    return range(*slice(start, end, step).indices(size))


def _taken(node: Node, x: GraphTensor, ranges: Sequence[range]) -> GraphTensor:
    return node.make(
        "slice",
        x,
        starts=tuple(r.start if r else 0 for r in ranges),
        steps=tuple(r.step if r else 1 for r in ranges),
        sizes=tuple(map(len, ranges)),
    )


def _flip(node: Node) -> Value:
    x = node.tensor_of()
    axes = {node.axis(axis, x.details.rank) for axis in node.integers("dims")}
    dims = x.details.plain_dims
    return _taken(
        node, x, [range(d - 1, -1, -1) if i in axes else range(d) for i, d in enumerate(dims)]
    )


def _roll(node: Node) -> Value:
    x = node.tensor_of()
    shifts, dims = node.integers("shifts"), node.integers("dims", ())
    if not dims:  # the elements in order, as one axis
        dims = [0]
        whole = node.reshaped(x, (x.details.elements,))
        return node.reshaped(_rolled(node, whole, shifts, dims), x.details.plain_dims)
    return _rolled(node, x, shifts, dims)


def _rolled(node: Node, x: GraphTensor, shifts: Sequence[int], dims: Sequence[int]) -> GraphTensor:
    if len(shifts) != len(dims):
        raise node.rule("shifts and dims must have one length", f"{list(shifts)} and {list(dims)}")
    for shift, dim in zip(shifts, dims, strict=True):
        axis = node.axis(dim, x.details.rank)
        size = x.details.plain_dims[axis] if x.details.rank else 0
        moved = shift % size if size else 0
        if moved:
            part = node.part()
            ends = [
                part.part_of(x, axis, size - moved, moved),
                part.part_of(x, axis, 0, size - moved),
            ]
            x = node.helper("concat", *ends, axis=axis)
    return x


# Splits: as many outputs as the line names.


def _pieces(node: Node, x: GraphTensor, axis: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    total = x.details.plain_dims[axis]
    if len(sizes) != node.count or sum(sizes) != total or min(sizes, default=0) < 0:
        shown = str(list(sizes[:8]))[:-1] + (", ...]" if len(sizes) > 8 else "]")
        raise node.rule(f"{node.count} outputs must share the {total} elements", f"sizes {shown}")
    starts = [0, *np.cumsum(np.array(sizes, np.int64)).tolist()]
    return tuple(
        node.part_of(x, axis, start, size) for start, size in zip(starts, sizes, strict=False)
    )


def _equal_sizes(node: Node, total: int, each: int) -> list[int]:
    """Parts of `each` elements, the last one smaller; parts beyond the line's outputs are not listed."""
    most = min(-(-total // each), node.count + 1) if total else 1
    return [max(0, min(each, total - i * each)) for i in range(most)]


def _chunk(node: Node) -> tuple[Value, ...]:
    x, axis, size = _sized(node)
    chunks = node.integer("chunks")
    if chunks < 1:
        raise node.rule("chunks must be 1 or more", str(chunks))
    if not size:
        return _pieces(node, x, axis, [0] * min(chunks, node.count + 1))
    return _pieces(node, x, axis, _equal_sizes(node, size, -(-size // chunks)))


def _split(node: Node) -> tuple[Value, ...]:
    x, axis, size = _sized(node)
    name = next(
        (n for n in ("split_size_or_sections", "split_size") if node.given(n)), "split_sizes"
    )
    given = node.argument(name)
    if isinstance(given, list):
        return _pieces(node, x, axis, node.integers(name))
    each = node.integer(name)
    if each < 1:
        raise node.rule("the size of a part must be 1 or more", str(each))
    return _pieces(node, x, axis, _equal_sizes(node, size, each))


def _tensor_split(node: Node) -> tuple[Value, ...]:
    x, axis, size = _sized(node)
    if node.given("indices"):
        marks = [slice(i, None).indices(size)[0] for i in node.integers("indices")]
        sizes = np.diff([0, *marks, size]).tolist()
        return _pieces(node, x, axis, sizes)
    count = node.integer("sections")
    if count != node.count:
        raise node.rule(f"sections must be the {node.count} outputs", str(count))
    return _pieces(node, x, axis, [size // count + (i < size % count) for i in range(count)])


def _unbind(node: Node) -> tuple[Value, ...]:
    x, axis, size = _sized(node)
    if size != node.count:
        raise node.rule(f"the axis must have the {node.count} elements of the outputs", str(size))
    dims = x.details.plain_dims
    rest = (*dims[:axis], *dims[axis + 1 :])
    return tuple(node.reshaped(node.part_of(x, axis, i, 1), rest) for i in range(size))


_BY_NAME: dict[str, Handler] = {
    "select": Handler(_select, ("input", "dim", "index")),
    "narrow": Handler(_narrow),
    "slice": Handler(_slice, ("input", "dim", "start", "end", "step")),
    "flip": Handler(_flip),
    "roll": Handler(_roll),
    "chunk": Handler(_chunk),
    "split": Handler(_split),
    "tensor_split": Handler(_tensor_split),
    "unbind": Handler(_unbind),
}

HANDLERS: dict[str, Handler] = {
    f"{prefix}.{name}": h for prefix in ("torch", "Tensor") for name, h in _BY_NAME.items()
}
"""Operators of this family."""
