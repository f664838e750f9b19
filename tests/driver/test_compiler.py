"""The Python API: what can be compiled, how a model is called, saved and loaded."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import graphc
from graphc.base.dtypes import BF16, F32, by_name
from graphc.base.errors import UnsupportedError, UserError
from graphc.base.options import SWITCHES, CompileOptions
from graphc.codegen import kernel_pool
from graphc.codegen.kernel_parts import KERNEL, compile_part, split_program
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.inspect.compare import difference
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.plan_memory import MEMORY_PLAN
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.targets.isa import Target
from graphc.tensor_ir import pipeline as loop_pipeline
from graphc.tensor_ir.fingerprint import fingerprint
from graphc.tensor_ir.nodes import Function
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_function
from support import isa
from support.check_op import ALL
from support.graphs import random_input
from support.onnx_models import evaluate, model, node
from support.process import ROOT

WEIGHT = np.random.default_rng(3).integers(-4, 5, (13, 7)).astype(np.float32)


def layer(batch: int | str = 8) -> ModelProto:
    """y = relu(x @ WEIGHT)."""
    nodes = [node("MatMul", "x w", "p"), node("Relu", "p")]
    return model(nodes, {"x": [batch, 13]}, {"w": WEIGHT})


def two_of_each() -> ModelProto:
    """s = a + b, d = a - b."""
    nodes = [node("Add", "a b", "s"), node("Sub", "a b", "d")]
    return model(nodes, {"a": [2, 3], "b": [2, 3]}, outputs=["s", "d"])


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-4, 5, (8, 13)).astype(np.float32)


def as_graph(proto: ModelProto) -> Graph:
    return compile_stages(proto).source


def as_path(proto: ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "proto", "graph"])
def test_what_can_be_compiled(kind: str, x: np.ndarray, tmp_path: Path) -> None:
    proto = layer()
    given = {
        "path": lambda: as_path(proto, tmp_path),
        "text": lambda: str(as_path(proto, tmp_path)),
        "bytes": proto.SerializeToString,
        "proto": lambda: proto,
        "graph": lambda: as_graph(proto),
    }[kind]()
    m = graphc.compile(given)
    np.testing.assert_array_equal(m(x), np.maximum(x @ WEIGHT, 0))


def test_the_signature_of_the_issue() -> None:
    parameters = inspect.signature(graphc.compile).parameters
    assert list(parameters)[:4] == ["model", "target", "threads", "inputs"]
    defaults = {name: parameters[name].default for name in ("target", "threads", "inputs")}
    assert defaults == {"target": "native", "threads": None, "inputs": None}


def test_compiling_leaves_a_graph_as_it_was(x: np.ndarray) -> None:
    graph = as_graph(layer())
    before = graph.hash_contents()
    graphc.compile(graph)
    assert graph.hash_contents() == before and not MEMORY_PLAN.is_on(graph)


def test_a_graph_may_be_built_in_any_order() -> None:
    graph = Graph("g")
    a = graph.make_input(LogicalTensor(F32, (3,)), "a")
    graph.make_output(graph.make("neg", (a,)).outputs[0], "first")
    b = graph.make_input(LogicalTensor(F32, (3,)), "b")
    graph.make_output(graph.make("add", (a, b)).outputs[0], "second")
    m = graphc.compile(graph)
    assert [t.name for t in (*m.inputs, *m.outputs)] == ["a", "b", "first", "second"]
    one, two = m(np.float32([1, 2, 3]), np.float32([4, 4, 4]))
    assert one.tolist() == [-1, -2, -3] and two.tolist() == [5, 6, 7]


def test_one_output_is_an_array_several_are_a_tuple(x: np.ndarray) -> None:
    assert isinstance(graphc.compile(layer())(x), np.ndarray)
    a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 3, np.float32)
    m = graphc.compile(two_of_each())
    for result in (m(a, b), m(a, b=b), m(b=b, a=a)):
        assert isinstance(result, tuple)
        assert [y[0, 0] for y in result] == [8, 2]


def test_run_has_the_signature_of_onnx_runtime() -> None:
    m = graphc.compile(two_of_each())
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)}
    every = m.run(None, feeds)
    assert isinstance(every, list) and [y[0, 0] for y in every] == [2, 0]
    assert [y[0, 0] for y in m.run(["d", "s"], feeds)] == [0, 2]


def test_bind_calls_on_fixed_buffers(x: np.ndarray) -> None:
    m = graphc.compile(layer())
    y = np.zeros((8, 7), np.float32)
    call = m.bind({"x": x}, [y])
    for _ in range(3):
        call()
        np.testing.assert_array_equal(y, np.maximum(x @ WEIGHT, 0))
        x *= -1


def test_facts() -> None:
    m = graphc.compile(layer(), threads=1)
    assert [(t.name, t.dtype, t.shape) for t in m.inputs] == [("x", F32, (8, 13))]
    assert [(t.name, t.dtype, t.shape) for t in m.outputs] == [("y", F32, (8, 7))]
    stats = m.stats
    assert (stats["ops"], stats["kernels"], len(stats["calls"])) == (2, 1, 1)
    assert stats["arena_bytes"] == 0 and stats["constants_bytes"] >= WEIGHT.nbytes
    assert stats["gflop"] == pytest.approx((2 * 8 * 7 * 13 + 8 * 7) / 1e9)
    assert m.threads == 1


def test_save_and_load(x: np.ndarray, tmp_path: Path) -> None:
    m = graphc.compile(layer())
    m.save(tmp_path / "m.gcm")
    loaded = graphc.load(tmp_path / "m.gcm")
    assert (loaded.inputs, loaded.outputs, loaded.stats) == (m.inputs, m.outputs, m.stats)
    assert loaded(x).tobytes() == m(x).tobytes()


def test_inputs_fix_dynamic_sizes_of_the_file(rng: np.random.Generator) -> None:
    for batch in (1, 5):
        m = graphc.compile(layer("batch"), inputs={"x": f"f32[{batch},13]"})
        x = rng.integers(-4, 5, (batch, 13)).astype(np.float32)
        np.testing.assert_array_equal(m(x), np.maximum(x @ WEIGHT, 0))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": "sse"}, "target 'sse' is not known; known are "),
        ({"threads": 0}, "threads must be an integer from 1 to 1024, got 0"),
        ({"disabled": ("magic",)}, "switch 'magic' is not known; known are fold, cse, "),
        ({"inputs": {"z": "f32[8,13]"}}, "model: there is no input 'z'; its inputs are 'x'"),
        ({"inputs": {"x": "8x13"}}, "input spec '8x13' must end with the shape in brackets, "),
    ],
)  # fmt: skip
def test_refused_arguments(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        graphc.compile(layer(), **arguments)  # type: ignore[arg-type]
    assert sentence.removeprefix("model: ") in str(error.value)


@pytest.mark.parametrize("given", [None, 3, [], b"", b"garbage", "nope.onnx", "pair\0.onnx"])
def test_refused_models(given: object) -> None:
    with pytest.raises(UserError) as error:
        graphc.compile(given)
    assert "\n" not in str(error.value)


def test_unsupported_models() -> None:
    with pytest.raises(UnsupportedError, match="Frobnicate"):
        graphc.compile(model([node("Frobnicate", "x")], {"x": [2]}))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"x": np.zeros((8, 13))},
            "input 'x' must be f32[8,13], got f64[8,13]; convert with x.astype(",
        ),
        ({"x": np.zeros((8, 12), np.float32)}, "input 'x' must be f32[8,13], got f32[8,12]; "),
        ({"x": np.zeros(104, np.float32)}, "input 'x' must be f32[8,13], got f32[104]; "),
        ({"w": np.zeros((8, 13), np.float32)}, "model 'test' takes "),
        ({}, "model 'test' takes "),
    ],
)
def test_refused_calls(arguments: dict[str, np.ndarray], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        graphc.compile(layer())(**arguments)
    assert str(error.value).startswith(sentence)


def test_strided_and_misaligned_inputs_work(x: np.ndarray) -> None:
    m = graphc.compile(layer())
    expected = m(x)
    wide = np.zeros((8, 26), np.float32)
    wide[:, ::2] = x
    raw = np.zeros(x.nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(x.shape)
    odd[...] = x
    for array in (wide[:, ::2], np.asfortranarray(x), x[::-1][::-1], odd):
        np.testing.assert_array_equal(m(array), expected)


@pytest.mark.parametrize("level", ["generic", "avx2", "avx512"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_isa_gives_the_reference(level: str, threads: int, x: np.ndarray) -> None:
    """avx512 shapes run anywhere: LLVM splits the vectors."""
    m = graphc.compile(layer(), isa.host_target(level), threads)
    np.testing.assert_array_equal(m(x), evaluate(layer(), {"x": x})[0])


@pytest.mark.parametrize("switch", SWITCHES)
def test_no_switch_changes_a_result(switch: str, x: np.ndarray) -> None:
    m = graphc.compile(layer(), disabled=[switch])
    np.testing.assert_array_equal(m(x), np.maximum(x @ WEIGHT, 0))


@pytest.mark.parametrize("dtype", ALL)
def test_matmuls_and_elementwise_ops_of_every_dtype(dtype: str, rng: np.random.Generator) -> None:
    graph = Graph("g")
    a, b = (graph.make_input(LogicalTensor(by_name(dtype), s)) for s in ((3, 9), (9, 5)))
    p = graph.make("matmul_core", (a, b)).outputs[0]
    y = graph.make("xor" if dtype == "bool" else "mul", (p, p)).outputs[0]
    for result in (p, y):
        graph.make_output(result)
    arrays = [random_input(rng, op.outputs[0].details) for op in graph.inputs]
    results = graphc.compile(graph)(*arrays)
    for got, want in zip(results, graph.evaluate(arrays), strict=True):
        assert difference(got, want, exact=dtype not in ("f16", "bf16")).ok


def test_phases_are_reported_in_order() -> None:
    seen: list[tuple[str, int, int]] = []
    made = compile_stages(layer(), on_phase=lambda *step: seen.append(step))
    phases = ["read", "optimize", "lower", "kernels"]
    assert [name for name, done, _ in seen if done == 0] == phases
    assert [name for name, done, total in seen if done == total][-1] == "kernels"
    assert list(made.phases.seconds) == phases
    assert set(made.phases.kernel_seconds) == {"loops", "emit", "llvm"}


def test_the_same_model_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_pool, "compile_part", compile_part)  # not what tests share
    for name in ("a", "b"):
        graphc.compile(layer(), cache=False).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_is_shown_is_what_is_compiled() -> None:
    """The final loops of the whole program are those each kernel was compiled from."""
    made = compile_stages(layer(), "avx2")
    for part in split_program(made.lowered.module):
        if part.kernel:
            shown = made.module.function(part.kernel)
            compiled = loop_pipeline.run(part.module, made.target).function(KERNEL)
            assert fingerprint(replace_names(shown, part.kernel)) == fingerprint(compiled)


def replace_names(function: Function, name: str) -> Function:
    """The function with the names of its tasks as they are in a part."""
    text = print_function(function).replace(name, KERNEL)
    return parse_module(text).functions[0]


def test_every_stage_is_kept() -> None:
    made = compile_stages(layer(), Target("generic"), CompileOptions())
    assert made.target.isa == made.artifact.metadata.isa == "generic"
    assert [op.op_name for op in made.source.ops].count("relu") == 1
    assert any(op.op_name == "fused" for op in made.graph.ops)
    assert made.lowered.module.entry == made.module.entry == "main"
    assert "define i32 @graphc_entry(" in made.llvm_ir
    assert made.artifact.metadata.model_hash == made.source.hash_contents()


def test_the_dump_folder(tmp_path: Path) -> None:
    graphc.compile(layer(), dump_dir=tmp_path / "dump")
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names[0] == "00_read.txt" and names[-1].endswith("_llvm.txt")
    with pytest.raises(UserError) as error:
        graphc.compile(layer(), dump_dir="/dev/null/dump")
    assert str(error.value) == (
        "cannot write '/dev/null/dump' (Not a directory); give another path"
    )


@pytest.mark.parametrize("kind", ["input", "constant"])
def test_a_graph_without_work(kind: str) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(BF16, (3,)), "x")
    value = np.arange(3).astype(BF16.numpy)
    graph.make_output(x if kind == "input" else graph.make_constant(value), "y")
    result = graphc.compile(graph)(value)
    assert isinstance(result, np.ndarray) and result.tobytes() == value.tobytes()
    result[:] = 9
    assert value.astype(int).tolist() == [0, 1, 2], "the caller's array is not the result's memory"


@pytest.mark.parametrize("shape", [(0,), (0, 4), ()])
def test_empty_tensors_and_scalars(shape: tuple[int, ...]) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, shape), "x")
    graph.make_output(graph.make("exp", (x,)).outputs[0], "y")
    graph.make_output(graph.make("reduce_sum", (x,)).outputs[0], "total")
    y, total = graphc.compile(graph)(np.zeros(shape, np.float32))
    assert y.shape == shape and (y == 1).all() and total == 0


def test_an_optimized_graph_is_printed_edited_parsed_and_run() -> None:
    made = compile_stages(str(ROOT / "examples/mlp.onnx"), "avx2")
    text = print_graph(made.graph, full=True)
    assert "split k 512;" in text
    edited = parse_graph(text.replace("split k 512;", "split k 256;"))
    compiled = graphc.compile(edited, "avx2", threads=1, optimized=True)
    assert "split k 256;" in compiled.stats["calls"][1]["note"]
    x = np.random.default_rng(0).standard_normal((32, 13)).astype(np.float32)
    assert difference(compiled(x), made.source.evaluate([x])[0]).ok


def test_a_graph_that_is_not_optimized_is_refused_as_such() -> None:
    graph = Graph("m")
    x = graph.make_input(LogicalTensor(F32, (3, 4)), "x")
    graph.make_output(graph.make("softmax", [x], name="s").outputs[0])
    with pytest.raises(UserError) as caught:
        graphc.compile(graph, optimized=True)
    assert str(caught.value) == (
        "softmax 's': an optimized graph has only ops that are kernels, "
        "got the composite op softmax; compile it without optimized=True"
    )
