"""Smaller versions of a case: what the shrinker tries. An edit rebuilds the graph; what does not fit is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...base.errors import GraphcError
from ...base.options import SWITCHES
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..rebuild import all_values, needed_for, rebuild
from .case import Case

Edit = Callable[[Graph, Op, list[GraphTensor]], Sequence[GraphTensor] | None]
"""`Rewrite` of any graph, which comes first."""


def candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, those that take away most first."""
    for edit in (_fewer_outputs, _cut_off, _bypassed, _smaller_sizes, _plainer_attributes):
        yield from edit(case)
    yield from _plainer_settings(case)
    yield from _plainer_values(case)


def size_of(case: Case) -> tuple[int, int, int, int, float]:
    """Return the size that an edit must reduce: ops, attributes, elements and inputs, the setting, then the values."""
    body = [op for op in case.graph.ops if op.kind not in ("source", "sink")]
    attributes = sum(len(repr(op.attrs)) for op in body)
    elements = sum(a.size for a in case.arrays) + 10 * len(case.graph.ops)
    setting = case.setting
    plain = len(setting.disabled) + len(setting.routes) + setting.threads - 1
    plain += (setting.target != "native") + (setting.winograd != "auto")
    plain += setting.layout != "auto"
    values = sum(float(np.count_nonzero(a)) for a in case.arrays)
    return (len(body), elements, attributes, plain, values)


# --- fewer ops -----------------------------------------------------------------------------------------------------


def _fewer_outputs(case: Case) -> Iterator[Case]:
    if len(case.graph.outputs) > 1:
        for kept in case.graph.outputs:
            yield from _tried(case, keep={kept.inputs[0]})


def _cut_off(case: Case) -> Iterator[Case]:
    """An op's results given as inputs, or requested as the only ones."""
    values = all_values(case.graph, case.arrays, lambda op, arrays: op.reference(arrays))
    body = [op for op in case.graph.ops if op.kind not in ("source", "sink")]
    for op in reversed(body):
        given = {y: values[y] for y in op.outputs}
        yield from _tried(case, given=given)
    for op in body:
        if any(y.uses for y in op.outputs) and any(
            user.kind != "sink" for y in op.outputs for _, user in y.uses
        ):
            yield from _tried(case, keep=set(op.outputs))
    for op in case.graph.ops:
        if op.is_constant:
            yield from _tried(
                case, given={op.outputs[0]: op.outputs[0].producer_owner.reference([])[0]}
            )


def _bypassed(case: Case) -> Iterator[Case]:
    """One of its inputs instead of an op, where it has the type of the result."""
    for op in case.graph.ops:
        for number, x in enumerate(op.inputs):
            if len(op.outputs) == 1 and x.details == op.outputs[0].details:
                yield from _tried(case, rewrite=_only(op, _input_number(number)))


def _input_number(number: int) -> Edit:
    return lambda graph, op, inputs: [inputs[number]]


# --- smaller numbers -----------------------------------------------------------------------------------------------


def _smaller_sizes(case: Case) -> Iterator[Case]:
    """Every axis of one size cut, in inputs, constants and attributes alike; then axes of single inputs."""
    dims = {d for op in case.graph.ops for y in op.outputs for d in y.details.plain_dims if d > 1}
    for size in sorted(dims, reverse=True):
        for smaller in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < smaller < size:
                yield from _resized(case, {size: smaller})


def _resized(case: Case, sizes: dict[int, int]) -> Iterator[Case]:
    def rewrite(graph: Graph, op: Op, inputs: list[GraphTensor]) -> Sequence[GraphTensor] | None:
        if op.is_constant:
            return [graph.make_constant(_cut(op.reference([])[0], sizes), op.name)]
        return _with_sizes(sizes, graph, op, inputs)

    arrays = [_cut(array, sizes) for array in case.arrays]
    yield from _tried(replace(case, arrays=arrays), rewrite=rewrite)


def _changed(value: Any, sizes: dict[int, int]) -> Any:
    """An attribute with other sizes: lists of integers, constants, types and subgraphs."""
    if isinstance(value, tuple):
        return tuple(sizes.get(v, v) if type(v) is int else _changed(v, sizes) for v in value)
    if isinstance(value, np.ndarray):
        return _cut(value, sizes)
    if isinstance(value, LogicalTensor):
        return LogicalTensor(value.dtype, tuple(sizes.get(d, d) for d in value.plain_dims))
    if not isinstance(value, Graph):
        return value
    twin = Graph(value.name)
    return rebuild(twin, value.ops, {}, partial(_with_sizes, sizes, twin))


def _with_sizes(
    sizes: dict[int, int], graph: Graph, op: Op, inputs: list[GraphTensor]
) -> Sequence[GraphTensor]:
    """`Edit` that gives an op's attributes other sizes."""
    attrs = {key: _changed(value, sizes) for key, value in op.attrs.items()}
    return graph.make(op.op_name, inputs, attrs, op.name).outputs


def _cut(array: Array, sizes: dict[int, int]) -> Array:
    return np.array(array[tuple(slice(sizes.get(d, d)) for d in array.shape)], order="C")


def _plainer_attributes(case: Case) -> Iterator[Case]:
    """One attribute left out, or a list of it made of ones or zeros."""
    for op in case.graph.ops:
        if op.kind in ("source", "sink"):
            continue
        for key, value in op.attrs.items():
            without = {k: v for k, v in op.attrs.items() if k != key}
            yield from _tried(case, rewrite=_only(op, _with(without)))
            if isinstance(value, tuple) and all(type(v) is int for v in value):
                for plain in (0, 1):
                    yield from _tried(
                        case, rewrite=_only(op, _with({**op.attrs, key: (plain,) * len(value)}))
                    )


def _with(attrs: dict[str, Any]) -> Edit:
    return lambda graph, op, inputs: graph.make(op.op_name, inputs, attrs, op.name).outputs


# --- the setting and the values ------------------------------------------------------------------------------------


def _plainer_settings(case: Case) -> Iterator[Case]:
    setting = case.setting
    changes: list[dict[str, Any]] = [{"threads": 1}, {"winograd": "auto"}, {"target": "native"}]
    changes += [{"layout": "auto"}]
    changes += [{"routes": ()}, {"disabled": ()}]
    changes += [
        {"disabled": tuple(s for s in setting.disabled if s != switch)} for switch in SWITCHES
    ]
    changes += [{"routes": (route,)} for route in setting.routes]
    for change in changes:
        plainer = replace(setting, **change)
        if plainer != setting:
            yield replace(case, setting=plainer)


def _plainer_values(case: Case) -> Iterator[Case]:
    for number, array in enumerate(case.arrays):
        for plain in (np.zeros_like(array), np.ones_like(array)):
            yield replace(case, arrays=_put(case.arrays, number, plain))
        for half in (slice(None, array.size // 2), slice(array.size // 2, None)):
            cleared = array.copy()
            cleared.reshape(-1)[half] = 0
            yield replace(case, arrays=_put(case.arrays, number, cleared))


def _put(arrays: list[Array], number: int, array: Array) -> list[Array]:
    return [*arrays[:number], array, *arrays[number + 1 :]]


# --- rebuilding ----------------------------------------------------------------------------------------------------


def _only(one: Op, rewrite: Edit) -> Edit:
    return lambda graph, op, inputs: rewrite(graph, op, inputs) if op is one else None


def _tried(
    case: Case,
    rewrite: Edit | None = None,
    given: dict[GraphTensor, Array] | None = None,
    keep: set[GraphTensor] | None = None,
) -> Iterator[Case]:
    try:
        yield _rebuilt(case, rewrite or (lambda graph, op, inputs: None), given or {}, keep)
    except (GraphcError, ValueError, IndexError, KeyError, TypeError, AttributeError):
        return  # no graph


def _rebuilt(
    case: Case, rewrite: Edit, given: dict[GraphTensor, Array], keep: set[GraphTensor] | None
) -> Case:
    """The graph op by op; `given` tensors become inputs, and only the results in `keep` stay. What is unread goes."""
    wanted = [x for x in _results(case.graph) if keep is None or x in keep]
    wanted = wanted or list(keep or ())
    graph = Graph(case.graph.name)
    fed = zip((op.outputs[0] for op in case.graph.inputs), case.arrays, strict=True)
    known = {x: np.asarray(array) for x, array in {**dict(fed), **given}.items()}
    mapping = {
        x: graph.make_input(LogicalTensor(x.details.dtype, array.shape), f"x{number}")
        for number, (x, array) in enumerate(known.items())
    }
    rebuild(graph, needed_for(wanted, known, case.graph), mapping, partial(rewrite, graph))
    for number, tensor in enumerate(wanted):
        graph.make_output(mapping[tensor], f"y{number}")
    arrays = [array for x, array in known.items() if mapping[x].uses]
    graph.remove([op for op in graph.inputs if not op.outputs[0].uses])
    graph.sort()
    return replace(case, graph=graph, arrays=arrays)


def _results(graph: Graph) -> list[GraphTensor]:
    return list(dict.fromkeys(op.inputs[0] for op in graph.outputs))
