"""Instructions that programs declare: tried when they are declared, called by kernels, part of what caches know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.codegen.host import target_for
from graphc.driver.cache_key import kernel_key
from graphc.driver.compiler import compile_stages
from graphc.driver.request import CompileRequest
from graphc.lab.user_instructions import UserInstruction
from graphc.lab.user_kernels import Kernel
from graphc.targets.isa import INSTRUCTIONS, Target
from graphc.tensor_ir import builder as t
from graphc.tools.kernel_code import CodeMap

FMA = """
def fused(sums: f32[8], a: f32[8], b: f32[8]):
    for i in range(0, 8):
        sums[i] = fma(a[i], b[i], sums[i])
"""
SAD = """
def distance(sums: u64[4], a: u8[32], b: u8[32]):
    for i in range(0, 4):
        sums[i] = cast(u64, 0)
        for j in range(0, 8):
            x = cast(s32, a[i * 8 + j])
            y = cast(s32, b[i * 8 + j])
            sums[i] = sums[i] + cast(u64, abs(x - y))
"""
GALOIS = """
def galois(y: u8[32], a: u8[32], b: u8[32]):
    x: u8[1]
    for i in range(0, 32):
        x[0] = a[i]
        y[i] = cast(u8, 0)
        for j in range(0, 8):
            bit = (b[i] >> cast(u8, j)) & cast(u8, 1)
            y[i] = y[i] ^ (x[0] * bit)
            x[0] = (x[0] << cast(u8, 1)) ^ select(x[0] >= cast(u8, 128), cast(u8, 27), cast(u8, 0))
"""
RECIPROCAL = """
def reciprocal(y: f32[8], x: f32[8]):
    for i in range(0, 8):
        y[i] = 1.0 / x[i]
"""
RCP = "y = llvm.x86.avx.rcp.ps.256(x)"


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """Instructions that a test declares end with it."""
    before = dict(INSTRUCTIONS)
    yield
    INSTRUCTIONS.clear()
    INSTRUCTIONS.update(before)


def fused() -> UserInstruction:
    return graphc.instruction(FMA, "sums = llvm.fma.v8f32(a, b, sums)", needs=("fma", "avx2"))


def dots(instruction: UserInstruction) -> Kernel:
    """Rows times rows, eight multiply-adds at once."""

    def fits(op: object, target: Target) -> bool:
        return instruction.available(target)

    @graphc.kernel("matmul_core", when=fits, everywhere=False)
    def dots(b, op, x, y, result):  # type: ignore[no-untyped-def]
        (rows, depth), (columns, _) = x.shape, y.shape
        with b.loop("i", 0, rows, "parallel") as i, b.loop("j", 0, columns) as j:
            sums = b.allocate("sums", F32, (8,))
            b.store(sums, (0,), t.const(0.0, F32, 8))
            with b.loop("k", 0, depth, step=8) as k:
                instruction(b, sums, t.slice_of(x, (i, k)), t.slice_of(y, (j, k)))
            b.store(result, (i, j), t.call("reduce_add", t.load(sums, (0,), 8)))

    return dots


@pytest.mark.isa("avx2", "fma")
def test_a_kernel_calls_it() -> None:
    kernel = dots(fused())
    assert kernel.check("f32[N,16]", "f32[M,16]", transpose_b=True).ok
    verdict = str(kernel.check("f32[3,12]", "f32[3,12]", transpose_b=True))
    assert "out of bounds" in verdict  # of the last row


@pytest.mark.isa("avx2", "fma")
def test_other_processes_and_tools_know_it() -> None:
    kernel = dots(fused())
    graph = graphc.Graph("g")
    x, y = (graph.make_input(graphc.ops.LogicalTensor(F32, (n, 32)), f"x{n}") for n in (3, 5))
    graph.make_output(graph.make("matmul_core", [x, y], {"transpose_b": True}).outputs[0])
    lowerings = {"matmul_core": kernel}
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, (n, 32)).astype(np.float32) for n in (3, 5))
    model = graphc.compile(graph, jobs=2, threads=2, lowerings=lowerings)
    np.testing.assert_array_equal(model(a, b), a @ b.T)
    compilation = compile_stages(CompileRequest(graph, target_for("native"), lowerings=lowerings))
    (call,) = compilation.lowered.calls
    code = CodeMap(compilation.lowered, compilation.target).of(call.kernel, ("asm",))
    assert "vfmadd" in code.texts["asm"]


@pytest.mark.isa("avx2", "fma")
def test_its_definition_is_part_of_the_key_of_a_kernel() -> None:
    target = target_for("native")
    b = t.LoopBuilder()
    sums = b.allocate("sums", F32, (8,))
    fused()(b, sums, sums, sums)
    function = b.function("f", ())
    before = kernel_key(function, target)
    INSTRUCTIONS["fused"] = replace(
        INSTRUCTIONS["fused"], emission="sums = llvm.fma.v8f32(b, a, sums)"
    )
    assert kernel_key(function, target) != before


@pytest.mark.isa("avx2", "fma")
def test_a_target_without_it_is_refused() -> None:
    known = fused()

    @graphc.kernel("relu", everywhere=False)
    def always(b, op, x, y):  # type: ignore[no-untyped-def]
        known(b, y, x, x)

    with pytest.raises(
        UserError, match="'fused': the target must have fma, got generic; add it to the name"
    ):
        always(np.ones(8, np.float32), target="generic")


@pytest.mark.isa("gfni", "avx2")
def test_features_that_no_other_code_uses_are_named_with_the_target() -> None:
    with pytest.raises(UserError, match="no optional feature 'gfni'"):
        target_for("native+gfni")
    galois = graphc.instruction(GALOIS, "y = llvm.x86.vgf2p8mulb.256(a, b)", needs=("gfni",))

    @graphc.kernel("mul", everywhere=False)
    def squares(b, op, x, same, y):  # type: ignore[no-untyped-def]
        galois(b, y, x, x)

    x = np.arange(32, dtype=np.uint8)
    with pytest.raises(UserError, match=r"must have gfni, got \w+; add it to the name"):
        squares(x, x)
    # In the field of 256 elements x + 1 squared is x * x + 1.
    found = squares(x, x, target="native+gfni")
    assert found[:5].tolist() == [0, 1, 4, 5, 16]


@pytest.mark.isa("avx2")
def test_integers_of_another_width_and_approximations() -> None:
    graphc.instruction(
        SAD, "<4 x i64> sums = llvm.x86.avx2.psad.bw(<32 x i8> a, b)", needs=("avx2",)
    )
    with pytest.raises(UserError, match=r"must compute its meaning; lane \d of 'y' must be"):
        graphc.instruction(RECIPROCAL, RCP, needs=("avx",))
    assert "reciprocal" not in INSTRUCTIONS
    near = graphc.instruction(RECIPROCAL, RCP, needs=("avx",), relative_error=1.5 * 2.0**-12)
    with pytest.raises(UserError, match="must compute its meaning"):
        graphc.instruction(RECIPROCAL, "y = llvm.sqrt.v8f32(x)", needs=("avx",))
    assert INSTRUCTIONS["reciprocal"] is near.instruction  # what kernels call already


@pytest.mark.parametrize(
    ("meaning", "emission", "rule"),
    [
        ("y = x", RCP, "meaning must be legal Tensor IR"),
        (RECIPROCAL.replace("x[i]", "z[i]"), RCP, "meaning must be legal Tensor IR"),
        (RECIPROCAL.replace("f32[8]", "f32[2, 4]", 1), RCP, "meaning must be legal Tensor IR"),
        (RECIPROCAL.replace("x: f32[8]", "x: f32[8], n: s64"), RCP, "operand 'n' must be a vector"),
        (RECIPROCAL.replace("reciprocal", "tdpbusd"), RCP, "must not be one of graphc's"),
        (RECIPROCAL, "rcpps", "must be like 'c = llvm"),
        (RECIPROCAL, RCP.replace("y =", "x ="), "must set what its meaning writes, y, got x"),
        (RECIPROCAL, RCP.replace("(x)", "(y)"), "must have all operands, got none of x"),
        (RECIPROCAL, RCP.replace("(x)", "(x, z)"), "must have operands of its meaning, got z"),
        (RECIPROCAL, RCP.replace("(x)", "(x * 4)"), r"must not multiply operands, got '\* 4'"),
        (RECIPROCAL, RCP.removeprefix("y = "), "must set what its meaning writes, y, got nothing"),
        (RECIPROCAL, RCP.replace("rcp", "nothing"), "must name an intrinsic of LLVM"),
        (RECIPROCAL, RCP.replace("(x)", "(<4 x i64> x, i8 1, i8 2)"), "types of LLVM's definition"),
    ],
)
def test_what_does_not_fit_is_refused(meaning: str, emission: str, rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        graphc.instruction(meaning, emission, needs=("avx",))
    assert "reciprocal" not in INSTRUCTIONS
