"""Smaller versions of a case: what the shrinker tries. An edit rebuilds the graph; what does not fit is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...base.errors import GraphcError
from ...base.options import SWITCHES
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .case import Case

Rewrite = Callable[[Graph, Op, list[GraphTensor]], Sequence[GraphTensor] | None]
"""Function that returns the replacement of an op in the new graph, given its new inputs; None keeps the op."""


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
    values = _values(case)
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


def _input_number(number: int) -> Rewrite:
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
        attrs = {key: _changed(value, sizes) for key, value in op.attrs.items()}
        return graph.make(op.op_name, inputs, attrs, op.name).outputs

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
    mapping: dict[GraphTensor, GraphTensor] = {}
    for op in value.ops:
        attrs = {key: _changed(v, sizes) for key, v in op.attrs.items()}
        made = twin.make(op.op_name, [mapping[x] for x in op.inputs], attrs, op.name)
        mapping.update(zip(op.outputs, made.outputs, strict=True))
    return twin


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


def _with(attrs: dict[str, Any]) -> Rewrite:
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


def _only(one: Op, rewrite: Rewrite) -> Rewrite:
    return lambda graph, op, inputs: rewrite(graph, op, inputs) if op is one else None


def _tried(
    case: Case,
    rewrite: Rewrite | None = None,
    given: dict[GraphTensor, Array] | None = None,
    keep: set[GraphTensor] | None = None,
) -> Iterator[Case]:
    try:
        yield _rebuilt(case, rewrite or (lambda graph, op, inputs: None), given or {}, keep)
    except (GraphcError, ValueError, IndexError, KeyError, TypeError, AttributeError):
        return  # no graph


def _rebuilt(
    case: Case, rewrite: Rewrite, given: dict[GraphTensor, Array], keep: set[GraphTensor] | None
) -> Case:
    """The graph op by op; `given` tensors become inputs, and only the results in `keep` stay. What is unread goes."""
    wanted = [x for x in _results(case.graph) if keep is None or x in keep]
    wanted = wanted or list(keep or ())
    needed = _needed(wanted, given)
    graph = Graph(case.graph.name)
    mapping: dict[GraphTensor, GraphTensor] = {}
    arrays: list[Array] = []
    fed = dict(zip((op.outputs[0] for op in case.graph.inputs), case.arrays, strict=True))
    for op in case.graph.ops:
        if op.kind == "sink" or op not in needed:
            continue
        if op.is_input or any(y in given for y in op.outputs):
            for tensor in op.outputs:
                array = np.asarray(given[tensor] if tensor in given else fed[tensor])
                details = LogicalTensor(tensor.details.dtype, array.shape)
                mapping[tensor] = graph.make_input(details, f"x{len(arrays)}")
                arrays.append(array)
            continue
        inputs = [mapping[x] for x in op.inputs]
        made = rewrite(graph, op, inputs)
        made = graph.make(op.op_name, inputs, op.attrs, op.name).outputs if made is None else made
        mapping.update(zip(op.outputs, made, strict=True))
    for number, tensor in enumerate(wanted):
        graph.make_output(mapping[tensor], f"y{number}")
    kept = [bool(op.outputs[0].uses) for op in graph.inputs]
    graph.remove([op for op in graph.inputs if not op.outputs[0].uses])
    graph.sort()
    return replace(
        case, graph=graph, arrays=[a for a, used in zip(arrays, kept, strict=True) if used]
    )


def _results(graph: Graph) -> list[GraphTensor]:
    return list(dict.fromkeys(op.inputs[0] for op in graph.outputs))


def _needed(wanted: list[GraphTensor], given: dict[GraphTensor, Array]) -> set[Op]:
    needed: set[Op] = set()
    stack = [x.producer_owner for x in wanted]
    while stack:
        op = stack.pop()
        if op not in needed:
            needed.add(op)
            if not any(y in given for y in op.outputs):
                stack += [x.producer_owner for x in op.inputs]
    return needed


def _values(case: Case) -> dict[GraphTensor, Array]:
    values: dict[GraphTensor, Array] = {}
    fed = iter(case.arrays)
    with np.errstate(all="ignore"):
        for op in case.graph.ops:
            if op.is_input:
                values[op.outputs[0]] = next(fed)
            elif op.kind != "sink":
                results = op.reference([values[x] for x in op.inputs])
                values.update(zip(op.outputs, results, strict=True))
    return values
