"""Attributes that a kernel's file does not hold, found by trying: where one value alone gives the known result, it is
that value."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from ...base.errors import GraphcError, InternalError
from ...graph_ir.ir.graph import Graph, GraphTensor
from .scope import Call, Operator, OperatorContext, UndeterminedError

_RESHAPES = ("reshape", "squeeze", "expand_dims", "nn_batch_flatten", "flatten")
"""Operators of which nothing but the shape of the result matters."""

_MOST_PERMUTED, _MOST_REDUCED = 6, 8
"""Axes up to which all orders and all sets of them are tried."""


def build(graph: Graph, call: Call, operator: Operator) -> list[GraphTensor]:
    """Append an operator; its results. UndeterminedError where no value of an attribute fits, or several do."""
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
        for meaning, attrs in _choices(call, error.key, error.kind) if call.results else ():
            tried = replace(call, given={**call.given, **attrs})
            if meaning not in fits and _fits(tried, operator):
                fits[meaning] = tried
        if error.key in call.fallback and error.key not in call.given and len(fits) != 1:
            given = {**call.given, error.key: call.fallback[error.key]}
            fits = {error.key: replace(call, given=given)}
        if len(fits) != 1:
            raise
    (determined,) = fits.values()
    return build(graph, determined, operator)


def _fits(call: Call, operator: Operator) -> bool:
    """Whether the operator gives the known shapes."""
    scratch = Graph("scratch")
    operands = [scratch.make_input(x.details, "x") for x in call.operands]
    try:
        made = build(scratch, replace(call, operands=operands), operator)
    except InternalError:
        raise
    except GraphcError:
        return False
    shapes = [result.plain_dims for result in call.results]
    return [y.details.plain_dims for y in made] == shapes


def _choices(call: Call, key: str, kind: str) -> Iterator[tuple[Hashable, dict[str, str]]]:
    """Values of an attribute to try, with others that follow; those of one meaning give the same result."""
    dims, target = call.operands[0].details.plain_dims, call.results[0].plain_dims
    rank = len(dims)
    keeps = {"keepdims": str(len(target) == rank)}
    if key == "axes" and rank <= _MOST_PERMUTED:
        yield from ((p, {key: str(p)}) for p in itertools.permutations(range(rank)))
    elif key == "axis" and kind == "ints" and rank <= _MOST_REDUCED:
        for axes in _sets(rank):  # it makes no difference whether axes of size 1 are reduced
            yield frozenset(a for a in axes if dims[a] != 1), {key: str(axes), **keeps}
    elif key == "axis" and kind == "int":
        yield from ((axis, {key: str(axis), **keeps}) for axis in range(rank + 1))
    elif key == "shape":
        yield key, {key: str(target)}
    elif key in ("k", "depth"):
        yield from ((size, {key: str(size)}) for size in {*target})
    elif key == "reps" and all(dims):
        wide = (1,) * (len(target) - rank) + dims
        yield key, {key: str([out // d for out, d in zip(target, wide, strict=False)])}
    elif key == "src_layout":
        yield from _layouts(dims, target)
    elif key == "indices_or_sections":
        parts = [result.plain_dims for result in call.results]
        yield from _sections(parts) if all(len(part) == rank for part in parts) else ()


def _sets(rank: int) -> Iterator[tuple[int, ...]]:
    """All sets of axes, the largest first."""
    for count in range(rank, 0, -1):
        yield from itertools.combinations(range(rank), count)


def _sections(parts: Sequence[Sequence[int]]) -> Iterator[tuple[int, dict[str, str]]]:
    """The positions between parts that lie side by side along each axis."""
    for axis in range(len(parts[0])):
        ends = itertools.accumulate(part[axis] for part in parts[:-1])
        yield axis, {"indices_or_sections": str([*ends]), "axis": str(axis)}


def _layouts(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[Hashable, dict[str, str]]]:
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
