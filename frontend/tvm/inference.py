"""Attributes that a kernel's file does not hold, found by trying: where one value alone gives the known result, it is
that value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from ...base.errors import GraphcError, InternalError
from ...graph_ir.ir.graph import Graph, GraphTensor
from .scope import Call, Operator, OperatorContext, UndeterminedError

_RESHAPES = ("reshape", "squeeze", "expand_dims", "nn_batch_flatten", "flatten")
"""Operators of which nothing but the shape of the result matters."""

_MAX_PERMUTED, _MAX_REDUCED = 6, 8
"""Axes up to which all orders and all sets of them are tried."""


def build(graph: Graph, call: Call, operator: Operator) -> list[GraphTensor]:
    """Append an operator; its results. Raise UndeterminedError if no value of an attribute fits, or several do."""
    context = OperatorContext(graph, call)
    if call.type in _RESHAPES and context.result is not None:
        return [context.make("reshape", context.x, shape=context.result.plain_dims)]
    count = len(graph.ops)
    try:
        made = operator(context)
        return made if isinstance(made, list) else [made]
    except UndeterminedError as error:
        graph.remove(graph.ops[count:])
        fits: dict[Hashable, Call] = {}
        for meaning, attrs in _choices(call, error.key, error.kind):
            tried = replace(call, given={**call.given, **attrs})
            if meaning not in fits and _fits(tried, operator):
                fits[meaning] = tried
        if error.key in call.fallback and error.key not in call.given and len(fits) != 1:
            given = {**call.given, error.key: call.fallback[error.key]}
            fits = {error.key: replace(call, given=given)}
        if len(fits) != 1:
            error.operator = call.type
            raise
    (determined,) = fits.values()
    return build(graph, determined, operator)


def _fits(call: Call, operator: Operator) -> bool:
    """Return whether the operator gives the known shapes."""
    scratch = Graph("scratch")
    operands = [scratch.make_input(x.details, "x") for x in call.operands]
    try:
        made = build(scratch, replace(call, operands=operands), operator)
    except InternalError:
        raise
    except GraphcError:
        return False
    if not call.results:
        return True
    shapes = [result.plain_dims for result in call.results]
    return [y.details.plain_dims for y in made] == shapes


Choices = Iterator[tuple[Hashable, dict[str, str]]]
"""Values of attributes to try, by what they mean: those of one meaning give the same result."""


def _choices(call: Call, key: str, kind: str) -> Choices:
    """Values of an attribute to try, with others that follow."""
    dims = call.operands[0].details.plain_dims
    if call.results:
        known = key if key in _TRIED else f"{key}:{kind}"
        target = call.results[0].plain_dims
        yield from _TRIED[known](key, dims, target) if known in _TRIED else ()
        if key == "indices_or_sections":
            parts = [result.plain_dims for result in call.results]
            yield from _sections(parts) if all(len(part) == len(dims) for part in parts) else ()
    elif key == "src_layout" and len(dims) == 5:
        # What goes on with a blocked image takes it as NCHW.
        yield next(_layouts(key, dims, (1,) * 4))


def _permutations(key: str, dims: Sequence[int], target: Sequence[int]) -> Choices:
    orders = itertools.permutations(range(len(dims))) if len(dims) <= _MAX_PERMUTED else ()
    yield from ((p, {key: str(p)}) for p in orders)


def _reduced(key: str, dims: Sequence[int], target: Sequence[int]) -> Choices:
    """Return candidates of reduced axes; axes of size 1 may be in any of them."""
    keeps = {"keepdims": str(len(target) == len(dims))}
    for axes in _sets(len(dims)) if len(dims) <= _MAX_REDUCED else ():
        yield frozenset(a for a in axes if dims[a] != 1), {key: str(axes), **keeps}


def _one_axis(key: str, dims: Sequence[int], target: Sequence[int]) -> Choices:
    keeps = {"keepdims": str(len(target) == len(dims))}
    yield from ((axis, {key: str(axis), **keeps}) for axis in range(len(dims) + 1))


def _borders(key: str, dims: Sequence[int], target: Sequence[int]) -> Choices:
    """Return candidates for image borders: one width on all four sides."""
    added = [new - old for new, old in zip(target, dims, strict=False)]
    wide = {total for total in added if total}
    is_image = len(dims) == len(target) == 4 and not added[0] and added.count(0) == 2
    if is_image and len(wide) == 1 and max(wide) % 2 == 0:
        yield key, {key: str([(total // 2, total // 2) for total in added])}


def _copies(key: str, dims: Sequence[int], target: Sequence[int]) -> Choices:
    wide = (1,) * (len(target) - len(dims)) + tuple(dims)
    if all(dims):
        yield key, {key: str([out // d for out, d in zip(target, wide, strict=False)])}


def _sizes(key: str, dims: Sequence[int], target: Sequence[int]) -> Choices:
    yield from ((size, {key: str(size)}) for size in {*target})


def _sets(rank: int) -> Iterator[tuple[int, ...]]:
    """All sets of axes, the largest first."""
    for count in range(rank, 0, -1):
        yield from itertools.combinations(range(rank), count)


def _sections(parts: Sequence[Sequence[int]]) -> Choices:
    """Return the positions between adjacent parts along each axis."""
    for axis in range(len(parts[0])):
        ends = itertools.accumulate(part[axis] for part in parts[:-1])
        yield axis, {"indices_or_sections": str([*ends]), "axis": str(axis)}


def _layouts(key: str, old: Sequence[int], new: Sequence[int]) -> Choices:
    """Usual layouts of images and of weights with these numbers of axes."""
    before, after = (
        {4: ["NCHW", "NHWC", "OIHW", "HWIO"], 5: [f"NCHW{dims[-1]}c"], 6: [f"OIHW{dims[-2]}i{dims[-1]}o"]}
        .get(len(dims), [])
        if len(dims) > 3 else []
        for dims in (old, new)
    )  # fmt: skip
    for pair in itertools.product(before, after):
        if pair[0] != pair[1]:
            yield pair, dict(zip(("src_layout", "dst_layout"), pair, strict=True))


_TRIED: dict[str, Callable[[str, Sequence[int], Sequence[int]], Choices]] = {
    "axes": _permutations, "axis:ints": _reduced, "axis:int": _one_axis, "pad_width": _borders,
    "shape": lambda key, dims, target: iter([(key, {key: str(target)})]), "k": _sizes, "depth": _sizes,
    "reps": _copies, "src_layout": _layouts,
}  # fmt: skip
"""Candidates, by the attribute, or by it and the kind of its value."""
