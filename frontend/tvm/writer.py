"""Graph to TVM graph JSON. Each op is a kernel call named after its operator; the exact op is in its attributes."""

from __future__ import annotations

import json
from typing import Any

from ...base.errors import UnsupportedError
from ...base.options import CompileOptions
from ...base.printable import encodable
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.passes.plan_memory import MEMORY_PLAN, plan_memory
from ...graph_ir.rewriting.groups import storage_root
from ...graph_ir.schedule.context import LowerContext
from ...targets.isa import Target
from ..refusals import OTHER_TYPE
from .document import NAMES
from .op_table import operator_name
from .own_attrs import own_attrs

_CPU = 1  # DLDevice


def write_tvm(graph: Graph) -> tuple[str, dict[str, Array]]:
    """The graph JSON and the parameters p0, p1, ... it reads, for `write_params`.

    Storage ids are those of the memory plan of a run in this order, without results in place of operands:
    inputs, parameters and results keep theirs. UnsupportedError names all ops that cannot be written (subgraphs,
    blocked layouts).
    """
    return _Writer(graph.copy()).write()


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[dict[str, Any]] = []
        self.sources: dict[GraphTensor, tuple[int, int]] = {}
        self.entries: list[GraphTensor] = []
        self.row_ptr = [0]
        self.params: dict[str, Array] = {}
        self.names: set[str] = {op.name for op in graph.inputs}
        self.counters: dict[str, int] = {}

    def write(self) -> tuple[str, dict[str, Array]]:
        problems: list[str] = []
        sources = [op for op in self.graph.ops if op.kind == "source"]
        for op in sorted(
            sources, key=lambda op: not op.is_input
        ):  # arguments first, in their order
            self.add(op, self.source(op))
        for op in self.graph.ops:
            if op.kind in ("source", "sink"):
                continue
            try:
                self.add(op, self.kernel(op))
            except UnsupportedError as error:
                problems.append(str(error))
                self.add(op, {})
        types = {str(x.details.dtype) for x in self.entries if x.details.dtype not in NAMES}
        problems += [
            f"a TVM graph has no element type {one}; {OTHER_TYPE}" for one in sorted(types)
        ]
        if problems:
            raise UnsupportedError(f"graph '{self.graph.name}': {'; '.join(problems)}")
        plan_memory(
            self.graph,
            LowerContext(Target("generic"), CompileOptions(disabled=frozenset({"in-place"}))),
        )
        heads = [[*self.sources[op.inputs[0]], 0] for op in self.graph.outputs]
        value = {
            "nodes": self.nodes,
            "arg_nodes": list(range(len(sources))),
            "heads": heads,
            "attrs": self.attrs(),
            "node_row_ptr": self.row_ptr,
        }
        text = json.dumps(value, indent=2, ensure_ascii=False)
        return encodable(text), self.params  # as JSON escapes them

    def add(self, op: Op, node: dict[str, Any]) -> None:
        number = len(self.nodes)
        self.nodes.append(node)
        for index, tensor in enumerate(op.outputs):
            self.sources[tensor] = (number, index)
            self.entries.append(tensor)
        self.row_ptr.append(len(self.entries))

    def source(self, op: Op) -> dict[str, Any]:
        if op.is_input:
            return {"op": "null", "name": op.name, "inputs": []}
        number = len(self.params)
        while f"p{number}" in self.names or f"p{number}" in self.params:
            number += 1
        name = f"p{number}"
        self.params[name] = op.attr("value")
        return {"op": "null", "name": name, "inputs": []}

    def kernel(self, op: Op) -> dict[str, Any]:
        if not all(x.details.format.is_plain for x in (*op.inputs, *op.outputs)):
            raise UnsupportedError(
                f"{op.op_name} '{op.name}': a blocked layout cannot be written to a TVM graph",
                "write the graph before layouts are chosen",
            )
        attrs = {
            "num_inputs": str(len(op.inputs)),
            "num_outputs": str(len(op.outputs)),
            "flatten_data": "0",
            "func_name": self.func_name(op),
            **own_attrs(op),
        }
        inputs = [[*self.sources[x], 0] for x in op.inputs]
        return {"op": "tvm_op", "name": op.name, "attrs": attrs, "inputs": inputs}

    def func_name(self, op: Op) -> str:
        """The kernel's name; a counter tells those of one name apart."""
        if op.op_name == "reshape":
            return "__nop"
        name = f"tvmgen_default_fused_{operator_name(op)}"
        count = self.counters.get(name, 0)
        self.counters[name] = count + 1
        return f"{name}_{count}" if count else name

    def attrs(self) -> dict[str, Any]:
        details = [tensor.details for tensor in self.entries]
        return {
            "storage_id": ["list_int", self.storage()],
            "dltype": ["list_str", [NAMES[d.dtype] for d in details]],
            "shape": ["list_shape", [list(d.plain_dims) for d in details]],
            "device_index": ["list_int", [_CPU] * len(details)],
        }

    def storage(self) -> list[int]:
        """A slot per entry: what the memory plan puts at one offset shares it; arguments and results keep theirs.

        Views, which TVM calls __nop, are in the slot of what they show.
        """
        plan = MEMORY_PLAN.of(self.graph)
        slots: dict[object, int] = {}
        found = []
        for tensor in self.entries:
            root = storage_root(tensor)
            offset = plan.offsets.get(root)
            shared = offset is not None and root.details.elements
            found.append(slots.setdefault(offset if shared else root, len(slots)))
        return found
