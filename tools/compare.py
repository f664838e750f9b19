"""Finds where a compiled model first goes wrong: in a kernel, in a graph pass, or in memory planning.

The native program runs node by node; each node is checked on the inputs it actually received, then the values named
after an op of the model are checked against the model's references. For a wrong kernel, its Tensor IR is interpreted
after each pass; for wrong values from correct kernels, the references of the graph are run after each pass.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

import numpy as np

from ..base.records import dataclass
from ..driver.compiler import compile_stages
from ..driver.request import CompileRequest
from ..graph_ir.ir.graph import Array, Graph, Op
from ..graph_ir.ir.note import MODEL_VALUES
from ..graph_ir.schedule.context import LowerContext
from ..runtime.executor import CompiledModel
from .bisect_passes import Blame, blame_graph_pass, blame_kernel
from .error_bound import Error, Expected, expected_outputs, walk_expected, worst_error
from .node_program import NodeProgram
from .sized_model import sized_model
from .submodel import body, cone, cut_rows, node_graph, node_model, with_rows

OnStep = Callable[[str, int, int], None]
SMALL_ROWS = 2


@dataclass(frozen=True)
class Finding:
    """A bug: the stage and its culprit (a pass, a kernel, a frontend's op), where it shows, and its size.

    `model` and `arrays` are the smallest model that shows it and the inputs it needs.
    """

    stage: str
    culprit: str
    op: str
    error: Error
    notes: tuple[str, ...] = ()
    model: Graph | None = None
    arrays: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The number of values checked, the worst one within its bound, and the finding, if any."""

    checked: int
    worst: str
    worst_share: float
    finding: Finding | None


@dataclass
class _Tally:
    """The values checked so far."""

    checked: int = 0
    worst: str = "nothing"
    share: float = 0.0

    def add(self, name: str, error: Error) -> None:
        self.checked += 1
        if error.share >= self.share:
            self.worst, self.share = name, error.share

    def outcome(self, finding: Finding | None = None) -> Outcome:
        return Outcome(self.checked, self.worst, self.share, finding)


def compare_with_references(
    source: Graph, ctx: LowerContext, arrays: Mapping[str, Array], on_step: OnStep | None = None
) -> Outcome:
    """Check the native program of a model against its NumPy references, op by op.

    Sizes of dynamic dimensions have the numbers of the arrays; the code that is checked is for all of them.
    """
    step = on_step or (lambda phase, done, total: None)
    tally = _Tally()
    with tempfile.TemporaryDirectory(prefix="graphc-compare-") as folder:
        kept = _Kept(Path(folder))
        program = NodeProgram(source, ctx)
        try:
            finding = _check_kernels(program, arrays, kept, tally, step)
        finally:
            program.close()
        outputs: list[Expected] = []
        if finding is None:
            finding = _check_values(source, program.ctx, arrays, kept, tally, step, outputs)
    if finding is None:
        finding = _check_whole(source, ctx, arrays, tally, outputs)
    return tally.outcome(finding)


def compare_with_engine(
    source: Graph,
    engine: str,
    values: Iterable[tuple[str, str, Array]],
    arrays: Mapping[str, Array],
    on_step: OnStep | None = None,
) -> Outcome:
    """Check the model as read against another engine's values: (name, who makes it, array), in order.

    Only values that the frontend gave a tensor to are checked. The other engine rounds too, so bounds are doubled.
    """
    step = on_step or (lambda phase, done, total: None)
    tally = _Tally()
    tensor_of = MODEL_VALUES.of(source)
    source = sized_model(source, arrays)
    ordered = [arrays[op.name] for op in source.inputs]
    with tempfile.TemporaryDirectory(prefix="graphc-compare-") as folder:
        kept = _Kept(Path(folder))
        makers: dict[str, list[tuple[str, str]]] = {}  # several if an importer generated no op
        for name, maker, array in values:
            if name in tensor_of:
                kept.keep(name, array)
                makers.setdefault(tensor_of[name], []).append((name, maker))
        for done, (op, pairs) in enumerate(walk_expected(source, ordered)):
            step(engine, done, len(source.ops))
            if op.is_output or op.kind == "source":
                continue
            for tensor, expected in pairs:
                loose = replace(expected, bound=2 * expected.bound)
                for name, maker in makers.get(tensor.name, ()):
                    actual = kept.value(name, expected.value)
                    error = loose.error(actual if actual is not None else np.empty(0))
                    if not error.ok:
                        found = _frontend_finding(source, op, name, maker, error, arrays)
                        return tally.outcome(found)
                    tally.add(name, error)
        step(engine, len(source.ops), len(source.ops))
    return tally.outcome()


def _frontend_finding(
    source: Graph, op: Op, name: str, maker: str, error: Error, arrays: Mapping[str, Array]
) -> Finding:
    """The importer of the node that makes the first wrong value."""
    notes = (f"value '{name}' of {maker} was imported as {op.op_name} '{op.name}'",)
    return Finding("frontend", f"the importer of {maker}", op.name, error, notes, source, arrays)


class _Kept:
    """Values on disk by name, so that memory holds only what one node needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, Path] = {}

    def keep(self, name: str, value: Array) -> None:
        file = self.folder / f"{len(self.files)}.bin"
        file.write_bytes(np.ascontiguousarray(value).tobytes())  # .npy has no bf16
        self.files[name] = file

    def value(self, name: str, like: Array) -> Array | None:
        """The value, with the dtype and shape of `like`; None if there is none of that size."""
        if name not in self.files:
            return None
        data = np.frombuffer(self.files[name].read_bytes(), np.uint8)
        return data.view(like.dtype).reshape(like.shape) if data.size == like.nbytes else None


def _check_kernels(
    program: NodeProgram, arrays: Mapping[str, Array], kept: _Kept, tally: _Tally, step: OnStep
) -> Finding | None:
    """Check each node on the inputs it actually receives."""
    program.bind(arrays)
    for done, node in enumerate(program.nodes):
        step("kernels", done, len(program.nodes))
        inputs, actual = program.run(node)
        for tensor, value in zip(node.outputs, actual, strict=True):
            kept.keep(_name_in_model(node, tensor.name), value)
        error = worst_error(expected_outputs(node_graph(node), inputs), actual)
        if not error.ok:
            return _kernel_finding(node, inputs, error, program)
        tally.add(node.name, error)
    for op in program.graph.outputs:
        kept.keep(f"output {op.name}", program.value(op.inputs[0]))
    step("kernels", len(program.nodes), len(program.nodes))
    return None


def _name_in_model(node: Op, name: str) -> str:
    """The op of the model whose value a node computes: for a group, the op whose result leaves it."""
    if node.kind != "fused":
        return name
    result: str = node.attr("graph").outputs[0].inputs[0].name
    return result


def _kernel_finding(
    node: Op, inputs: Sequence[Array], error: Error, program: NodeProgram
) -> Finding:
    """Extract the node, shrink it if the error persists, and analyze its kernel."""
    operands = list(dict.fromkeys(node.inputs))
    arrays = {
        op.name: array
        for op, operand, array in zip(node_graph(node).inputs, operands, inputs, strict=True)
        if not operand.is_constant
    }
    model = node_model(node)
    small = with_rows(model, SMALL_ROWS)
    blame: Blame | None = None
    if small is not None:
        blame = _blame_model(small, cut_rows(small, arrays), program.ctx)
    if blame is not None and small is not None:
        model, arrays = small, cut_rows(small, arrays)
    else:
        blame = _blame_model(model, arrays, program.ctx)
    call = program.kernels.get(node.name)
    kernel = call.kernel if call else "a view"
    notes = [f"kernel {kernel} computes {', '.join(f'{o.op_name} {o.name}' for o in body(node))}"]
    if blame is None:
        notes.append("the node alone is right: the error depends on its surroundings")
        return Finding("kernel", kernel, node.name, error, tuple(notes), model, arrays)
    notes += blame.notes
    return Finding(
        blame.stage, blame.culprit or kernel, node.name, error, tuple(notes), model, arrays
    )


def _blame_model(model: Graph, arrays: Mapping[str, Array], ctx: LowerContext) -> Blame | None:
    """Run a small model node by node and analyze its first wrong kernel; None if all are right."""
    program = NodeProgram(model, ctx)
    try:
        program.bind(arrays)
        for node in program.nodes:
            inputs, actual = program.run(node)
            expected = expected_outputs(node_graph(node), inputs)
            if not worst_error(expected, actual).ok:
                return blame_kernel(node, inputs, expected, program.ctx)
    finally:
        program.close()
    return None


def _check_values(
    source: Graph,
    ctx: LowerContext,
    arrays: Mapping[str, Array],
    kept: _Kept,
    tally: _Tally,
    step: OnStep,
    outputs: list[Expected],
) -> Finding | None:
    """Check the native values against the model's own references. Only a wrong output counts: a pass may reuse a name.

    `outputs` receives the expected values of the outputs, in their order.
    """
    first: tuple[str, Error] | None = None
    wrong: tuple[str, Error] | None = None
    inputs = [arrays[op.name] for op in source.inputs]
    for done, (op, pairs) in enumerate(walk_expected(sized_model(source, arrays), inputs)):
        step("values", done, len(source.ops))
        is_output = op.is_output
        for tensor, expected in pairs:
            if is_output:
                outputs.append(expected)
            name = f"output {op.name}" if is_output else tensor.name
            actual = kept.value(name, expected.value) if op.kind != "source" else None
            if actual is None:
                continue
            error = expected.error(actual)
            if error.ok:
                tally.add(name, error)
            elif is_output:
                wrong = wrong or (tensor.name, error)
            else:
                first = first or (tensor.name, error)
    step("values", len(source.ops), len(source.ops))
    if wrong is None:
        return None
    name, error = first or wrong
    return _graph_finding(source, ctx, inputs, name, error)


def _graph_finding(
    source: Graph, ctx: LowerContext, inputs: Sequence[Array], name: str, error: Error
) -> Finding:
    """Find the pass, and extract the part of the model it broke."""
    arrays = {op.name: a for op, a in zip(source.inputs, inputs, strict=True)}
    blame = blame_graph_pass(source, ctx, inputs)
    if blame is None:
        notes = ("every graph and every kernel is right alone: tensors share memory they must not",)
        return Finding("memory", "plan_memory", name, error, notes, source, arrays)
    sized = sized_model(source, arrays)
    model, feeds = _smallest(sized, ctx, arrays, blame.op or name)
    return Finding("graph pass", blame.culprit, blame.op or name, error, blame.notes, model, feeds)


def _smallest(
    source: Graph, ctx: LowerContext, arrays: Mapping[str, Array], name: str
) -> tuple[Graph, Mapping[str, Array]]:
    """The smallest part of the model around an op that still shows the error, grown by its producers."""
    ops = {op.name: op for op in source.ops}
    if name not in ops or ops[name].kind in ("source", "sink"):
        return source, arrays
    values = {
        y: expected.value
        for _, pairs in walk_expected(source, [arrays[op.name] for op in source.inputs])
        for y, expected in pairs
    }
    target = ops[name].outputs[0]
    known = {op: op for op in [target.producer_owner]}
    for _ in range(6):  # each iteration adds one more layer of producers
        inside = set(known)
        border = [
            x for op in inside for x in op.inputs
            if x.producer_owner not in inside and not x.is_constant
        ]  # fmt: skip
        model = cone(source, target, border)
        feeds = {op.name: values[x] for op in model.inputs for x in border if x.name == op.name}
        ordered = [feeds.get(op.name, arrays.get(op.name)) for op in model.inputs]
        found = [array for array in ordered if array is not None]
        if len(found) == len(ordered) and blame_graph_pass(model, ctx, found):
            return model, {op.name: a for op, a in zip(model.inputs, found, strict=True)}
        known.update((x.producer_owner, x.producer_owner) for x in border)
    return source, arrays


def _check_whole(
    source: Graph,
    ctx: LowerContext,
    arrays: Mapping[str, Array],
    tally: _Tally,
    outputs: Sequence[Expected],
) -> Finding | None:
    """Check the program as it really runs, in which ops may write over their inputs."""
    request = CompileRequest(
        source, ctx.target, ctx.options, tuned=ctx.tuned, requested=ctx.requested
    )
    compilation = compile_stages(request)
    with CompiledModel(compilation.artifact, ctx.options.threads) as model:
        results = model.run(None, arrays)
    shown = outputs[: len(source.results)]  # behind them are sizes that were counted, and checks
    for op, result, wanted in zip(source.results, results, shown, strict=True):
        error = wanted.error(result)
        if not error.ok:
            notes = ("right node by node, wrong as one program: ops write over what is still read",)
            return Finding("memory", "plan_memory", op.inputs[0].name, error, notes, source, arrays)
        tally.add(f"output {op.name}", error)
    return None
