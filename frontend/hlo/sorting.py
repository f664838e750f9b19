"""sort and topk."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import S32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import positions
from .bits import from_total_order, total_order
from .bodies import is_canonical, sort_key
from .scope import Handler, Step
from .syntax import Computation, Word

_MAX_COMPARED = 2048  # elements of an axis that are all compared with one another


def _sort(step: Step) -> Any:
    step.count(1, -1)
    arrays = step.alike(step.tensors())
    dims = arrays[0].details.plain_dims
    axis = step.one_axis("dimensions", len(dims))
    body, _ = step.body("to_apply", [x for x in arrays for _ in range(2)], ["pred"])
    found = sort_key(body)
    if found is None:
        return _ranked_sort(step, arrays, axis, body)
    comparison, key, largest = found
    is_total = comparison.attributes.get("type") == Word("TOTALORDER")
    is_plain = is_canonical(key, is_total and arrays[0].details.dtype.is_float)
    keys = arrays[0]
    if not is_plain:
        keys = step.owner.inline_mapped(key, [x for x in arrays for _ in range(2)])
        keys = total_order(step, keys) if is_total else keys
    values, indices = step.outputs("top_k", keys, k=dims[axis], axis=axis, largest=largest)
    others = [step.make("gather_elements", x, indices, axis=axis) for x in arrays[is_plain:]]
    results = (values, *others) if is_plain else tuple(others)
    return results if len(results) > 1 else results[0]


def _ranked_sort(step: Step, arrays: list[GraphTensor], axis: int, body: Computation) -> Any:
    """Stable sort with any comparator: the rank of each element is the number of elements before it."""
    dims = arrays[0].details.plain_dims
    size, rank = dims[axis], len(dims)
    if size > _MAX_COMPARED:
        raise step.unsupported(
            f"a comparator other than < or > for more than {_MAX_COMPARED} elements",
            "compare by < or >",
        )
    # Pairs (j, i) are on two axes that replace the sorted one.
    pairs = (*dims[:axis], size, size, *dims[axis + 1 :])
    operands = []
    for x in arrays:
        for shape in ((*dims[: axis + 1], 1, *dims[axis + 1 :]), (*dims[:axis], 1, *dims[axis:])):
            operands.append(step.broadcast(step.reshaped(x, shape), pairs))
    before = step.owner.inline_mapped(body, operands)
    swap = [*range(axis), axis + 1, axis, *range(axis + 2, rank + 1)]
    after = step.transposed(before, swap)
    j, i = (positions(step, size, axis + k, rank + 1) for k in range(2))
    tied = step.make("and", step.make("not", after), step.make("lt", j, i))
    count = step.converted(step.make("or", before, tied), S64)
    position = step.make("reduce_sum", count, axes=(axis,), keep_dims=False)
    # indices[r] = the element of rank r, found the same way.
    wide = step.reshaped(position, (*dims[:axis], 1, *dims[axis:]))
    hit = step.make("eq", wide, j)
    found = step.make("reduce_sum", step.make("select", hit, i, step.constant(0)), axes=(axis + 1,))
    results = tuple(step.make("gather_elements", x, found, axis=axis) for x in arrays)
    return results if len(results) > 1 else results[0]


def top_k(step: Step, k: int, is_largest: bool) -> Any:
    """(values, s32 indices) of the last axis, floats in their total order."""
    (x,) = step.tensors(1)
    keys = total_order(step, x)
    values, indices = step.outputs("top_k", keys, k=k, axis=-1, largest=is_largest)
    return from_total_order(step, values, x.details.dtype), step.converted(indices, S32)


def _top_k(step: Step) -> Any:
    return top_k(step, step.attribute("k"), step.attribute("largest", True))


HANDLERS: dict[str, Handler] = {"sort": _sort, "topk": _top_k}
