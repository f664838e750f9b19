"""matmul_core: shapes it takes, its reference, its layouts, and matmuls of every dtype as loops."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import USUAL, by_name
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.tensor_ir.passes.expand_brgemm import expand_brgemm
from support.check_op import make_op, random_array
from support.graphs import random_input
from support.lowered import context, interpret, lower
from support.tolerance import assert_close

Dims = tuple[int, ...]


def matmul_op(dtype: str, a: Dims, b: Dims, **attrs: bool) -> MatmulCore:
    graph = Graph("matmul")
    tensors = [
        graph.make_input(LogicalTensor(by_name(dtype), s), n) for s, n in ((a, "a"), (b, "b"))
    ]
    op = graph.make("matmul_core", tensors, attrs, "fc1")
    graph.make_output(op.outputs[0])
    assert isinstance(op, MatmulCore)
    return op


def graph_of(op: Op) -> Graph:
    graph = Graph("copy")
    tensors = [graph.make_input(x.details, f"in{i}") for i, x in enumerate(op.inputs)]
    graph.make_output(graph.make("matmul_core", tensors, op.attrs).outputs[0])
    return graph


@pytest.mark.parametrize(
    ("a", "b", "attrs", "message"),
    [
        ((4, 64), (48, 7), {}, "inner sizes must match, got K=64 and K=48"),
        ((4, 64), (48, 64), {}, "inner sizes must match, got K=64 and K=48; transpose B?"),
        ((64, 4), (48, 7), {"transpose_a": True}, "inner sizes must match, got K=64 and K=48"),
        ((4, 48), (48, 64), {"transpose_b": True}, "inner sizes must match, got K=48 and K=64; transpose B?"),
        ((4,), (4, 4), {}, "inputs must have rank 2 or more, got f32[4] and f32[4,4]; reshape vectors"),
        ((4, 4), (), {}, "inputs must have rank 2 or more, got f32[4,4] and f32[]; reshape vectors"),
        ((2, 4, 4), (3, 4, 4), {}, "batch sizes must broadcast, got f32[2,4,4] and f32[3,4,4]"),
    ],
)  # fmt: skip
def test_refused_shapes(a: Dims, b: Dims, attrs: dict[str, bool], message: str) -> None:
    with pytest.raises(UserError) as error:
        matmul_op("f32", a, b, **attrs)
    assert str(error.value) == f"matmul_core 'fc1': {message}"


def test_refused_dtypes() -> None:
    graph = Graph()
    tensors = [graph.make_input(LogicalTensor(by_name(d), (4, 4)), d) for d in ("f32", "bf16")]
    with pytest.raises(UserError) as error:
        graph.make("matmul_core", tensors, name="fc1")
    assert str(error.value) == (
        "matmul_core 'fc1': both inputs must have one dtype, got f32 and bf16; insert a cast"
    )


@pytest.mark.parametrize("a", ["u8", "s8"])
@pytest.mark.parametrize("b", ["u8", "s8"])
def test_templates_take_signed_b_and_rows_of_a(a: str, b: str) -> None:
    arrays = [random_array(a, (5, 6)), random_array(b, (6, 3))]
    op = make_op("matmul_core", [arrays[0].T, arrays[1]], {"dtype": "s32", "transpose_a": True})
    assert isinstance(op, MatmulCore) and not op.is_tuned
    plain = make_op("matmul_core", arrays, {"dtype": "s32"})
    assert isinstance(plain, MatmulCore) and plain.is_tuned == (b == "s8")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_refused_counts(count: int) -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(by_name("f32"), (4, 4)))
    with pytest.raises(UserError) as error:
        graph.make("matmul_core", [x] * count, name="fc1")
    assert str(error.value) == f"matmul_core 'fc1': inputs must be a, b, got {count} inputs"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("a", "b", "attrs", "out"),
    [
        ((4, 3), (3, 5), {}, (4, 5)),
        ((3, 4), (5, 3), {"transpose_a": True, "transpose_b": True}, (4, 5)),
        ((2, 1, 4, 3), (7, 3, 5), {}, (2, 7, 4, 5)),
        ((1, 4, 3), (3, 5), {}, (1, 4, 5)),
        ((0, 3), (3, 5), {}, (0, 5)),
        ((4, 0), (0, 5), {}, (4, 5)),
    ],
)
@pytest.mark.parametrize("dtype", [d.name for d in USUAL])
def test_every_dtype(dtype: str, a: Dims, b: Dims, attrs: dict[str, bool], out: Dims) -> None:
    """The reference against NumPy on small integers, and the lowered program against the reference."""
    op = matmul_op(dtype, a, b, **attrs)
    assert op.outputs[0].details == LogicalTensor(by_name(dtype), out)
    rng = np.random.default_rng(len(out))
    arrays = [random_input(rng, x.details) for x in op.inputs]
    left, right = (x.astype(np.int64) for x in arrays)
    left = left.swapaxes(-1, -2) if op.transpose_a else left
    right = right.swapaxes(-1, -2) if op.transpose_b else right
    expected = (left @ right).astype(by_name(dtype).numpy)
    (reference,) = op.reference(arrays)
    assert reference.dtype == expected.dtype
    np.testing.assert_array_equal(reference, expected)
    _check_program(op, arrays, reference)


def _check_program(op: Op, arrays: list[np.ndarray], reference: np.ndarray) -> None:
    lowered = lower(graph_of(op), context())
    for module in (lowered.module, expand_brgemm(lowered.module, context().target)):
        result = np.ones_like(reference)
        interpret(
            type(lowered)(module, lowered.constants, lowered.arena_bytes, ()), arrays, [result]
        )
        np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32", "u64", "s64"])
def test_integers_wrap(dtype: str) -> None:
    limits = np.iinfo(by_name(dtype).numpy)
    arrays = [np.full(s, limits.max, by_name(dtype).numpy) for s in ((1, 3), (3, 1))]
    op = matmul_op(dtype, (1, 3), (3, 1))
    (reference,) = op.reference(arrays)
    wrapped = 3 * limits.max**2 % 2 ** by_name(dtype).bits
    signed = wrapped - 2 ** by_name(dtype).bits if wrapped > limits.max else wrapped
    assert int(reference[0, 0]) == signed
    _check_program(op, arrays, reference)


def test_bools_are_and_and_or() -> None:
    arrays = [np.array([[True, False, True]]), np.array([[False], [True], [True]])]
    op = matmul_op("bool", (1, 3), (3, 1))
    assert op.reference(arrays)[0].tolist() == [[True]]
    _check_program(op, arrays, np.array([[True]]))
    _check_program(op, [arrays[0], ~arrays[1] & ~arrays[0].T], np.array([[False]]))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_short_floats_are_summed_in_f32(dtype: str) -> None:
    """2048 ones: in f16 the sum would stop at 2048, in bf16 at 256."""
    ones = [np.ones(s, by_name(dtype).numpy) for s in ((1, 2050), (2050, 1))]
    ones[1][0] = 3
    op = matmul_op(dtype, (1, 2050), (2050, 1))
    (reference,) = op.reference(ones)
    assert float(reference[0, 0]) == float(np.float32(2052).astype(by_name(dtype).numpy))
    _check_program(op, ones, reference)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_random_floats(dtype: str) -> None:
    arrays = [random_array(dtype, s, i) for i, s in enumerate([(3, 17), (17, 5)])]
    op = matmul_op(dtype, (3, 17), (17, 5))
    exact = (arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)).astype(
        by_name(dtype).numpy
    )
    (reference,) = op.reference(arrays)
    assert_close(reference, exact)
    result = np.zeros_like(reference)
    lowered = lower(graph_of(op), context())
    interpret(lowered, arrays, [result])
    assert_close(result, reference, factor=20)


def test_one_row_times_computed_rows_is_a_reduction() -> None:
    """It reads both in place; as a matmul it would copy the matrix into panels."""
    for dtype, tuned in (("f16", False), ("bf16", False), ("f64", False), ("f32", True)):
        assert matmul_op(dtype, (1, 8), (5, 8), transpose_b=True).is_tuned == tuned
        assert matmul_op(dtype, (2, 8), (5, 8), transpose_b=True).is_tuned

    assert not matmul_op("f32", (1, 8), (8, 5)).is_tuned  # columns are independent results
    assert matmul_op("f32", (1, 8), (8, 500)).is_tuned


def test_which_matmuls_are_tuned() -> None:
    assert matmul_op("f32", (4, 3), (3, 5)).is_tuned
    for dtype, a, b in (("s32", (4, 3), (3, 5)), ("f32", (0, 3), (3, 5)), ("f32", (4, 0), (0, 5))):
        op = matmul_op(dtype, a, b)
        assert not op.is_tuned


def test_work_counts_multiplications_and_additions() -> None:
    assert matmul_op("f32", (2, 4, 3), (3, 5)).get_gflop() == pytest.approx(2 * 2 * 4 * 5 * 3 / 1e9)
    assert matmul_op("f32", (2, 4, 3), (3, 5)).sizes == (4, 5, 3)
    assert matmul_op("s8", (3, 4), (5, 3), transpose_a=True, transpose_b=True).sizes == (4, 5, 3)
