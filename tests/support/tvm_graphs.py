"""Small TVM graphs, as JSON."""

from __future__ import annotations

import json
from typing import Any

from graphc.frontend import load
from graphc.graph_ir.ir.graph import Graph

Kernel = tuple[str, list[int], list[list[int]]]
"""A function, its inputs by node, the shapes of its outputs."""


def graph_json(arguments: dict[str, list[int]], kernels: list[Kernel], heads: list[int]) -> str:
    """A graph of float32 tensors."""
    nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in arguments]
    shapes, row_ptr = list(arguments.values()), list(range(len(arguments) + 1))
    for i, (func, inputs, outputs) in enumerate(kernels):
        attrs = {
            "func_name": func,
            "num_inputs": str(len(inputs)),
            "num_outputs": str(len(outputs)),
            "flatten_data": "0",
        }
        nodes.append(
            {"op": "tvm_op", "name": f"k{i}", "attrs": attrs, "inputs": [[x, 0, 0] for x in inputs]}
        )
        shapes += outputs
        row_ptr.append(row_ptr[-1] + len(outputs))
    value = {
        "nodes": nodes,
        "arg_nodes": list(range(len(arguments))),
        "heads": [[head, 0, 0] for head in heads],
        "attrs": {
            "storage_id": ["list_int", list(range(len(shapes)))],
            "dltype": ["list_str", ["float32"] * len(shapes)],
            "shape": ["list_shape", shapes],
            "device_index": ["list_int", [1] * len(shapes)],
        },
        "node_row_ptr": row_ptr,
    }
    return json.dumps(value, indent=2)


def one(
    func: str, shapes: list[list[int]], result: list[int], *others: list[int], **hints: str
) -> Graph:
    """A graph of one kernel on inputs a, b, ...; `result` and `others` are the shapes of its outputs."""
    arguments = dict(zip("abcdef", shapes, strict=False))
    text = graph_json(
        arguments, [(func, list(range(len(shapes))), [result, *others])], [len(shapes)]
    )
    return load(text.encode(), attrs={f"k0.{key}": value for key, value in hints.items()})
