"""Extracts small models from graphs, and writes them with their inputs as a reproducer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..base.errors import GraphcError
from ..base.whole_file import make_folder, write_array, write_file
from ..graph_ir.ir.format import plain
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.rewriting.subgraph import inline
from ..graph_ir.text.printer import print_graph
from .rebuild import needed_for, rebuild

MODEL_FILE, COMMAND_FILE = "model.graph", "command.txt"


def body(node: Op) -> list[Op]:
    """The ops a node of the optimized graph computes."""
    if node.kind != "fused":
        return [node]
    return [op for op in node.attr("graph").ops if op.kind not in ("source", "sink")]


def node_graph(node: Op) -> Graph:
    """The ops of a node as a graph with the node's own layouts; its inputs are the node's, each once."""
    if node.kind == "fused":
        graph: Graph = node.attr("graph")
        return graph
    graph = Graph(node.name)
    mapping = {x: graph.make_input(x.details, x.name) for x in dict.fromkeys(node.inputs)}
    twin = graph.make(node.op_name, [mapping[x] for x in node.inputs], node.attrs, node.name)
    for new, old in zip(twin.outputs, node.outputs, strict=True):
        new.details = old.details
        graph.make_output(new)
    return graph


def node_model(node: Op) -> Graph:
    """A model of one node: its ops in plain layouts, constants as constants, everything else an input."""
    graph = Graph(node.name)
    inner = node_graph(node)
    given: list[GraphTensor] = []
    for op, operand in zip(inner.inputs, dict.fromkeys(node.inputs), strict=True):
        producer = operand.producer_owner
        if producer.is_constant:
            given.append(graph.make_constant(producer.attr("value"), op.name))
        else:
            given.append(graph.make_input(_plain(operand), op.name))
    results = inline(graph, inner, dict(enumerate(given)))
    for output, result in zip(inner.outputs, results, strict=True):
        graph.make_output(result, output.name)
    graph.sort()
    return graph


def cone(graph: Graph, target: GraphTensor, known: Iterable[GraphTensor]) -> Graph:
    """The part of a graph that computes `target` from `known` tensors (and constants)."""
    cut = set(known)
    model = Graph(graph.name)
    inside = needed_for([target], cut, graph)
    read = dict.fromkeys(x for op in inside for x in op.inputs if x in cut and not x.is_constant)
    mapping = {x: model.make_input(_plain(x), x.name) for x in read}
    rebuild(
        model, inside, mapping,
        lambda op, _: [model.make_input(_plain(op.outputs[0]), op.name)] if op.is_input else None,
    )  # fmt: skip
    model.make_output(mapping[target], target.name)
    model.sort()
    return model


def with_rows(graph: Graph, rows: int) -> Graph | None:
    """The model on fewer rows: the largest leading axis of an input is reduced. None if that is not possible."""
    inputs = [op.outputs[0].details for op in graph.inputs]
    most = max((d.plain_dims[0] for d in inputs if d.rank > 1), default=0)
    if most <= rows:
        return None
    small = Graph(graph.name)

    def cut(op: Op, inputs: list[GraphTensor]) -> list[GraphTensor] | None:
        details = op.outputs[0].details if op.is_input else None
        if details is None or details.rank < 2 or details.plain_dims[0] != most:
            return None
        dims = (rows, *details.plain_dims[1:])
        return [small.make_input(LogicalTensor(details.dtype, dims), op.name)]

    try:
        return rebuild(small, graph.ops, {}, cut)
    except GraphcError:
        return None  # an attribute holds the old size


def cut_rows(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays that a model of fewer rows takes."""
    return {
        op.name: np.ascontiguousarray(arrays[op.name][: dims[0]] if dims else arrays[op.name])
        for op in graph.inputs
        for dims in [op.outputs[0].details.plain_dims]
    }


def write_reproducer(
    folder: Path, graph: Graph, arrays: Mapping[str, Array], options: Sequence[str]
) -> str:
    """Write the model, its inputs and the command that shows the error; return the command."""
    words = ["graphc", "compare", str(folder / MODEL_FILE)]
    make_folder(folder)
    write_file(folder / MODEL_FILE, print_graph(graph, full=True))
    for number, op in enumerate(graph.inputs):
        file = folder / f"input_{number}.npy"
        write_array(file, arrays[op.name])
        words += ["--input", f"{op.name}=@{file}"]
    command = " ".join([*words, *options])
    write_file(folder / COMMAND_FILE, command + "\n")
    return command


def _plain(tensor: GraphTensor) -> LogicalTensor:
    return tensor.details.with_format(plain(tensor.details.rank))
