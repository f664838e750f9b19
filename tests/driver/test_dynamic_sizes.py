"""Models with dynamic sizes: the bits of models compiled for the sizes of a call, and one sentence for other shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import CompiledModel, Graph
from graphc.base.dims import Size, Symbol, evaluate, size
from graphc.base.dtypes import BF16, F16, F32, DType
from graphc.base.errors import UnsupportedError, UserError
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.targets.isa import Target
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify

N = size(Symbol("N", 1, 600))
ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 23, 64, 65, 509)

Make = Callable[[Size], Graph]


def weights(graph: Graph, *shape: int, dtype: DType = F32) -> GraphTensor:
    value = np.random.default_rng(shape).standard_normal(shape).astype(dtype.numpy)
    return graph.make("constant", [], {"value": value}, "w").outputs[0]


def layers(rows: Size, dtype: DType = F32, *widths: int) -> Graph:
    """Fully connected layers with bias and relu, then a softmax."""
    graph = Graph("layers")
    x = graph.make_input(LogicalTensor(dtype, (rows, 13)), "x")
    for n in widths or (70, 48, 9):
        w = weights(graph, n, x.details.plain_dims[1], dtype=dtype)
        matmul = graph.make("matmul_core", [x, w], {"transpose_b": True}).outputs[0]
        biased = graph.make("add", [matmul, weights(graph, n, dtype=dtype)]).outputs[0]
        x = graph.make("relu", [biased]).outputs[0]
    graph.make_output(graph.make("softmax", [x], {"axis": -1}).outputs[0], "y")
    return graph


def row_operations(rows: Size) -> Graph:
    """Elementwise ops, a layer norm, reductions over static axes, and a result per row."""
    graph = Graph("rows")
    x = graph.make_input(LogicalTensor(F32, (rows, 3, 37)), "x")
    y = graph.make_input(LogicalTensor(F32, (rows, 1, 37)), "y")
    total = graph.make("tanh", [graph.make("add", [x, y]).outputs[0]]).outputs[0]
    scale, shift = weights(graph, 37), weights(graph, 37)
    norm = graph.make("layer_norm", [total, scale, shift], {"axis": -1}).outputs[0]
    graph.make_output(norm, "norm")
    sums = graph.make("reduce_sum", [norm], {"axes": (1,), "keep_dims": False}).outputs[0]
    graph.make_output(graph.make("reduce_max", [sums], {"axes": (1,)}).outputs[0], "most")
    flat = graph.make("reshape", [total], {"shape": (rows, 111)}).outputs[0]
    graph.make_output(graph.make("transpose", [flat], {"perm": (1, 0)}).outputs[0], "transposed")
    return graph


def attention(rows: Size, batch: Size = 2) -> Graph:
    """Two heads over `rows` positions, whose number is that of columns and of terms too."""
    graph = Graph("attention")
    shapes = ((batch, 2, rows, 16), (batch, 2, 16, rows), (batch, 2, rows, 24))
    q, k, v = (
        graph.make_input(LogicalTensor(F32, s), n) for s, n in zip(shapes, "qkv", strict=True)
    )
    scores = graph.make("matmul_core", [q, k]).outputs[0]
    mixed = graph.make("matmul_core", [graph.make("softmax", [scores]).outputs[0], v]).outputs[0]
    graph.make_output(graph.make("transpose", [mixed], {"perm": (0, 2, 1, 3)}).outputs[0], "y")
    return graph


def images(number: Size) -> Graph:
    """Convolutions of several forms, a pool and a mean."""
    graph = Graph("images")
    x = graph.make_input(LogicalTensor(F32, (number, 3, 12, 12)), "x")
    for shape, groups in (((16, 3, 3, 3), 1), ((16, 1, 3, 3), 16), ((24, 16, 1, 1), 1)):
        attrs = {"groups": groups, "before": (shape[2] // 2,) * 2, "after": (shape[2] // 2,) * 2}
        x = graph.make("convolution", [x, weights(graph, *shape)], attrs).outputs[0]
        x = graph.make("relu", [x]).outputs[0]
    x = graph.make("max_pool", [x], {"kernel": (2, 2), "strides": (2, 2)}).outputs[0]
    graph.make_output(graph.make("reduce_mean", [x], {"axes": (2, 3)}).outputs[0], "y")
    return graph


def native(
    graph: Graph, isa: str = "native", threads: int = 1, disabled: tuple[str, ...] = ()
) -> CompiledModel:
    return graphc.compile(graph, isa, threads, disabled=disabled)


def arguments(model: CompiledModel, rows: int) -> list[np.ndarray]:
    random = np.random.default_rng(rows)
    shapes = [tuple(rows if one == N else one for one in spec.shape) for spec in model.inputs]
    types = [spec.dtype.numpy for spec in model.inputs]
    return [random.standard_normal(s).astype(d) for s, d in zip(shapes, types, strict=True)]


def same_bits(
    make: Make,
    isa: str,
    rows: tuple[int, ...],
    threads: tuple[int, ...] = (1,),
    disabled: tuple[str, ...] = (),
) -> None:
    """The model of dynamic size, on each number of threads, has the bits of the one of each size on one thread.

    Which are those of that size on any number of threads: `test_compiler.py`, and each case of `graphc dev fuzz`.
    """
    models = [native(make(N), isa, count, disabled) for count in threads]
    for number in rows:
        arrays = arguments(models[0], number)
        wanted = native(make(number), isa, 1, disabled)(*arrays)
        for model in models:
            got = model(*arrays)
            pairs = (
                [(got, wanted)] if isinstance(got, np.ndarray) else zip(got, wanted, strict=True)
            )
            for one, other in pairs:
                assert one.shape == other.shape and one.tobytes() == other.tobytes(), number


@pytest.mark.exhaustive
@pytest.mark.parametrize(("isa", "threads"), [("native", (1, 2)), ("avx2", (1,))])
def test_matmuls_have_the_bits_of_the_model_of_that_size(
    isa: str, threads: tuple[int, ...]
) -> None:
    same_bits(layers, isa, ROWS, threads)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_matmuls_of_16_bits(dtype: DType) -> None:
    same_bits(lambda rows: layers(rows, dtype, 40, 9), "native", (1, 2, 5, 12, 40))


def test_few_rows_and_deep_sums() -> None:
    """One row of a wide matmul splits its accumulators, and more rows are best in tiles of other widths."""
    for isa in ("native", "avx2"):
        same_bits(lambda rows: layers(rows, F32, 2100, 130), isa, (1, 2, 3, 4, 5, 9, 17, 21, 29))
    same_bits(lambda rows: layers(rows, F32, 1024, 1024), "native", (3,))


def test_rows_of_every_kind() -> None:
    same_bits(row_operations, "native", (1, 2, 7, 64, 600), threads=(1, 2))


def test_attention_over_an_open_sequence() -> None:
    same_bits(attention, "native", (1, 2, 3, 4, 5, 17, 33, 64, 100), threads=(1, 2))


def sums(number: Size) -> Graph:
    """Sums over several axes, of which the first is dynamic."""
    graph = Graph("sums")
    x = graph.make_input(LogicalTensor(F32, (number, 6, 5)), "x")
    for axes in ((0, 1), (0, 1, 2), (0,)):
        graph.make_output(graph.make("reduce_sum", [x], {"axes": axes}).outputs[0], f"y{len(axes)}")
    return graph


@pytest.mark.parametrize("isa", ["native", "avx2"])
def test_sums_over_a_dynamic_axis_and_those_behind_it(isa: str) -> None:
    same_bits(sums, isa, (1, 2, 25, 100, 600))


def keys(number: Size) -> Graph:
    """Attention of 17 queries to a dynamic number of keys, and matrices of four rows whose columns are as many."""
    graph = Graph("keys")
    shapes = {"k": (3, number, 5), "v": (3, number, 16), "x": (9, 4, number), "w": (number, 8)}
    k, v, x, w = (graph.make_input(LogicalTensor(F32, s), n) for n, s in shapes.items())
    scores = graph.make("matmul_core", [weights(graph, 3, 17, 5), k], {"transpose_b": True})
    mixed = graph.make("matmul_core", [graph.make("softmax", scores.outputs).outputs[0], v])
    graph.make_output(mixed.outputs[0], "y")
    graph.make_output(graph.make("matmul_core", [x, w]).outputs[0], "z")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
def test_matmuls_of_static_rows_and_dynamic_columns_or_terms(isa: str) -> None:
    same_bits(keys, isa, (1, 5, 16, 33), threads=(1, 2))


def test_softmaxes_divide_before_the_matmul_where_attention_is_not_one_kernel() -> None:
    same_bits(keys, "native", (5, 16), disabled=("fuse",))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
def test_networks_of_a_dynamic_number_of_images(isa: str) -> None:
    same_bits(images, isa, (1, 2, 7), threads=(2,))


def test_sizes_of_the_caller_and_the_artifact(tmp_path: Path) -> None:
    graph = layers(size(Symbol("N", 1, 64)))
    model = native(graph)
    assert [repr(spec) for spec in model.inputs] == ["x: f32[N,13]"]
    assert repr(model).startswith("<CompiledModel 'layers' (x: f32[N,13]) -> (y: f32[N,9]), ")
    model.save(tmp_path / "any.gcm")
    with graphc.load(tmp_path / "any.gcm") as again:
        for rows in (3, 64, 1):
            (x,) = arguments(native(layers(rows)), rows)
            assert again(x).tobytes() == model(x).tobytes()
            assert again.run(["y"], {"x": x})[0].shape == (rows, 9)
            out = np.empty((rows, 9), np.float32)
            again.bind({"x": x}, [out])()
            assert out.tobytes() == model(x).tobytes()
        again.trim()
        assert again(x).tobytes() == model(x).tobytes()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((65, 4), (65, 4)), r"input 'a' must be f32\[N,4\] with N in 1..64, got f32\[65,4\]"),
        (((3, 5), (3, 4)), r"input 'a' must be f32\[N,4\] whose numbers are fixed, got f32\[3,5\]"),
        (((3, 4), (2, 4)), r"input 'b' must be f32\[N,4\] with N=3 as in 'a', got f32\[2,4\]"),
        (((3,), (3, 4)), r"input 'a' must be f32\[N,4\] with 2 axes, got f32\[3\]"),
    ],
)
def test_wrong_sizes_are_one_sentence(shapes: tuple, message: str) -> None:
    graph, rows = Graph("sum"), size(Symbol("N", 1, 64))
    a, b = (graph.make_input(LogicalTensor(F32, (rows, 4)), name) for name in "ab")
    graph.make_output(graph.make("add", [a, b]).outputs[0], "y")
    model = native(graph)
    with pytest.raises(UserError, match=f"^{message}$"):
        model(*(np.zeros(shape, np.float32) for shape in shapes))
    with pytest.raises(UserError, match="must be f32"):
        model(np.zeros((2, 4)), np.zeros((2, 4)))


def test_scratch_memory_grows_and_is_given_back() -> None:
    model = native(layers(N))
    assert model._native is not None
    for rows, least in ((2, 0), (600, 100_000), (2, 100_000)):
        model(*arguments(model, rows))
        (frame,) = model._native.frames
        assert frame.arena.nbytes >= least
    model.trim()
    assert not model._native.frames
    model(*arguments(model, 2))
    assert model._native.frames[0].arena.nbytes < 100_000


def test_what_needs_a_number_says_so() -> None:
    graph = Graph("filters")
    x = graph.make_input(LogicalTensor(F32, (1, 3, 9)), "x")
    filters = graph.make_input(LogicalTensor(F32, (N, 3, 2)), "w")
    graph.make_output(graph.make("convolution", [x, filters]).outputs[0], "y")
    with pytest.raises(UnsupportedError, match="give that size as a number"):
        native(graph)


def test_the_graph_and_its_loops_are_text() -> None:
    compilation = compile_stages(layers(N), Target("avx2"), CompileOptions())
    for graph in (compilation.source, compilation.graph):
        text = print_graph(graph, full=True)
        assert "f32[N=1..600,13]" in text
        assert print_graph(parse_graph(text), full=True) == text
    lowered = compilation.lowered
    assert parse_module(print_module(lowered.module)) == lowered.module
    x = np.random.default_rng(0).standard_normal((21, 13)).astype(np.float32)
    y, arena = np.zeros((21, 9), np.float32), np.zeros(1 << 20, np.uint8)
    arena_bytes = native(layers(N), "avx2").artifact.metadata.arena_bytes
    scratch = arena[: evaluate(arena_bytes, {"N": 21})]
    (wanted,) = layers(21).evaluate([x])
    for module in (verify(lowered.module), verify(compilation.module, "final")):
        interpreter.run(module, "main", [x, y, lowered.constants, scratch, 21])
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-6)


def test_control_flow_over_dynamic_sizes() -> None:
    """The state of a loop and the results of branches may be open: their functions take the sizes as `main` does."""
    onnx = pytest.importorskip("onnx")
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
    open (float[N,3] x, int64 n, bool c) => (float[N,3] y, float[N,2] z) {
      go = Constant <value = bool {1}> ()
      y = Loop (n, go, x) <body = round (int64 i, bool g, float[N,3] s) => (bool h, float[N,3] t) {
        h = Identity (g)
        u = Softmax <axis = 0> (s)
        t = Add (u, x) }>
      z = If (c) <then_branch = cut () => (float[N,2] o) {
        a = Constant <value_ints = [0]> ()
        b = Constant <value_ints = [2]> ()
        d = Constant <value_ints = [1]> ()
        o = Slice (x, a, b, d) }, else_branch = multiply () => (float[N,2] p) {
        w = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> ()
        p = MatMul (x, w) }>
    }""")
    served = graphc.compile(proto, threads=1)
    for rows, count in ((1, 0), (5, 1), (17, 4)):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        y, z = served(x, np.array(count), np.array(count == 1))
        wanted = x
        for _ in range(count):
            exps = np.exp(wanted - wanted.max(0))
            wanted = exps / exps.sum(0) + x
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
        other = x @ np.arange(1, 7, dtype=np.float32).reshape(3, 2)
        np.testing.assert_allclose(z, x[:, :2] if count == 1 else other, rtol=1e-5, atol=1e-6)
