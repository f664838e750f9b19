"""Results whose number of rows depends on data: indices of elements, chosen and distinct rows, boxes that are kept."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....base.dims import Size
from ....base.dtypes import BOOL, S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .arithmetic import filled
from .control import CountedLoop, Round
from .indexing import dynamic_size, positions
from .movement import broadcast_to


def is_set(node: OpBuilder, x: Tensor) -> Tensor:
    """X != 0, as bool."""
    return x if x.details.dtype == BOOL else node.helper("ne", x, like(node, 0, x))


def first_rows(node: OpBuilder, x: Tensor, number: Size) -> Tensor:
    """The first `number` of what lies along axis 0."""
    return node.helper("counted_rows", x, size=(number,))


def true_indices(node: OpBuilder, mask: Tensor, name: str = "") -> Tensor:
    """Indices of the true elements of a bool list: s64[K], K a size named after `name`."""
    (most,) = mask.details.plain_dims
    op = node.graph.make("true_indices", [mask], {}, f"{node.name}.true_indices")
    return first_rows(node, op.outputs[0], node.counted(op.outputs[1], most, name))


def nonzero(node: OpBuilder, x: Tensor, name: str = "") -> list[Tensor]:
    """Indices along each axis of the elements of x that are not 0, in memory order: s64[K] each."""
    dims = x.details.plain_dims or (1,)
    flat = true_indices(node, node.reshaped(is_set(node, x), (math.prod(dims),)), name)
    found: list[Tensor] = []
    for axis in reversed(range(len(dims))):
        whole = dynamic_size(node, dims[axis])
        found.append(flat if axis == 0 else node.helper("mod", flat, whole))
        flat = flat if axis == 0 else node.helper("div", flat, whole)
    return found[::-1]


def stacked(node: OpBuilder, lists: list[Tensor], axis: int) -> Tensor:
    """Stack lists of one size along a new axis."""
    (number,) = lists[0].details.plain_dims
    shape = (1, number) if axis == 0 else (number, 1)
    rows = [node.reshaped(one, shape) for one in lists]
    return rows[0] if len(rows) == 1 else node.make("concat", *rows, axis=axis)


def rows_where(node: OpBuilder, x: Tensor, mask: Tensor, axis: int, name: str = "") -> Tensor:
    """Select the entries along an axis at which a bool list, at most as long, is true."""
    return node.make("gather", x, true_indices(node, mask, name), axis=axis)


def repeat_rows(
    node: OpBuilder, x: Tensor, repeats: Tensor, axis: int, total: Size | None = None
) -> Tensor:
    """Each element of an axis as often as its number in a list says (one number counts for all): `total` altogether,
    which a run counts where it is not known."""
    size = x.details.plain_dims[axis]
    each = broadcast_to(node, node.converted(repeats, S64), (size,))
    if total is None:
        total = node.counted(node.helper("reduce_sum", each, axes=(0,), keep_dims=True), None)
    ends = node.helper("cum_sum", each, axis=0)
    begins = node.helper("sub", ends, each)
    # At each position the number of elements that begin there; behind the last is nothing.
    ones = broadcast_to(node, node.constant(1, S64), (size,))
    zeros = filled(node, (total,), 0, S64)
    begun = node.helper("scatter", begins, zeros, ones, reduction="add", run=1)
    index = node.helper("sub", node.helper("cum_sum", begun, axis=0), node.constant(1, S64))
    return node.make("gather", x, index, axis=axis)


@dataclass(frozen=True)
class Distinct:
    """The distinct elements of a list: their values, the first position of each, the number among them
    of each element, and how often each occurs."""

    values: Tensor
    first: Tensor
    inverse: Tensor
    counts: Tensor


def along(node: OpBuilder, x: Tensor, axis: int, find: Callable[[Tensor], Distinct]) -> Distinct:
    """The result of `find` for the matrix whose rows are the slices of an axis."""
    dims = x.details.plain_dims
    perm = (axis, *(i for i in range(len(dims)) if i != axis))
    outer = [dims[i] for i in perm[1:]]
    width = math.prod(outer)
    found = find(node.reshaped(node.transposed(x, perm), (dims[axis], width)))
    values = node.reshaped(found.values, (found.values.details.plain_dims[0], *outer))
    back = [perm.index(i) for i in range(len(dims))]
    return Distinct(node.transposed(values, back), found.first, found.inverse, found.counts)


def runs(node: OpBuilder, x: Tensor, name: str = "") -> Distinct:
    """The same of runs of equal elements of a list, or rows of a matrix, in the order of its elements."""
    begins = _begins(node, x)
    first, inverse = true_indices(node, begins, name), _numbers(node, begins)
    values = node.helper("gather", x, first, axis=0)
    return Distinct(values, first, inverse, _counts(node, inverse, first))


def distinct(node: OpBuilder, x: Tensor, in_order: bool, name: str = "") -> Distinct:
    """Distinct elements of a list, or distinct rows of a matrix, in ascending order or, not `in_order`, by
    first appearance."""
    size = x.details.plain_dims[0]
    indices = _in_order(node, x)
    begins = _begins(node, node.helper("gather", x, indices, axis=0))
    group = _numbers(node, begins)
    if in_order:
        starts = true_indices(node, begins, name)
        first, inverse = (
            node.helper("gather", indices, starts, axis=0),
            _placed(node, indices, group),
        )
    else:
        of_group = node.graph.make("true_indices", [begins], {}, f"{node.name}.starts").outputs[0]
        start = node.helper("gather", of_group, group, axis=0)
        origin = _placed(node, indices, node.helper("gather", indices, start, axis=0))
        is_first = node.helper("eq", origin, positions(node, size, 0, 1))
        first = true_indices(node, is_first, name)
        inverse = node.helper("gather", _numbers(node, is_first), origin, axis=0)
    values = node.helper("gather", x, first, axis=0)
    return Distinct(values, first, inverse, _counts(node, inverse, first))


def _in_order(node: OpBuilder, x: Tensor) -> Tensor:
    """The indices of a list's elements, or of a matrix's rows by their first, second, ... element, ascending."""
    size, *width = x.details.plain_dims
    if not width:
        return _ascending(node, x)

    def step(build: OpBuilder, trip: Tensor, state: list[Tensor], fixed: list[Tensor]) -> Round:
        last = dynamic_size(build, width[0] - 1)
        column = build.helper("gather", fixed[0], build.helper("sub", last, trip), axis=0)
        keys = build.helper("gather", column, state[0], axis=0)
        return Round([build.helper("gather", state[0], _ascending(build, keys), axis=0)])

    columns = node.transposed(x, (1, 0))
    return CountedLoop(node, width[0]).make([positions(node, size, 0, 1)], [columns], step)[0]


def _ascending(node: OpBuilder, keys: Tensor) -> Tensor:
    """The indices of a list's elements in ascending order; equal elements keep theirs."""
    attrs = {"k": keys.details.plain_dims[0], "axis": 0, "largest": False}
    return node.graph.make("top_k", [keys], attrs, f"{node.name}.top_k").outputs[1]


def _begins(node: OpBuilder, x: Tensor) -> Tensor:
    """Mark elements that differ from their predecessor; the first element counts as different."""
    size = x.details.plain_dims[0]
    later, earlier = (node.sliced(x, 0, begin, size - 1) for begin in (1, 0))
    changes = node.helper("ne", later, earlier)
    if x.details.rank > 1:
        changes = node.helper("reduce_any", changes, axes=(1,), keep_dims=False)
    return node.helper("concat", node.constant([True], BOOL), changes, axis=0)


def _counts(node: OpBuilder, inverse: Tensor, first: Tensor) -> Tensor:
    """Count the elements of a list that have each number, for as many numbers as `first` has entries."""
    zeros, each = (filled(node, inverse.details.plain_dims, n, S64) for n in (0, 1))
    counts = node.helper("scatter", inverse, zeros, each, reduction="add", run=1)
    return first_rows(node, counts, first.details.plain_dims[0])


def _numbers(node: OpBuilder, begins: Tensor) -> Tensor:
    """Count the true elements of a bool list up to and including each element, minus one."""
    total = node.helper("cum_sum", node.converted(begins, S64), axis=0)
    return node.helper("sub", total, node.constant(1, S64))


def _placed(node: OpBuilder, indices: Tensor, values: Tensor) -> Tensor:
    """`values` at these indices of a list as long."""
    zeros = filled(node, values.details.plain_dims, 0, S64)
    return node.helper("scatter", indices, zeros, values, reduction="none", run=1)
