"""The debug executor, after TVM's: runs a model node by node, with times and access to every value."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np

from ..base.errors import UserError
from ..base.options import CompileOptions
from ..codegen.host import target_for
from ..frontend import load
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ..graph_ir.schedule.context import LowerContext
from ..runtime.artifact import Artifact
from ..runtime.debugger import NodeRow, means, measure, no_time, node_table
from ..runtime.metadata import TensorSpec
from ..runtime.threadpool import resolve_threads
from ..targets.isa import Target
from .artifact_graph import artifact_graph
from .node_program import NodeProgram
from .parameters import Parameters

WARMUP, REPEATS = 1, 5
DUMP_PREFIX = "tvmdbg_"
OnNode = Callable[[int, int], None]
Visit = Callable[[Op, list[Array]], None]
"""Called with a node right after it ran and the values of its outputs."""


class DebugExecutor:
    """Runs a compiled model one node at a time; `graphc.debug` makes it.

    Nodes are those of the optimized graph: a group of fused ops is one node, named after its last op. `rows` holds
    what the last `run` measured. The methods of TVM's debug executor have its names and arguments.
    """

    dump_root: Path | None = None
    """Folder in which `run` writes every value; None writes nothing."""

    def __init__(self, source: Graph, ctx: LowerContext, optimized: bool = False) -> None:
        self.program = NodeProgram(source, ctx, optimized)
        self.rows: list[NodeRow] = []
        self.delete_dump: Callable[[], object] = lambda: None
        self._optimized = optimized
        self._parameters = Parameters(source, [spec.name for spec in self.program.inputs])

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input."""
        return self.program.inputs

    @property
    def graph(self) -> Graph:
        """The optimized graph whose nodes run."""
        return self.program.graph

    def set_input(self, key: str | int | None = None, value: Any = None, /, **named: Any) -> None:
        """Give one input as (name or number, array), or several by keyword; constants of the model may be given too.

        Another value of a constant compiles the model again. Raise UserError for a name the model does not have.
        """
        if key is not None:
            self._parameters.set(key, value)
        for name, array in named.items():
            self._parameters.set(name, array)

    def get_input(self, key: str | int, out: Array | None = None) -> Array:
        """The value of an input, by name or number, also written to `out`."""
        return _copied(self._parameters.input(key), out)

    def load_params(self, params: bytes | bytearray) -> None:
        """Set the inputs and constants in the bytes of a `.params` file, such as a dump; other names are skipped."""
        self._parameters.load(bytes(params))

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

        A time is the median of `repeats` runs of the node after `warmup` untimed ones. Values stream to disk one
        by one.
        """
        from .debug_dump import Dump

        self.set_input(**inputs)
        self._check_pattern(nodes)
        self._bind()
        self.rows = []
        if self.dump_root is None:
            self._run(nodes, warmup, repeats, on_node, None)
            return self.rows
        with Dump(self.dump_root, self.program, nodes) as dump:
            self._run(nodes, warmup, repeats, on_node, dump.add)
            dump.finish(self.rows)
        return self.rows

    def run_individual(self, number: int = 10, repeat: int = 1) -> list[tuple[float, ...]]:
        """Seconds that each node takes: `repeat` means of `number` runs each. Nodes without code take none."""
        self._bind()
        found = []
        for node in self.program.nodes:
            call = self.program.step(node)
            found.append(means(call, number, repeat) if call else (0.0,) * repeat)
        return found

    def get_output(self, index: int = 0, out: Array | None = None) -> Array:
        """Output `index` of the last run (or of one made now), also written to `out`."""
        if not 0 <= index < len(self.graph.outputs):
            raise UserError(f"there is no output {index}; the model has {len(self.graph.outputs)}")
        if not self.rows:
            self._execute(None)
        return _copied(self.program.value(self.graph.outputs[index].inputs[0]), out)

    def debug_get_output(self, node: str | int, out: Array | None = None) -> Array:
        """The first value of a node, by name or by its number in the graph of the dump, also written to `out`."""
        if isinstance(node, int):
            ops = [op for op in self.graph.ops if not op.is_output]
            if not 0 <= node < len(ops):
                raise UserError(f"there is no node {node}; the graph has {len(ops)}")
            node = ops[node].name
        return _copied(self.get_node_output(node), out)

    def get_node_output(self, name: str, index: int = 0) -> Array:
        """The value of a node, input or constant: runs the model up to it, as its memory may be reused later.

        `name` is a node of the optimized graph, or an op inside a node: such a value is never in memory, and is
        computed by the NumPy references from the inputs of its node.
        """
        self._find(name)
        self._bind()  # only then dynamic sizes have values
        op, inner = self._find(name)
        made = inner or op
        if not 0 <= index < len(made.outputs):
            raise UserError(
                f"node '{made.name}' has {len(made.outputs)} outputs, so the index must be less, got {index}"
            )
        self._execute(op)
        if inner is None:
            return self.program.value(op.outputs[index])
        walk = op.attr("graph").walk_reference([self.program.value(x) for x in op.inputs])
        return next(np.array(value) for each, value in walk if each is inner)

    def exit(self) -> None:
        """Release the code, and delete the dump unless `dump_root` was given."""
        self.close()
        self.delete_dump()

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
        changed = self._parameters.changed_model()
        if changed is not None:
            self.program.close()
            self.program = NodeProgram(changed, self.program.ctx, self._optimized)
        self.program.bind(self._parameters.values())

    def _run(
        self, pattern: str, warmup: int, repeats: int, on_node: OnNode | None, visit: Visit | None
    ) -> None:
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

    def _find(self, name: str) -> tuple[Op, Op | None]:
        """(the node of that name or with an op of that name, the op if its value is never in memory)."""
        ops = {op.name: op for op in self.graph.ops if not op.is_output}
        if name in ops:
            return ops[name], None
        for op in self.graph.ops:
            for inner in op.attr("graph").ops if op.kind == "fused" else ():
                if inner.name == name and inner.kind not in ("source", "sink"):
                    last = op.attr("graph").outputs[0].inputs[0].producer_owner
                    return op, None if inner is last else inner
        shown = ", ".join(node.name for node in self.program.nodes[:20])
        raise UserError(
            f"there is no node '{name}' in the optimized graph; it has {shown}; "
            "compile with disabled=('fuse',) to keep one node per op"
        )

    def _check_pattern(self, pattern: str) -> None:
        if not any(fnmatchcase(node.name, pattern) for node in self.program.nodes):
            shown = ", ".join(node.name for node in self.program.nodes[:20])
            raise UserError(f"no node matches '{pattern}'; the nodes are {shown}")


def _copied(value: Array, out: Array | None) -> Array:
    """`out` with the value, or the value. Raise UserError if they do not fit."""
    if out is None:
        return value
    if (out.shape, out.dtype) != (value.shape, value.dtype):
        raise UserError(
            f"`out` must be {value.dtype}{list(value.shape)}, got {out.dtype}{list(out.shape)}"
        )
    out[...] = value
    return out


def debug(
    model: Any,
    target: str | Target = "native",
    threads: int | None = None,
    inputs: Mapping[str, str] | None = None,
    *,
    disabled: tuple[str, ...] = (),
    dump_root: str | os.PathLike[str] | None = None,
) -> DebugExecutor:
    """Compile a model to run node by node.

    Args:
        model: A model of `graphc.compile`, or an artifact (`.gcm`).
        target: As for `graphc.compile`.
        threads: As for `graphc.compile`.
        inputs: As for `graphc.compile`.
        disabled: As for `graphc.compile`.
        dump_root: Folder for the graph and every tensor in the formats of TVM's debugger; None: a temporary folder that
            exists as long as the executor.
    """
    options = CompileOptions(resolve_threads(threads), frozenset(disabled))
    made = open_debugger(model, target, options, lambda: load(model, inputs))
    if dump_root is None:
        made.dump_root = Path(tempfile.mkdtemp(prefix=DUMP_PREFIX))
        made.delete_dump = finalize(made, shutil.rmtree, made.dump_root, ignore_errors=True)
    else:
        made.dump_root = Path(dump_root)
    return made


def open_debugger(
    model: Any, target: str | Target, options: CompileOptions, read: Callable[[], Graph]
) -> DebugExecutor:
    """The executor of an artifact, where that is the file's name, else of the graph that `read` gives."""
    is_artifact = isinstance(model, (str, os.PathLike)) and Path(model).suffix == ".gcm"
    if not is_artifact:
        chosen = target_for(target) if isinstance(target, str) else target
        return DebugExecutor(read(), LowerContext(chosen, options))
    artifact = Artifact.load(model)
    ctx = LowerContext(target_for(artifact.metadata.isa), options)
    return DebugExecutor(artifact_graph(artifact), ctx, optimized=True)
