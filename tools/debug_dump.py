"""Writes the values of a debug run in the file formats of TVM's debug executor.

In `ROOT/_tvmdbg_device_CPU_0/`: the graph (`_tvmdbg_graph_dump.json`), every value (`output_tensors.params`) and a
Chrome trace (`_tvmdbg_execution_trace.json`). Values have their plain shape; a kernel that works on a blocked layout
says so in the attribute `out_layout` of its node.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.dtypes import DType
from ..base.file_errors import unwritable
from ..base.whole_file import make_folder, write_file
from ..frontend.tvm.params import ParamsWriter
from ..graph_ir.ir.graph import Array, GraphTensor, Op
from ..runtime.debugger import NodeRow

if TYPE_CHECKING:  # reading a dump needs no compiler
    from .node_program import NodeProgram

FOLDER = "_tvmdbg_device_CPU_0"
GRAPH_FILE = "_tvmdbg_graph_dump.json"
TENSORS_FILE = "output_tensors.params"
TRACE_FILE = "_tvmdbg_execution_trace.json"
CPU = 1  # DLDevice
TYPE_FLAGS = {
    "f32": 0, "f64": 1, "f16": 2, "u8": 3, "s32": 4, "s8": 5,
    "s64": 6, "s16": 7, "u16": 8, "u32": 9, "u64": 10,
}  # fmt: skip
"""The numbers of element types that early versions wrote beside their names; -1 for others."""


def tensor_key(node: str, order: int, output: int) -> str:
    """The name of a value in the params file."""
    return f"{node}____topo-index:{order}____output-num:{output}"


class Dump:
    """One dump being written. The values must be added in the order of the graph's nodes."""

    def __init__(self, root: Path, program: NodeProgram, pattern: str = "*") -> None:
        self.folder = root / FOLDER
        self.program = program
        self.ops = [op for op in program.graph.ops if not op.is_output]
        # Sources first: their values are there before any node runs.
        chosen = sorted(
            (op for op in self.ops if fnmatchcase(op.name, pattern)),
            key=lambda op: op.kind != "source",
        )
        order = {op: i for i, op in enumerate(self.ops)}
        names = [tensor_key(op.name, order[op], y.index) for op in chosen for y in op.outputs]
        make_folder(self.folder)
        try:
            self.writer = ParamsWriter(self.folder / TENSORS_FILE, names)
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def add(self, op: Op, values: list[Array]) -> None:
        """Write the values of a node's outputs."""
        for value in values:
            self.writer.add(value)

    def finish(self, rows: Sequence[NodeRow]) -> None:
        """Write the graph and the trace."""
        graph = graph_json(self.program, self.ops)
        for name, value in ((GRAPH_FILE, graph), (TRACE_FILE, _trace(self.ops, rows))):
            write_file(self.folder / name, json.dumps(value, indent=4) + "\n")

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.writer.close()
        else:
            self.writer.discard(error)


def graph_json(program: NodeProgram, ops: Sequence[Op]) -> dict[str, Any]:
    """The dump's own schema: TVM's graph JSON with producers by name, and the shape and type in every node."""
    order = {op: i for i, op in enumerate(ops)}
    entries = [y for op in ops for y in op.outputs]
    row_ptr = [0]
    for op in ops:
        row_ptr.append(row_ptr[-1] + len(op.outputs))
    heads = [out.inputs[0] for out in program.graph.outputs]
    return {
        "nodes": [_node(program, op) for op in ops],
        "arg_nodes": [order[op] for op in ops if op.kind == "source"],
        "node_row_ptr": row_ptr,
        "heads": [[order[x.producer_owner], x.index, 0] for x in heads],
        "attrs": {
            "storage_id": ["list_int", _storage_ids(program, entries)],
            "dtype": ["list_int", [TYPE_FLAGS.get(y.details.dtype.name, -1) for y in entries]],
            "dltype": ["list_str", [dl_type(y.details.dtype) for y in entries]],
            "shape": ["list_shape", [list(y.details.plain_dims) for y in entries]],
            "device_index": ["list_int", [CPU] * len(entries)],
        },
    }


def dl_type(dtype: DType) -> str:
    """TVM's name of a dtype."""
    return "bfloat16" if dtype.name == "bf16" else str(dtype.numpy.name)


def _node(program: NodeProgram, op: Op) -> dict[str, Any]:
    details = op.outputs[0].details
    attrs: dict[str, str] = {}
    name = "param"
    if op.kind != "source":
        call = program.kernels.get(op.name)
        name = call.kernel if call else "__nop"
        attrs = {
            "func_name": name, "num_inputs": str(len(op.inputs)),
            "num_outputs": str(len(op.outputs)), "flatten_data": "0",
        }  # fmt: skip
        if call:
            attrs["x_ops"] = call.note
    if not details.format.is_plain:
        attrs["out_layout"] = str(details.format)
    attrs["T"] = f"type: {dl_type(details.dtype)}"
    return {
        "op": name,
        "name": op.name,
        "inputs": [x.producer_owner.name for x in op.inputs],
        "attrs": attrs,
        "shape": list(details.plain_dims),
    }


def _storage_ids(program: NodeProgram, entries: Sequence[GraphTensor]) -> list[int]:
    """One number per storage: tensors at the same offset of the arena share it."""
    numbers: dict[object, int] = {}
    roots = [program.root(y) for y in entries]
    storage = [root if (at := program.offset(root)) is None else at for root in roots]
    return [numbers.setdefault(slot, len(numbers)) for slot in storage]


def _trace(ops: Sequence[Op], rows: Sequence[NodeRow]) -> dict[str, Any]:
    """Begin and end of each node, laid end to end; inputs and constants take no time."""
    seconds = {row.name: row.time.seconds for row in rows}
    events, now = [], 0.0
    for op in ops:
        for phase in ("B", "E"):
            now += seconds.get(op.name, 0.0) * 1e6 if phase == "E" else 0.0
            events.append({"ts": now, "tid": 1, "pid": 1, "name": op.name, "ph": phase})
    return {"displayTimeUnit": "ns", "traceEvents": events}
