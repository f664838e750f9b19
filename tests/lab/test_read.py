"""Problem strings: what each kind becomes, and how a wrong one is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver.request import CompileRequest
from graphc.frontend import load
from graphc.graph_ir.passes import pipeline
from graphc.lab.grid import kernel_of
from graphc.lab.read import KINDS, read_problem
from graphc.lab.trial import source_graph
from support.gguf_files import TinyDecoder

MLP = Path(__file__).parents[2] / "examples" / "mlp.onnx"


@pytest.mark.parametrize(
    ("text", "operations", "shapes"),
    [
        ("matmul m12n34k56 f32", 2 * 12 * 34 * 56, {"a": (12, 56)}),
        ("  matmul   b3m1n2k4  bf16 ", 2 * 3 * 2 * 4, {"a": (3, 1, 4), "b": (3, 4, 2)}),
        ("matmul m4n8k16 u8s8s32", 2 * 4 * 8 * 16, {"a": (4, 16)}),
        ("matmul m=1..9n8k16", 2 * 9 * 8 * 16, {"a": (9, 16)}),
        ("gemv n8k32 q4_0", 2 * 8 * 32, {"a": (1, 32)}),
        ("conv c4h6w5o8k3p1s2", 2 * 8 * 3 * 3 * 4 * 9, {"x": (1, 4, 6, 5)}),
        ("conv n2c4w5o8k3g2 f16", 2 * 2 * 8 * 3 * 2 * 3, {"x": (2, 4, 5)}),
        ("dwconv c4h6w6k3d2", 2 * 4 * 2 * 2 * 9, {"x": (1, 4, 6, 6)}),
        ("attention s3t5d4v8 f32", 2 * 3 * 5 * 12, {"v": (1, 1, 5, 8)}),
        ("max_pool c4h6w6k3s3", 4 * 2 * 2 * 9, {"x": (1, 4, 6, 6)}),
        ("matmul m2n8k32 f32xu4g16", 2 * 2 * 8 * 32, {"a": (2, 32)}),
        ("attention h2s3t5d4 mask", 4 * 2 * 3 * 5 * 4, {"q": (1, 2, 3, 4), "mask": (1, 1, 3, 5)}),
        ("softmax 3x5", 0, {"x": (3, 5)}),
        ('"y = max(x, 0) * s + b" 4x6 bf16', 3 * 24, {"x": (4, 6)}),
    ],
)
def test_what_a_problem_reads_and_how_much_it_does(
    text: str, operations: int, shapes: dict[str, tuple[int, ...]]
) -> None:
    problem = read_problem(text)
    sizes = problem.sizes[-1]
    arrays = problem.arrays(sizes)
    assert problem.gop(sizes) == pytest.approx(operations / 1e9)
    assert {name: arrays[name].shape for name in shapes} == shapes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its first word must be a kind"),
        ("matmol m1n1k1", "did you mean 'matmul'"),
        ("matmul m0n1q1", "there is no size q; sizes are b"),
        ("matmul m1n1", "size k is missing"),
        ("matmul m1m2n1k1", "size m is given twice"),
        ("matmul m9..3n1k1", "a range must rise"),
        ("matmul m1n1..4k1", "weights have a known columns, n"),
        ("matmul m1n1k1 f32 +gelo", "epilogue 'gelo' is not known; did you mean 'gelu'"),
        ("matmul m1n1k1 u8xs8 +relu", "an epilogue follows floats"),
        ("matmul m1n1k1 f32 f32", "'f32' has no meaning here"),
        ("gemv n8k33 q4_0", "k must be a multiple of 32"),
        ("conv c3w4o4k3g2", "must be multiples of the 2 groups"),
        ("conv c4w4o4k9", "the kernel must fit"),
        ("conv c4w4o4k3x3", "k, must be one number or 1, not 2"),
        ("conv c4h4w4o4x1k3", "size o must be one number"),
        ("matmul m1n8k8 f32xu4g16", "weights and divide k"),
        ("attention h1s4t2d8 causal", "s at most t"),
        ("attention s4d8v=2..4", "the width of values, v, must be a number"),
        ("softmax 3by5", "a shape must be like 8x128x768"),
        ("reduce sum 2 3x5", "axes must be different numbers from 0 to 1"),
        ("transpose 00 3x5", "axes must be different numbers"),
        ("y = x 3x5", "needs an operator"),
        ("y = foo(x) 3x5", "'foo' of 1 is not known"),
        ("y = x[0] 3x5", "operators"),
        ("y = 2 * 3 3x5", "needs an operand of the whole shape"),
        ("matmul m999999999n999999999k1", "needs more than 8 GiB"),
        ("Softmax(f32[8", "is not a call of an ONNX operator"),
        ("Softmax(8)", "is not a call of an ONNX operator"),
        (f"{MLP}:fc9", "has no kernel 'fc9'; did you mean 'fc"),
    ],
)  # fmt: skip
def test_a_wrong_problem_is_shown(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_problem(text)


def test_a_caret_points_at_the_word() -> None:
    with pytest.raises(UserError) as caught:
        read_problem("matmul m1n1q1 f32")
    (note,) = caught.value.__notes__
    line, caret = note.split("\n")
    assert line[caret.index("^") : caret.rindex("^") + 1] == "q1"


def test_every_example_is_a_problem() -> None:
    for kind in KINDS.values():
        assert read_problem(kind.example).inputs


def test_the_middle_of_a_range_is_measured_too() -> None:
    assert [dict(sizes) for sizes in read_problem("matmul m=4..256n8k8").sizes] == [
        {"m": 4}, {"m": 32}, {"m": 256},
    ]  # fmt: skip


def test_a_node_of_a_model_computes_what_it_does_there() -> None:
    problem = read_problem(f"{MLP}:fc2")
    assert not isinstance(problem.model, bytes)
    names = [op.op_name for op in problem.model.ops]
    assert "matmul_core" in names and "relu" in names
    (x,) = problem.arrays({}).values()
    (found,) = source_graph(problem, {}).evaluate([x])
    ops = {op.name: op for op in load(MLP).ops}
    w, b = (ops[name].attr("value") for name in ("fc2.weight", "fc2.bias"))
    np.testing.assert_allclose(found, np.maximum(x @ w.T + b, 0), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("node", ["matmul_nbits_6", "cached_attention"])
def test_a_node_whose_sizes_are_made_of_those_of_the_model(node: str, tmp_path: Path) -> None:
    """Two rows of each token, and the keys of old and new tokens: no spec of an input says so."""
    path, _ = TinyDecoder("llama", layers=1, experts=4).write(tmp_path / "x.gguf")
    problem = read_problem(f"{path}:decoder.{node}")
    sizes = {"T": 3, "P": 0}
    (found,) = source_graph(problem, sizes).evaluate([*problem.arrays(sizes).values()])
    assert found.shape[:2] == ((6, 96) if node == "matmul_nbits_6" else (1, 3))


@pytest.mark.parametrize("node", ["matmul_nbits_6", "mul_10.fused"])
def test_rows_of_experts_are_sorted_and_of_every_expert(node: str, tmp_path: Path) -> None:
    """Models sort them: rows in any order, or of two experts, would be measured on other paths."""
    path, _ = TinyDecoder("qwen3moe", layers=1, experts=8).write(tmp_path / "x.gguf")
    problem = read_problem(f"{path}:decoder.{node}")
    named = {name: one.experts for name, one in problem.inputs.items() if one.experts}
    ((name, count),) = named.items()
    for tokens in (1, 3, 12):
        sizes = {"T": tokens}
        experts = problem.arrays(sizes)[name].tolist()
        assert experts == sorted(experts) and len(set(experts)) == min(count, len(experts)) == min(
            8, 2 * tokens
        )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("matmul m=1..9n32k16", "matmul m=1..9n32k16 f32"),
        ("matmul b3m8n9k10", "matmul b3m8n9k10 f32"),
        ("matmul m2n64k64 f32xu4g32", "matmul m2n64k64 f32xu4g32"),
        ("attention h2s9d16", "attention b1h2s9d16 f32"),
        ("attention b2h3s=2..5t=3..7d16v8", "attention b2h3s=2..5t=3..7d16v8 f32"),
        ("conv c3h13w13o32k7s2p3", "conv n1c3h13w13o32k7s2p3 f32"),
        ("conv c32h14w14o32k3p1", "conv n1c32h14w14o32k3s1p1 f32"),
        ("conv c8h=3..9w=4..9o16k3p1", "conv n1c8h=3..9w=4..9o16k3s1p1 f32"),
        ("conv c8h7w9o16k3x1p1x0 u8xs8", "conv n1c8h7w9o16k3x1s1p1x0 u8xs8"),
        ("conv c32h29w27o64k3s2p0x0x1x1d2g2", "conv n1c32h29w27o64k3s2p0x0x1x1d2g2 f32"),
        ("dwconv c5h7w7k3p1", "dwconv n1c5h7w7k3s1p1 f32"),
        ("max_pool c5h7w8k3x2s2", "max_pool n1c5h7w8k3x2s2p0 f32"),
    ],
)
def test_a_kernel_is_called_as_its_problem_is_written(text: str, canonical: str) -> None:
    """So that a line of a tuning file can be measured in the lab."""
    for one in (text, canonical):
        problem = read_problem(one)
        target = target_for("avx512+avx512vnni")
        request = CompileRequest(problem.model, target, CompileOptions(1), problem.specs)
        graph, ctx = request.source.copy(), request.context
        pipeline.run(graph, ctx)
        assert kernel_of(problem, graph, ctx)[1].problem == canonical
