"""The debug executor, after TVM's: runs a model node by node, with times and access to every value."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.options import CompileOptions
from ..base.target import Target
from ..codegen.host import target_for
from ..frontend import load
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ..graph_ir.schedule.context import LowerContext
from ..runtime.debugger import NodeRow, measure, no_time, node_table
from ..runtime.metadata import TensorSpec
from ..runtime.threadpool import resolve_threads
from .node_program import NodeProgram

WARMUP, REPEATS = 1, 5
OnNode = Callable[[int, int], None]
Visit = Callable[[Op, list[Array]], None]
"""Called with a node right after it ran and the values of its outputs."""


class DebugExecutor:
    """Runs a compiled model one node at a time; `graphc.debug` makes it.

    Nodes are those of the optimised graph: a group of fused ops is one node, named after its last op. `rows` holds
    what the last `run` measured.
    """

    def __init__(self, source: Graph, ctx: LowerContext, dump_root: Path | None = None) -> None:
        self.program = NodeProgram(source, ctx)
        self.dump_root = dump_root
        self.rows: list[NodeRow] = []
        self._values: dict[str, Array] = {}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input."""
        return self.program.inputs

    @property
    def graph(self) -> Graph:
        """The optimised graph whose nodes run."""
        return self.program.graph

    def set_input(self, name: str | None = None, value: Any = None, /, **named: Any) -> None:
        """Give one input as (name, array), or several by keyword. UserError for a name the model does not have."""
        given = {**({name: value} if name is not None else {}), **named}
        known = [spec.name for spec in self.program.inputs]
        for key, array in given.items():
            if key not in known:
                raise UserError(f"there is no input '{key}'; the inputs are {', '.join(known)}")
            self._values[key] = np.asarray(array)

    def run(
        self,
        *,
        nodes: str = "*",
        warmup: int = WARMUP,
        repeats: int = REPEATS,
        on_node: OnNode | None = None,
        **inputs: Any,
    ) -> list[NodeRow]:
        """Run all nodes; time those whose name matches the glob `nodes`, and write the dump where there is a root.

        A time is the median of `repeats` runs of the node after `warmup` untimed ones. Values stream to disk one by
        one.
        """
        from .debug_dump import Dump

        self.set_input(**inputs)
        self._check_pattern(nodes)
        self.rows = []
        if self.dump_root is None:
            self._run(nodes, warmup, repeats, on_node, None)
            return self.rows
        with Dump(self.dump_root, self.program, nodes) as dump:
            self._run(nodes, warmup, repeats, on_node, dump.add)
            dump.finish(self.rows)
        return self.rows

    def get_output(self, index: int = 0) -> Array:
        """Output `index` of the last run (or of one made now)."""
        if not 0 <= index < len(self.graph.outputs):
            raise UserError(f"there is no output {index}; the model has {len(self.graph.outputs)}")
        if not self.rows:
            self._execute(None)
        return self.program.value(self.graph.outputs[index].inputs[0])

    def get_node_output(self, name: str, index: int = 0) -> Array:
        """The value of a node, input or constant: runs the model up to it, as its memory may be reused later.

        `name` is a node of the optimised graph, or an op of the model that is still the last one of a node.
        """
        op = self._find(name)
        if not 0 <= index < len(op.outputs):
            raise UserError(f"node '{op.name}' has {len(op.outputs)} outputs, got index {index}")
        self._execute(op)
        return self.program.value(op.outputs[index])

    def walk(self) -> Iterator[Op]:
        """Run node by node, untimed, yielding each right after it ran."""
        self._bind()
        for node in self.program.nodes:
            call = self.program.step(node)
            if call is not None:
                call()
            yield node

    def read(self, tensor: GraphTensor) -> Array:
        """A copy of a tensor's current value, while `walk` is at its node or at a consumer."""
        return self.program.value(tensor)

    def table(self) -> str:
        """The last run as TVM's table."""
        return node_table(self.rows)

    def close(self) -> None:
        """Release the code."""
        self.program.close()

    def _bind(self) -> None:
        missing = [spec.name for spec in self.program.inputs if spec.name not in self._values]
        if missing:
            raise UserError(
                f"input '{missing[0]}' is not set; call set_input('{missing[0]}', array)"
            )
        self.program.bind(self._values)

    def _run(
        self, pattern: str, warmup: int, repeats: int, on_node: OnNode | None, visit: Visit | None
    ) -> None:
        self._bind()
        if visit is not None:
            for op in self.graph.ops:
                if op.kind == "source" and fnmatchcase(op.name, pattern):
                    visit(op, [self.read(y) for y in op.outputs])
        total = len(self.program.nodes)
        for done, node in enumerate(self.program.nodes):
            if on_node:
                on_node(done, total)
            call, wanted = self.program.step(node), fnmatchcase(node.name, pattern)
            if not wanted:
                if call is not None:
                    call()
                continue
            time = measure(call, warmup, repeats) if call else no_time()
            if visit is not None:
                visit(node, [self.read(y) for y in node.outputs])
            self.rows.append(self._row(node, time))
        if on_node:
            on_node(total, total)

    def _row(self, node: Op, time: Any) -> NodeRow:
        kernel = self.program.kernels.get(node.name)
        shape = node.outputs[0].details.plain_dims
        name = kernel.kernel if kernel else "__nop"
        return NodeRow(node.name, name, shape, len(node.inputs), len(node.outputs), time)

    def _execute(self, last: Op | None) -> None:
        if last is not None and last.kind == "source":
            self._bind()
            return
        for node in self.walk():
            if node is last:
                return

    def _find(self, name: str) -> Op:
        ops = {op.name: op for op in self.graph.ops if op.op_name != "output"}
        for op in self.graph.ops:
            if op.op_name == "fused":
                inner = op.attr("graph").outputs[0].inputs[0].producer_owner.name
                ops.setdefault(inner, op)
        if name not in ops:
            shown = ", ".join(node.name for node in self.program.nodes[:20])
            raise UserError(
                f"there is no node '{name}' in the optimised graph; it has {shown}; "
                "compile with disabled=('fuse',) to keep one node per op"
            )
        return ops[name]

    def _check_pattern(self, pattern: str) -> None:
        if not any(fnmatchcase(node.name, pattern) for node in self.program.nodes):
            shown = ", ".join(node.name for node in self.program.nodes[:20])
            raise UserError(f"no node matches '{pattern}'; the nodes are {shown}")


def debug(
    model: Any,
    target: str | Target = "native",
    threads: int | None = None,
    inputs: Mapping[str, str] | None = None,
    *,
    disabled: tuple[str, ...] = (),
    dump_root: str | os.PathLike[str] | None = None,
) -> DebugExecutor:
    """Compile a model for running node by node. Arguments are those of `graphc.compile`.

    `dump_root`: where `run` writes the graph and every tensor in TVM's formats. UserError, UnsupportedError.
    """
    options = CompileOptions(resolve_threads(threads), frozenset(disabled))
    ctx = LowerContext(target_for(target) if isinstance(target, str) else target, options)
    root = Path(dump_root) if dump_root is not None else None
    return DebugExecutor(load(model, inputs), ctx, root)
