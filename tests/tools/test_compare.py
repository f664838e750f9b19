"""Bugs planted in every part of the compiler: each must be found, and the right part named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.cli import main
from graphc.frontend import load
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.note import MODEL_VALUES
from graphc.graph_ir.lowering import matmul as lower_matmul
from graphc.graph_ir.passes import pipeline as graph_pipeline
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import pipeline as loop_pipeline
from graphc.tensor_ir.nodes import Binary, Module
from graphc.tensor_ir.visitor import Rewriter, map_functions
from graphc.tools import compare, node_program
from graphc.tools.bisect_passes import first_wrong, graph_prefixes, program_prefixes
from graphc.tools.compare import Finding, Outcome, compare_with_references
from graphc.tools.submodel import cut_rows, with_rows, write_reproducer
from support.isa import host_target
from support.process import ROOT

Patch = pytest.MonkeyPatch


def network(rows: int = 6) -> Graph:
    """Three layers with gelu (decomposed, as exporters do it), a softmax and a residual."""
    rng = np.random.default_rng(3)
    graph = Graph("net")
    x = graph.make_input(LogicalTensor(F32, (rows, 10)), "x")
    y = x
    for layer in range(3):
        w = graph.make_constant(rng.standard_normal((10, 10), np.float32), f"w{layer}")
        b = graph.make_constant(rng.standard_normal(10, np.float32), f"b{layer}")
        matmul = graph.make("matmul_core", (y, w), {}, f"matmul{layer}").outputs[0]
        biased = graph.make("add", (matmul, b), {}, f"biased{layer}").outputs[0]
        y = graph.make("max", (biased, matmul), {}, f"max{layer}").outputs[0]
    soft = graph.make("softmax", (y,), {"axis": -1}, "soft").outputs[0]
    graph.make_output(graph.make("sub", (soft, x), {}, "last").outputs[0], "y")
    return graph


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_view_of_a_result_whose_dynamic_size_is_one(length: int) -> None:
    graph, rng = Graph("upsampled"), np.random.default_rng(5)
    steps = size(Symbol("T"))
    x = graph.make_input(LogicalTensor(F32, (1, 4, steps)), "x")
    w = graph.make_constant(rng.standard_normal((4, 6, 4), np.float32), "w")
    attrs = {"strides": (2,), "before": (1,), "after": (1,)}
    y = graph.make("convolution_transpose", (x, w), attrs, "up").outputs[0]
    y = graph.make("reshape", (y,), {"shape": (1, 2, 3, 2 * steps)}, "view").outputs[0]
    graph.make_output(graph.make("add", (y, y), {}, "last").outputs[0], "y")
    arrays = {"x": rng.standard_normal((1, 4, length), np.float32)}
    assert compare_with_references(graph, context(), arrays).finding is None


def context(*disabled: str) -> LowerContext:
    return LowerContext(host_target("avx2"), CompileOptions(1, frozenset(disabled)))


def feeds(graph: Graph) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    return {
        op.name: rng.standard_normal(op.outputs[0].details.plain_dims, np.float32)
        for op in graph.inputs
    }


def run(graph: Graph | None = None, *disabled: str) -> Outcome:
    source = graph or network()
    return compare_with_references(source, context(*disabled), feeds(source))


def found(outcome: Outcome) -> Finding:
    assert outcome.finding is not None
    return outcome.finding


@pytest.mark.exhaustive
@pytest.mark.parametrize("disabled", [(), ("fuse",), ("blocked-layouts", "recompose")])
def test_a_right_compiler_is_right(disabled: tuple[str, ...]) -> None:
    outcome = run(None, *disabled)
    assert outcome.finding is None
    assert outcome.checked > 5 and 0 < outcome.worst_share < 0.5


def break_graph_pass(monkeypatch: Patch, name: str, break_: Callable[[Graph], None]) -> None:
    """The last pass called `name` also does harm."""
    number = max(i for i, (p, _) in enumerate(graph_pipeline.PIPELINE) if p.__name__ == name)
    step, switch = graph_pipeline.PIPELINE[number]

    def broken(graph: Graph, ctx: LowerContext) -> bool:
        changed = step(graph, ctx)
        break_(graph)
        return changed

    broken.__name__ = name
    steps = list(graph_pipeline.PIPELINE)
    steps[number] = (broken, switch)
    monkeypatch.setattr(graph_pipeline, "PIPELINE", tuple(steps))


def max_becomes_min(graph: Graph) -> None:
    for op in list(graph.ops):
        if op.op_name == "max" and op.name == "max1":
            other = graph.make("min", op.inputs, {}, "wrong").outputs[0]
            op.outputs[0].replace_uses(other)
            graph.remove([op])
    graph.sort()


def constant_is_off(graph: Graph) -> None:
    for op in graph.ops:
        if op.op_name == "constant" and op.name.startswith("w2"):
            op.attrs = {**op.attrs, "value": op.attrs["value"] * np.float32(1.001)}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "break_"),
    [
        ("simplify_algebra", max_becomes_min),
        ("eliminate_common", max_becomes_min),
        ("decompose", max_becomes_min),
        ("fold_constants", constant_is_off),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_bug_in_a_graph_pass(name: str, break_, monkeypatch: Patch) -> None:
    break_graph_pass(monkeypatch, name, break_)
    finding = found(run())
    assert (finding.stage, finding.culprit) == ("graph pass", name)
    assert finding.model is not None and len(finding.model.ops) <= len(network().ops)


def test_the_reproducer_of_a_pass_is_smaller_and_shows_the_error(monkeypatch: Patch) -> None:
    break_graph_pass(monkeypatch, "simplify_algebra", max_becomes_min)
    finding = found(run())
    assert finding.op == "max1"
    assert "the pass removed max max1" in finding.notes
    assert "the pass added min wrong" in finding.notes
    assert finding.model is not None
    names = {op.name.removesuffix("_1") for op in finding.model.ops}
    assert names < {op.name for op in network().ops} and len(names) <= 4
    again = compare_with_references(finding.model, context(), finding.arrays)
    assert found(again).culprit == "simplify_algebra"


class _GreatestBecomesLeast(Rewriter):
    def binary(self, e: Binary) -> Any:
        new = super().binary(e)
        if isinstance(new, Binary) and new.op == "max" and new.dtype == F32:
            return replace(new, op="min")
        return new


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(loop_pipeline.PASSES)))
def test_a_bug_in_a_loop_pass(number: int, monkeypatch: Patch) -> None:
    passes = list(loop_pipeline.PASSES)
    step = passes[number]

    def broken(module: Module, target: Any) -> Module:
        done = step(module, target)
        return map_functions(done, lambda f: _GreatestBecomesLeast().function(f))

    broken.__name__ = step.__name__
    passes[number] = broken
    monkeypatch.setattr(loop_pipeline, "PASSES", tuple(passes))
    finding = found(run())
    assert (finding.stage, finding.culprit) == ("loop pass", step.__name__)
    assert finding.op.startswith("max0")


def test_a_bug_in_the_lowering_of_an_op(monkeypatch: Patch) -> None:
    whole = lower_matmul.narrow

    def broken(value: Any, dtype: Any) -> Any:
        return whole(value, dtype) + t.const(0.01, F32)

    monkeypatch.setattr(lower_matmul, "narrow", broken)
    finding = found(run())
    assert finding.stage == "lowering"
    assert "gemm" in " ".join(finding.notes)
    assert finding.model is not None
    assert finding.model.inputs[0].outputs[0].details.plain_dims[0] == compare.SMALL_ROWS


def test_a_relative_error_of_1e_5_in_a_kernel_is_found(monkeypatch: Patch) -> None:
    whole = lower_matmul.narrow

    def broken(value: Any, dtype: Any) -> Any:
        return whole(value, dtype) * t.const(1.00001, F32)

    monkeypatch.setattr(lower_matmul, "narrow", broken)
    finding = found(run())
    assert (finding.stage, finding.op) == ("lowering", "max0.fused")
    assert "the template of" in finding.culprit


def test_a_bug_in_code_generation_names_the_kernel(monkeypatch: Patch) -> None:
    emit = node_program.emit_module

    def broken(module: Module, target: Any) -> str:
        return emit(module, target).replace("fadd", "fsub")

    monkeypatch.setattr(node_program, "emit_module", broken)
    finding = found(run())
    assert finding.stage == "code generation"
    assert "f32_" in finding.culprit


def test_tensors_at_one_offset_are_found(monkeypatch: Patch) -> None:
    from graphc.graph_ir.passes import plan_memory

    def allocate(arena: Any, life: Any) -> int:
        arena._insert(0, life)
        return 0

    monkeypatch.setattr(plan_memory._Arena, "allocate", allocate)
    finding = found(run(None, "fuse"))
    assert finding.stage in ("memory", "kernel") or "plan_memory" in finding.culprit


def test_the_importer_of_a_node_is_named(monkeypatch: Patch, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from graphc.bench.intermediates import engine_values
    from graphc.frontend.onnx import importer
    from support.onnx_models import model, node

    weights = {"w": np.ones((4, 4), np.float32)}
    nodes = [node("MatMul", "x w", "m"), node("Sigmoid", "m", "s"), node("Relu", "s", "y")]
    proto = model(nodes, {"x": [3, 4]}, weights).SerializeToString()
    arrays = {"x": np.ones((3, 4), np.float32)}

    def outcome() -> Outcome:
        values = engine_values("onnx-reference", proto, arrays)
        return compare.compare_with_engine(load(proto), "onnx-reference", values, arrays)

    assert outcome().finding is None and outcome().checked == 3
    handlers = {**importer.HANDLERS, "Sigmoid": importer.HANDLERS["Tanh"]}
    monkeypatch.setattr(importer, "HANDLERS", handlers)
    finding = found(outcome())
    assert (finding.stage, finding.op) == ("frontend", finding.op)
    assert "Sigmoid" in finding.culprit and "value 's'" in finding.notes[0]


def test_every_prefix_of_both_pipelines_is_run() -> None:
    graph = network()
    ordered = list(feeds(graph).values())
    passes = list(graph_prefixes(graph, context(), ordered))
    assert passes and all(prefix.error.ok for prefix in passes)
    loops = list(program_prefixes(graph, context(), ordered))
    assert loops[0].name == "lowering" and all(prefix.error.ok for prefix in loops)


def test_bisection_finds_the_first_wrong_one() -> None:
    for first in range(1, 20):
        requested: list[int] = []

        def wrong(n: int, first: int = first, requested: list[int] = requested) -> bool:
            requested.append(n)
            return n >= first

        assert first_wrong(0, 19, wrong) == first
        assert len(requested) <= 5


def test_fewer_rows_are_a_smaller_model() -> None:
    graph = network(rows=9)
    small = with_rows(graph, 2)
    assert small is not None
    arrays = feeds(graph)
    (whole,) = graph.evaluate(list(arrays.values()))
    (part,) = small.evaluate(list(cut_rows(small, arrays).values()))
    np.testing.assert_array_equal(part, whole[:2])
    assert with_rows(small, 2) is None


def test_a_reproducer_is_read_back_and_right_without_the_bug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = network()
    command = write_reproducer(tmp_path / "r", graph, feeds(graph), ["--target native"])
    assert load(tmp_path / "r" / "model.graph").compare_contents(graph)
    assert main([*command.split()[1:], "-q"]) == 0
    assert capsys.readouterr().out.startswith("ok: ")


def test_the_command_writes_a_reproducer_that_fails_again(
    tmp_path: Path, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    emit = node_program.emit_module
    monkeypatch.setattr(
        node_program, "emit_module", lambda m, target: emit(m, target).replace("fadd", "fsub")
    )
    first = write_reproducer(tmp_path / "first", network(), feeds(network()), [])
    words = [*first.split()[1:], "-q", "--reproducer", str(tmp_path / "second")]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "WRONG against numpy" in out and "code generation" in out
    again = (tmp_path / "second" / "command.txt").read_text().split()
    assert main([*again[1:], "-q", "--reproducer", str(tmp_path / "third")]) == 1
    assert "code generation" in capsys.readouterr().out


def recorded(model: Path, arrays: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the values of a right import, by their names in the file, as an engine would report them."""
    graph = load(model)
    values = {
        op.outputs[0].name: value
        for op, value in graph.walk_reference(list(arrays.values()))
        if op.op_name != "output"
    }
    named = MODEL_VALUES.of(graph)
    live = {name: tensor for name, tensor in named.items() if tensor in values}
    return [(name, f"'{name}'", values[tensor]) for name, tensor in live.items()]


@pytest.mark.parametrize(
    ("file", "frontend", "op", "broken", "value"),
    [
        ("linear.pnnx.param", "pnnx", "F.sigmoid", "F.tanh", "2"),
        ("block.hlo", "hlo", "tanh", None, "hidden"),
        ("mha.onnx", "onnx", "Softmax", None, "weights.out"),
    ],
)
def test_a_bug_in_each_frontend_is_named(
    file: str, frontend: str, op: str, broken: str | None, value: str, monkeypatch: Patch
) -> None:
    model = ROOT / "examples" / file
    arrays = feeds(load(model))
    values = recorded(model, arrays)
    right = compare.compare_with_engine(load(model), "a record", values, arrays)
    assert right.finding is None and right.checked >= 2
    room = import_module(f"graphc.frontend.{frontend}.importer")
    if frontend == "pnnx":
        wrong: Any = replace(room.HANDLERS[op], run=room.HANDLERS[broken].run)
    elif frontend == "hlo":
        wrong = lambda step: step.operands[0]  # noqa: E731
    else:
        wrong = lambda node: node.tensor(0)  # noqa: E731
    monkeypatch.setattr(room, "HANDLERS", {**room.HANDLERS, op: wrong})
    finding = found(compare.compare_with_engine(load(model), "a record", values, arrays))
    assert (finding.stage, finding.culprit) == ("frontend", f"the importer of '{value}'")
