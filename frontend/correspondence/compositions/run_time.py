"""Slices, ranges and padding with bounds that are known only at run time.

Each run checks that a result has the size that is declared, or counts it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....base.dims import MOST, Dim, Size, maximum
from ....base.dtypes import BOOL, F64, S64
from ....base.records import dataclass
from ....base.size_limits import broadcast_sizes
from ....base.size_queries import sizes_text
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ....graph_ir.rewriting.run_sizes import Reading
from ...op_builder import OpBuilder, like
from .indexing import dynamic_size, positions, wrapped


def slice_from(
    node: OpBuilder, x: Tensor, axis: int, bounds: tuple[Tensor, Tensor, Tensor], size: int | str
) -> Tensor:
    """`x[start:end:step]` along an axis, for s64[] that only a run knows.

    The result must have `size` elements; with the name of a size a run counts them.
    """
    start, end, step = bounds
    step = node.helper(
        "max", node.helper("min", step, like(node, MOST, step)), like(node, -MOST, step)
    )
    dim = x.details.plain_dims[axis]
    whole, zero, one = dynamic_size(node, dim), node.constant(0, S64), node.constant(1, S64)
    forward = node.helper("gt", step, zero)
    low = node.helper("select", forward, zero, node.constant(-1, S64))
    high = node.helper("select", forward, whole, node.helper("sub", whole, one))

    def cut(bound: Tensor) -> Tensor:
        wrapped = node.helper("add", bound, whole)
        bound = node.helper("select", node.helper("lt", bound, zero), wrapped, bound)
        return node.helper("min", node.helper("max", bound, low), high)

    first = node.helper("max", cut(start), node.helper("min", zero, high))
    distance = node.helper("sub", cut(end), first)
    toward = node.helper("select", forward, one, node.constant(-1, S64))
    ahead = node.helper("sub", node.helper("add", distance, step), toward)
    moves = node.helper("ne", step, zero)
    safe = node.helper("select", moves, step, one)
    count = not_negative(node, node.helper("div", ahead, safe))
    kept: Size
    if isinstance(size, str):
        node.require(moves, "steps must not be 0")
        kept = node.counted(count, dim, size)
    else:
        kept = size
        fits = node.helper("and", node.helper("eq", count, node.constant(size, S64)), moves)
        node.require(fits, f"axis {axis} must keep {size} elements, as the result is declared")
    steps = node.helper("mul", positions(node, kept, 0, 1), step)
    return node.helper("gather", x, node.helper("add", steps, first), axis=axis)


def expand(node: OpBuilder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """X and the shape broadcast against each other; x itself where it has that shape.

    Each run checks a size that it counts, and takes the first element of an axis of x that turns out to have one.
    """
    given: list[Size] = list(shape)
    counted = {op.attr("size")[0] for op in node.graph.counted}
    for axis in range(-min(x.details.rank, len(shape)), 0):
        one, dim = shape[axis], x.details.plain_dims[axis]
        if one not in counted or dim == 1:
            continue
        apart = dynamic_size(node, (one - 1) * (dim - 1) * (one - dim))
        fits = node.helper("eq", apart, node.constant(0, S64))
        node.require(fits, f"the shape must broadcast with the {dim} elements of axis {axis}")
        given[axis] = dim
        if isinstance(dim, Dim):
            given[axis] = maximum(one, dim)
            at = node.helper("min", positions(node, given[axis], 0, 1), dynamic_size(node, dim - 1))
            x = node.helper("gather", x, at, axis=axis)
    dims = x.details.plain_dims
    try:
        wanted = broadcast_sizes(dims, tuple(given))
    except ValueError:
        both = f"{sizes_text(dims)} and {sizes_text(shape)}"
        raise node.rule("the input must broadcast to the shape", both) from None
    return x if wanted == dims else node.make("broadcast", x, shape=wanted)


def end_of_slice(node: OpBuilder, dim: Size, step: int) -> Reading | None:
    """Return how a slice reads an end of an axis: negative ones count from the back, and none lies outside."""

    def cut(end: Tensor) -> Tensor:
        size = dynamic_size(node, dim)
        return node.helper("min", not_negative(node, wrapped(node, end, (dim,))), size)

    return Reading(("slice", dim), cut) if step > 0 else None


def end_of_range(node: OpBuilder) -> Reading:
    """Return how a range from 0 on reads its end: as at least 0."""
    return Reading(("range",), lambda end: not_negative(node, end))


def not_negative(node: OpBuilder, x: Tensor) -> Tensor:
    """Numbers, at least 0."""
    return node.helper("max", x, like(node, 0, x))


def range_from(node: OpBuilder, start: Tensor, limit: Tensor, delta: Tensor, size: int) -> Tensor:
    """start, start + delta, ... up to before `limit`, of one type, which must be `size` numbers."""
    fits = node.helper("eq", _range_count(node, start, limit, delta), node.constant(size, F64))
    node.require(fits, f"there must be {size} numbers, as the result is declared")
    return _range_of(node, start, delta, size)


def counted_range(node: OpBuilder, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """The same of as many numbers as a run counts."""
    return _range_of(
        node, start, delta, node.counted(_range_count(node, start, limit, delta), None)
    )


def _range_count(node: OpBuilder, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """The number of elements of a range, f64[]."""
    first, last, step = _wide(node, start, limit, delta)
    distance, each = (node.converted(x, F64) for x in (node.helper("sub", last, first), step))
    count = node.helper("ceil", node.helper("div", distance, each))
    return not_negative(node, count)


def _range_of(node: OpBuilder, start: Tensor, delta: Tensor, size: Size) -> Tensor:
    """`size` numbers from `start` on."""
    first, step = _wide(node, start, delta)
    indices = node.converted(positions(node, size, 0, 1), first.details.dtype)
    numbers = node.helper("add", node.helper("mul", indices, step), first)
    return node.converted(numbers, start.details.dtype)


def _wide(node: OpBuilder, *numbers: Tensor) -> list[Tensor]:
    """Single numbers of one type as f64[] or s64[]."""
    wide = F64 if numbers[0].details.dtype.is_float else S64
    return [node.converted(node.reshaped(x, ()), wide) for x in numbers]


def pad_with(
    node: OpBuilder, x: Tensor, value: Tensor, before: Sequence[int], after: Sequence[int]
) -> Tensor:
    """x with a border of a value that only a run knows."""

    def widened(y: Tensor) -> Tensor:
        widths = {"before": tuple(before), "after": tuple(after)}
        return node.helper("pad", y, mode="constant", value=0, **widths)

    inside = node.helper("broadcast", node.constant(True, BOOL), shape=x.details.plain_dims)
    return node.make("select", widened(inside), widened(x), node.reshaped(value, ()))


@dataclass(frozen=True)
class Border:
    """Padding before and after an axis, s64[] each, and its mode; "constant" adds `value` (one element)."""

    mode: str
    before: Tensor
    after: Tensor
    value: Tensor


def pad_from(node: OpBuilder, x: Tensor, axis: int, border: Border, size: int) -> Tensor:
    """x with an axis padded, or cropped where widths are negative, by as much as only a run knows, to `size`."""
    old = x.details.plain_dims[axis]
    whole, zero = (node.constant(n, S64) for n in (old, 0))
    total = node.helper("add", node.helper("add", border.before, border.after), whole)
    fits = node.helper("eq", total, node.constant(size, S64))
    node.require(fits, f"axis {axis} must become {size} long, as the result is declared")
    at = node.helper("sub", positions(node, size, 0, 1), border.before)
    if border.mode == "wrap":
        at = node.helper("mod", at, whole, sign="floor")
    elif border.mode == "reflect" and old > 1:
        period = node.constant(2 * old - 2, S64)
        at = node.helper("mod", at, period, sign="floor")
        at = node.helper("min", at, node.helper("sub", period, at))
    inside = node.helper("and", node.helper("ge", at, zero), node.helper("lt", at, whole))
    clamped = node.helper("min", node.helper("max", at, zero), node.constant(old - 1, S64))
    y = node.helper("gather", x, clamped, axis=axis)
    if border.mode != "constant":
        return y
    inside = node.reshaped(inside, [size if i == axis else 1 for i in range(x.details.rank)])
    return node.helper("select", inside, y, border.value)
