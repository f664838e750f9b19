"""multiply_quantized: which matmuls become integer ones, exactly, with their bias, and which stay f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, S8, S32, U8, DType
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.convolution import Convolution
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.passes.multiply_quantized import multiply_quantized
from graphc.graph_ir.rewriting.decisions import log_of, start_log
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.convolution_forms import ranked_forms
from graphc.graph_ir.schedule.integer_gain import convolution_account, matmul_account
from graphc.targets.isa import Target
from support.compiled import run_native
from support.graphs import run_pass

M, N, K = 48, 64, 96
RANDOM = np.random.default_rng(0)


VNNI = Target("avx512", features="+avx512vnni")


def on_vnni(graph: Graph, _: LowerContext) -> bool:
    """The pass for a target on which integers win."""
    return multiply_quantized(graph, LowerContext(VNNI))


class Case:
    """A graph of dequantized bytes; scales are powers of two, so that f32 sums are exact too."""

    def __init__(self) -> None:
        self.graph = Graph("quantized")

    def bytes(self, shape: tuple[int, ...], dtype: DType = U8, known: bool = False) -> GraphTensor:
        """An input, or a constant."""
        limits = np.iinfo(dtype.numpy)
        if known:
            values = RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype.numpy)
            return self.graph.make_constant(values)
        return self.graph.make_input(LogicalTensor(dtype, shape))

    def dequantized(
        self, x: GraphTensor, scale: Any = 0.25, zero: Any = None, name: str = ""
    ) -> GraphTensor:
        """(x - zero) * scale."""
        given = [self.graph.make_constant(np.asarray(scale, np.float32), "scale")]
        if zero is not None:
            given.append(self.graph.make_constant(np.asarray(zero, x.details.dtype.numpy), "zero"))
        return self.graph.make("dequantize", [x, *given], name=name).outputs[0]

    def check(self, y: GraphTensor, becomes_integers: bool = True) -> list[str]:
        """Run the pass: same results bit for bit, natively too; the ops that are left, in order."""
        self.graph.make_output(y)
        details = [op.outputs[0].details for op in self.graph.inputs]
        arrays: list[Array] = []
        for x in details:
            limits = np.iinfo(x.dtype.numpy)
            drawn = RANDOM.integers(limits.min, limits.max + 1, x.plain_dims)
            arrays.append(drawn.astype(x.dtype.numpy))
        wanted = self.graph.evaluate(arrays)[0]
        start_log(self.graph)
        run_pass(on_vnni, self.graph, inputs=arrays)
        np.testing.assert_array_equal(run_native(self.graph, arrays)[0], wanted)
        matmuls = [op for op in self.graph.ops if op.op_name in ("matmul_core", "convolution")]
        is_integer = [op.outputs[0].details.dtype == S32 for op in matmuls]
        assert is_integer == [becomes_integers]
        return [op.op_name for op in self.graph.ops if op.kind not in ("source", "sink")]


def test_a_matmul_with_its_bias() -> None:
    case = Case()
    a = case.dequantized(case.bytes((M, K)), 0.5, 7)
    b = case.dequantized(case.bytes((K, N), S8, known=True), 0.25)
    bias = case.dequantized(case.graph.make_constant(np.arange(N, dtype=np.int32)), 0.125)
    y = case.graph.make("matmul_core", [a, b]).outputs[0]
    y = case.graph.make("add", [y, bias]).outputs[0]
    assert case.check(y) == ["cast", "sub", "matmul_core", "add", "cast", "mul"]


def test_a_bias_of_another_scale_is_added_in_f32() -> None:
    case = Case()
    a = case.dequantized(case.bytes((M, K)), 0.5, 7)
    b = case.dequantized(case.bytes((K, N), S8, known=True), 0.25)
    bias = case.dequantized(case.graph.make_constant(np.arange(N, dtype=np.int32)), 0.5)
    y = case.graph.make("add", [bias, case.graph.make("matmul_core", [a, b]).outputs[0]]).outputs[0]
    assert case.check(y)[-1] == "add"


@pytest.mark.exhaustive
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("types", [(U8, S8), (S8, S8), (U8, U8)], ids=str)
def test_scales_and_zero_points_per_row_and_column(
    types: tuple[DType, DType], transposed: bool
) -> None:
    case = Case()
    rows = 2.0 ** RANDOM.integers(-3, 3, (M, 1))
    columns = 2.0 ** RANDOM.integers(-3, 3, (1, N))
    zero = RANDOM.integers(0, 100, (1, N))
    shapes = ((K, M), (N, K)) if transposed else ((M, K), (K, N))
    a = case.dequantized(case.bytes(shapes[0], types[0]), rows.T if transposed else rows, 3)
    b = case.dequantized(
        case.bytes(shapes[1], types[1], known=True),
        columns.T if transposed else columns,
        zero.T if transposed else zero,
    )
    flags = {"transpose_a": transposed, "transpose_b": transposed}
    case.check(case.graph.make("matmul_core", [a, b], flags).outputs[0])


def test_batches_of_computed_operands() -> None:
    case = Case()
    a = case.dequantized(case.bytes((3, M, K)), 0.5, 9)
    b = case.dequantized(case.bytes((3, K, N), S8), 0.25, -4)
    case.check(case.graph.make("matmul_core", [a, b]).outputs[0])


@pytest.mark.parametrize("sort", ["scale", "zero point", "long", "half"])
def test_what_stays_f32(sort: str) -> None:
    """Parameters that differ along the sum, sums that may not fit s32, and one operand that is not a byte."""
    case, k = Case(), 40_000 if sort == "long" else K
    scale = 2.0 ** RANDOM.integers(-3, 3, (1, k)) if sort == "scale" else 0.5
    zero = np.arange(k)[None] if sort == "zero point" else 1
    x = case.bytes((4, k), U8)
    a = case.graph.make("cast", [x], {"dtype": F32}).outputs[0]
    if sort != "half":
        a = case.dequantized(x, scale, zero)
    b = case.dequantized(case.bytes((k, 8), S8, known=True), 2.0**-10 if sort == "long" else 1)
    matmul = case.graph.make("matmul_core", [a, b]).outputs[0]
    small = np.float32(2.0**-30)  # so that what is rounded in long sums is 0 after all
    scaled = case.graph.make("mul", [matmul, case.graph.make_constant(small)]).outputs[0]
    whole = case.graph.make("round", [scaled]).outputs[0]
    case.check(whole if sort == "long" else matmul, becomes_integers=False)


def test_the_account_decides_and_is_recorded() -> None:
    def outcome(target: Target) -> str:
        case = Case()
        a, b = case.dequantized(case.bytes((M, K))), case.dequantized(case.bytes((K, N), S8))
        case.graph.make_output(case.graph.make("matmul_core", [a, b], name="fc").outputs[0])
        start_log(case.graph)
        multiply_quantized(case.graph, LowerContext(target))
        (form,) = [d for d in log_of(case.graph).decisions if d.kind == "form"]
        assert form.subjects == ("fc",) and "predicted cycles in integers" in form.text
        return form.text.split(":")[0]

    assert outcome(VNNI) == "integers"
    assert outcome(Target("generic")) == "stays f32"


def test_winograd_is_no_alternative() -> None:
    """Winograd's rounding errors would be larger than those of any other way, and integers are exact."""
    graph = Graph("convolution")
    x = graph.make_input(LogicalTensor(F32, (1, 128, 28, 28)))
    w = graph.make_constant(np.zeros((128, 128, 3, 3), np.float32))
    op = graph.make("convolution", [x, w], {"before": (1, 1), "after": (1, 1)})
    assert isinstance(op, Convolution)
    best, cycles = ranked_forms(op, LowerContext(VNNI))[0]
    account = convolution_account(op, U8, LowerContext(VNNI), is_exact=True)
    assert best.name.startswith("winograd")
    assert account.floats > max(cycles, account.integers)


def test_floats_that_become_bytes_are_stored_and_read_once_more() -> None:
    """The first layer of MobileNetV2: in f32 it is followed by a loop that rounds its result.

    Before a pooling, quantizing the image and multiplying bytes take 330 us, f32 takes 372 (measured on Zen 3): its
    channels are put last first, and as bytes they are a quarter.
    """
    accounts = []
    for last in ("relu", "quantize"):
        graph = Graph("first")
        x = graph.make_input(LogicalTensor(F32, (1, 3, 224, 224)))
        w = graph.make_constant(np.zeros((32, 3, 3, 3), np.float32))
        attrs = {"strides": (2, 2), "before": (1, 1), "after": (1, 1)}
        op = graph.make("convolution", [x, w], attrs)
        y = graph.make("relu", op.outputs).outputs[0]
        if last == "quantize":
            y = graph.make(last, [y, graph.make_constant(np.float32(1))], {"dtype": U8}).outputs[0]
        graph.make_output(graph.make("max_pool", [y], {"kernel": (2, 2)}).outputs[0])
        assert isinstance(op, Convolution)
        accounts.append(convolution_account(op, U8, LowerContext(Target("avx2"))))
    kept, rounded = accounts
    assert kept.integers == rounded.integers
    assert kept.integers < kept.floats < rounded.floats


@pytest.mark.parametrize(("target", "least", "most"), [
    (Target("avx2"), 1.5, 1.75),
    (Target("avx512"), 1.5, 1.75),
    (VNNI, 3.0, 4.5),
])  # fmt: skip
def test_large_matmuls_gain_what_was_measured(target: Target, least: float, most: float) -> None:
    """The cost of narrow register tiles is part of the measured rate, and not counted twice."""
    case = Case()
    a, b = case.bytes((512, 1024)), case.bytes((1024, 1024), S8, known=True)
    attrs = {"dtype": S32}
    op = case.graph.make("matmul_core", [a, b], attrs)
    assert isinstance(op, MatmulCore)
    account = matmul_account(op, U8, LowerContext(target))
    assert least < account.floats / account.integers < most
