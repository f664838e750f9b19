"""Copies of subgraphs: into the enclosing graph, or with other inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...base.dims import Size, size
from ...base.symbols import fresh_symbol_name
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.logical_tensor import known
from ..ops.dynamic_sizes import Count
from ..ops.structure import Constant

Argument = GraphTensor | Array | int
"""The argument for an input of a subgraph: a constant (or its array), or the number of another input."""


def needed_ops(inner: Graph, results: Iterable[int]) -> list[Op]:
    """The ops that some of a graph's outputs depend on, by values or sizes, in its order, without outputs."""
    outputs, dependencies = inner.outputs, inner.dependencies()
    live: set[int] = set()
    pending = [outputs[i].inputs[0].producer_owner for i in results]
    while pending:
        op = pending.pop()
        if id(op) not in live:
            live.add(id(op))
            pending.extend(dependencies(op))
    return [op for op in inner.ops if id(op) in live]


def needed_inputs(inner: Graph, results: Iterable[int]) -> set[int]:
    """The numbers of the inputs that some of a graph's outputs depend on."""
    numbers = {id(op): number for number, op in enumerate(inner.inputs)}
    return {numbers[id(op)] for op in needed_ops(inner, results) if op.is_input}


def inline(
    graph: Graph,
    inner: Graph,
    arguments: Mapping[int, GraphTensor],
    results: Sequence[int] | None = None,
) -> list[GraphTensor]:
    """Append copies of the ops that compute `results` (output numbers, default all); return the copied tensors.

    `arguments`: the arguments for the inputs that these ops read, by number. All layouts of the copies are plain. Sizes
    that the copied ops count get new names where the graph counts some of the same name.
    """
    wanted = range(len(inner.outputs)) if results is None else results
    mapping = {
        op.outputs[0]: arguments[number]
        for number, op in enumerate(inner.inputs)
        if number in arguments
    }
    sizes = _renamed_counts(graph, inner)
    for op in needed_ops(inner, wanted):
        if not op.is_input:
            attrs = {key: known(value, sizes) for key, value in op.attrs.items()}
            copy = graph.make(op.op_name, [mapping[x] for x in op.inputs], attrs, op.name)
            mapping.update(zip(op.outputs, copy.outputs, strict=True))
    outputs = inner.outputs
    return [mapping[outputs[i].inputs[0]] for i in wanted]


def _renamed_counts(graph: Graph, inner: Graph) -> dict[str, Size]:
    """The sizes that ops of `inner` count and the graph counts too, by name, each with another name."""
    taken = {op.symbol.name for op in graph.counted if isinstance(op, Count)}
    found: dict[str, Size] = {}
    for op in inner.counted if taken else ():
        assert isinstance(op, Count)
        old = op.symbol
        if old.name in taken:
            name = fresh_symbol_name(old.name, taken)
            taken.add(name)
            found[old.name] = size(replace(old, name=name))
    return found


def with_arguments(
    inner: Graph, arguments: Mapping[int, Argument], results: Sequence[int]
) -> Graph:
    """A copy that returns `results` only and takes other inputs.

    `arguments` maps each input that is needed to a constant or to the number of an input of the copy (these numbers
    must be dense). An input of the copy is named after the first input it replaces.
    """
    made = Graph(inner.name)
    numbered = [
        (argument, old) for old, argument in sorted(arguments.items()) if isinstance(argument, int)
    ]
    inputs: dict[int, GraphTensor] = {}
    for number, old in sorted(numbered):
        if number not in inputs:
            source = inner.inputs[old]
            inputs[number] = made.make_input(source.outputs[0].details, source.name)
    values = {
        old: inputs[argument] if isinstance(argument, int) else _constant(made, argument)
        for old, argument in arguments.items()
    }
    for old, tensor in zip(results, inline(made, inner, values, results), strict=True):
        output = inner.outputs[old]
        made.make_output(tensor, output.attr("temp.result"))
    made.sort()
    return made


def _constant(graph: Graph, argument: GraphTensor | Array) -> GraphTensor:
    if not isinstance(argument, GraphTensor):
        return graph.make_constant(argument)
    producer = argument.producer_owner
    assert isinstance(producer, Constant)
    return graph.make_constant(producer.value, producer.name)
