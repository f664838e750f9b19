"""ONNX Runtime's own operators on quantized tensors, one at a time, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)


def of(dtype: Any, *shape: int) -> Array:
    """Any integers of a type, or normal floats."""
    if np.issubdtype(dtype, np.floating):
        return RANDOM.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


F, U, S = np.float32, np.uint8, np.int8


def low(dtype: Any, *shape: int) -> Array:
    """Integers of a type, s8 of 7 bits: without VNNI, ONNX Runtime sums pairs of u8 times s8 in saturating s16."""
    return of(dtype, *shape) // 2 if dtype == S else of(dtype, *shape)


X, Y = (F(0.02), U(120)), (F(0.015), U(7))
XS, YS = (F(0.02), S(-3)), (F(0.03), S(5))

CASES: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "add": ("QLinearAdd", [of(U, 3, 4), *X, of(U, 4), *Y, F(0.04), U(128)], {}),
    "signed add": ("QLinearAdd", [of(S, 3, 4), *XS, of(S, 3, 1), *YS, F(0.04), S(0)], {}),
    "mul": ("QLinearMul", [of(U, 3, 4), *X, of(U, 4), *Y, F(0.04), U(128)], {}),
    "concat": ("QLinearConcat", [*Y, of(U, 2, 3), *X, of(U, 2, 5), F(0.01), U(3)], {"axis": 1}),
    "where": ("QLinearWhere", [of(U, 2, 3) > 99, of(U, 2, 3), *X, of(U, 3), *Y, F(0.03), U(1)], {}),
    "average pool": (
        "QLinearAveragePool", [of(U, 1, 2, 5, 6), *X, *Y],
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "count_include_pad": 1},
    ),
    "pool of channels last": (
        "QLinearAveragePool", [of(U, 1, 5, 6, 2), *X, *Y], {"kernel_shape": [2, 2], "channels_last": 1},
    ),
    "global average pool": ("QLinearGlobalAveragePool", [of(U, 2, 3, 4, 5), *X, *Y], {}),
    "global pool of channels last": (
        "QLinearGlobalAveragePool", [of(S, 2, 4, 5, 3), *XS, *YS], {"channels_last": 1}),
    "sigmoid": ("QLinearSigmoid", [of(U, 3, 9), *X, F(1 / 256), U(0)], {}),
    "leaky relu": ("QLinearLeakyRelu", [of(S, 3, 9), *XS, *YS], {"alpha": 0.2}),
    "softmax": ("QLinearSoftmax", [of(U, 3, 4, 9), *X, F(1 / 256), U(0)], {"axis": -1, "opset": 13}),
    "old softmax": ("QLinearSoftmax", [of(U, 3, 4, 9), *X, F(1 / 256), U(0)], {"axis": 1, "opset": 12}),
    "gemm": (
        "QGemm", [of(U, 3, 7), *X, low(S, 7, 4), F(0.01), S(0), of(np.int16, 4).astype(np.int32), F(0.2), U(99)], {}),
    "gemm to floats": (
        "QGemm", [of(U, 7, 3), *X, low(S, 4, 7), F(0.01), S(2)], {"transA": 1, "transB": 1, "alpha": 0.5}),
    "gemm per column": (
        "QGemm", [of(U, 3, 7), *X, low(S, 4, 7), abs(of(F, 4)), of(S, 4)], {"transB": 1}),
    "matmul to floats": (
        "MatMulIntegerToFloat", [of(U, 2, 3, 7), low(S, 7, 4), F(0.1), abs(of(F, 4)), U(9), of(S, 4), of(F, 4)], {}),
    "dynamic matmul": ("DynamicQuantizeMatMul", [of(F, 3, 7), low(S, 7, 4), F(0.1), S(3), of(F, 4)], {}),
    "max pool of channels last": (
        "NhwcMaxPool", [of(U, 2, 5, 6, 3)], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "convolution of channels last": (
        "QLinearConv", [of(U, 2, 5, 6, 3), *X, low(S, 4, 3, 3, 3), abs(of(F, 4)) / 50, np.zeros(4, S), F(0.4), U(99),
        of(np.int16, 4).astype(np.int32)], {"channels_last": 1, "pads": [1, 1, 1, 1]}),
    "attention": (
        "QAttention", [of(U, 2, 5, 8), low(S, 8, 24), of(F, 24), F(0.02), F(0.01), None, U(120), S(3)],
        {"num_heads": 2}),
    "attention of one direction and known lengths": (
        "QAttention", [of(U, 2, 5, 8), low(S, 8, 24), of(F, 24), F(0.02), abs(of(F, 24)) / 50,
        np.array([5, 3], np.int32), U(120), np.zeros(24, S)], {"num_heads": 2, "unidirectional": 1}),
    "embeddings": (
        "QEmbedLayerNormalization", [np.array([[1, 6, 2]], np.int32), np.array([[0, 1, 1]], np.int32), of(U, 7, 8),
        of(U, 5, 8), of(U, 2, 8), of(U, 8), of(U, 8), None, *(F(x) for x in (0.02, 0.03, 0.04, 0.01, 0.05)),
        *(U(x) for x in (120, 99, 130, 7, 128))], {"epsilon": 1e-6}),
    "quantize": ("QuantizeLinear", [of(F, 3, 4), abs(of(F, 4)), of(np.uint16, 4)], {"axis": 1}),
    "dequantize": ("DequantizeLinear", [of(np.int16, 3, 4), F(0.3), np.int16(-7)], {}),
}  # fmt: skip


def model(op_type: str, arrays: list[Any], attrs: dict[str, Any], inputs: int) -> onnx.ModelProto:
    """One node; the first arrays are inputs of the model, the others its weights; None is left out."""
    names = [f"a{i}" if a is not None else "" for i, a in enumerate(arrays)]
    given = [(n, np.asarray(a)) for n, a in zip(names, arrays, strict=True) if a is not None]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given[:inputs]
    ]
    weights = [numpy_helper.from_array(a, n) for n, a in given[inputs:]]
    results = ["y", "mask"] if op_type == "QEmbedLayerNormalization" else ["y"]
    node = helper.make_node(op_type, names, results, name="n", domain="com.microsoft", **attrs)
    result = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph([node], "g", infos, [result], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def both(
    op_type: str, arrays: list[Any], attrs: dict[str, Any], inputs: int
) -> tuple[Array, Array]:
    """Our reference's result and ONNX Runtime's with one thread: several round an LSTM's states by other ranges."""
    proto, options = model(op_type, arrays, attrs, inputs), onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    feeds = {f"a{i}": np.asarray(a) for i, a in enumerate(arrays[:inputs]) if a is not None}
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, feeds)[0]
    graph = load(proto)
    return graph.evaluate([feeds[op.name] for op in graph.inputs])[0], np.asarray(wanted)


@pytest.mark.parametrize("constant", [False, True], ids=["computed", "known"])
@pytest.mark.parametrize("case", CASES)
def test_against_onnx_runtime(case: str, constant: bool) -> None:
    """Within a step of integers, whose halves ONNX Runtime's vector code rounds by other formulas."""
    op_type, arrays, attrs = CASES[case]
    result, wanted = both(op_type, arrays, attrs, 3 if constant else len(arrays))
    assert result.dtype == wanted.dtype and result.shape == wanted.shape
    apart = np.abs(result.astype(np.float64) - wanted.astype(np.float64))
    if result.dtype == np.float32:
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    else:
        assert apart.max(initial=0) <= 1 and np.mean(apart) < 0.1


def numbers_of(x: Array, scale: Any, zero: Any) -> Array:
    return (x.astype(np.int64) - int(zero)) * scale


IN_NUMPY: dict[str, tuple[list[Any], dict[str, Any], Any]] = {
    "QLinearReduceMean": (
        [of(U, 3, 4, 5), *X, *Y], {"axes": [-1, 0], "keepdims": 0},
        lambda x: np.clip(np.rint(numbers_of(x, *X).mean((0, 2)) / Y[0]) + Y[1], 0, 255)),
    "MulInteger": ([of(U, 3, 4), U(7), of(U, 4), U(9)], {}, None),
    "ReduceSumInteger": ([of(S, 3, 4, 5)], {"axes": [1], "keepdims": 1}, lambda x: x.sum(1, keepdims=True, dtype=int)),
}  # fmt: skip


@pytest.mark.parametrize("op_type", IN_NUMPY)
def test_what_onnx_runtime_has_no_kernel_for(op_type: str) -> None:
    arrays, attrs, formula = IN_NUMPY[op_type]
    (result,) = load(model(op_type, arrays, attrs, 1)).evaluate([arrays[0]])
    if formula is None:
        wanted = numbers_of(arrays[0], 1, 7) * numbers_of(arrays[2], 1, 9)
    else:
        wanted = formula(arrays[0])
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("inputs", [1, 12], ids=["known", "computed"])
@pytest.mark.parametrize("dtype", [S, U])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm_of_bytes(direction: str, dtype: Any, inputs: int) -> None:
    """X and the states are rounded to u8 as ONNX Runtime rounds them; both compute their gates with other formulas."""
    count = 2 if direction == "bidirectional" else 1
    zeros = np.zeros((count, 12), dtype), np.full(count, 3, dtype)
    arrays = [
        of(F, 6, 2, 5),
        low(dtype, count, 5, 12),
        low(dtype, count, 3, 12),
        of(F, count, 24),
        None,
        None,
        None,
        None,
    ]
    arrays += [abs(of(F, count, 12)) / 100, zeros[0], F(0.01) * np.ones(count, F), zeros[1]]
    attrs = {"hidden_size": 3, "direction": direction}
    result, near = both("DynamicQuantizeLSTM", arrays, attrs, inputs)
    np.testing.assert_allclose(result, near, atol=2e-5)


@pytest.mark.parametrize(
    ("bits", "k", "block", "zero"),
    [
        *((4, k, block, zero) for k, block in ((64, 32), (40, 16)) for zero in ("none", "packed", "floats")),
        *((8, 64, 32, zero) for zero in ("none", "packed")),
    ],
)  # fmt: skip
def test_weights_of_few_bits(bits: int, k: int, block: int, zero: str) -> None:
    rows, blocks = 6, -(-k // block)
    packed = of(U, rows, blocks, block * bits // 8)
    middle = {
        "none": None,
        "packed": of(U, rows, -(-blocks * bits // 8)),
        "floats": of(F, rows, blocks),
    }[zero]
    arrays = [of(F, 2, 3, k), packed, abs(of(F, rows, blocks)), middle, None, of(F, rows)]
    attrs = {"K": k, "N": rows, "bits": bits, "block_size": block}
    result, wanted = both("MatMulNBits", arrays, attrs, 1)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("inputs", [1, 6])
@pytest.mark.parametrize("order", [None, "permuted", "any"])
@pytest.mark.parametrize("zero", ["none", "packed", "floats"])
@pytest.mark.parametrize(("bits", "k", "block"), [(4, 64, 32), (8, 50, 16), (2, 64, 16)])
def test_weights_that_are_inputs_and_blocks_of_any_order(
    bits: int, k: int, block: int, zero: str, order: str | None, inputs: int
) -> None:
    """Against the formula: ONNX Runtime 1.32 obeys g_idx for 4 bits without zero points alone."""
    rows, blocks = 6, -(-k // block)
    packed, scales = of(U, rows, blocks, block * bits // 8), abs(of(F, rows, blocks))
    group = np.arange(k) // block
    if order:
        group = RANDOM.permutation(group) if order == "permuted" else RANDOM.integers(0, blocks, k)
    middle: Any = {"none": None, "floats": of(F, rows, blocks)}.get(zero)
    if zero == "packed":
        middle = of(U, rows, -(-blocks * bits // 8))

    def numbers(x: Array) -> Array:
        parts = x.reshape(rows, -1, 1) >> np.arange(0, 8, bits, dtype=U)
        return (parts & U((1 << bits) - 1)).reshape(rows, -1).astype(np.float64)

    zeros = np.full((rows, blocks), float(1 << (bits - 1))) if middle is None else middle
    zeros = numbers(middle)[:, :blocks] if zero == "packed" else zeros
    given = [
        of(F, 3, k),
        packed,
        scales,
        middle,
        group.astype(np.int32) if order else None,
        of(F, rows),
    ]
    attrs = {"K": k, "N": rows, "bits": bits, "block_size": block}
    graph = load(model("MatMulNBits", given, attrs, inputs))
    fed = {f"a{i}": x for i, x in enumerate(given)}
    (result,) = graph.evaluate([fed[op.name] for op in graph.inputs])
    weights = (numbers(packed)[:, :k] - zeros[:, group]) * scales[:, group]
    np.testing.assert_allclose(result, given[0] @ weights.T + given[5], rtol=1e-4, atol=1e-3)


def test_a_projection_that_the_file_omits_is_its_bias() -> None:
    arrays = [of(F, 2, 3, 64), of(U, 0, 2, 16), of(F, 0), None, None, of(F, 6)]
    attrs = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
    result, wanted = both("MatMulNBits", arrays, attrs, 1)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("zero", [False, True])
def test_lookup_of_packed_rows(zero: bool) -> None:
    data, scales = of(U, 5, 16), abs(of(F, 5, 2))
    indices = np.array([[0, 4], [2, 2]])
    arrays = [data, indices, scales, *([of(U, 5, 1)] if zero else [])]
    attrs = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": 4}
    proto = model("GatherBlockQuantized", arrays, attrs, 0)
    (result,) = load(proto).evaluate([])
    numbers = np.stack([data & 15, data >> 4], -1).reshape(5, 32).astype(np.float32)
    middle = (
        np.stack([arrays[3] & 15, arrays[3] >> 4], -1).reshape(5, 2) if zero else np.full((5, 2), 8)
    )
    real = (numbers - np.repeat(middle, 16, 1)) * np.repeat(scales, 16, 1)
    np.testing.assert_allclose(result, real[indices], rtol=1e-6)


def test_lookup_of_rows_of_four_bit_numbers() -> None:
    """INT4 is packed in the file alone."""
    numbers = RANDOM.integers(-8, 8, (5, 32))
    proto = model(
        "GatherBlockQuantized",
        [of(U, 1), np.array([3, 1]), abs(of(F, 5, 2))],
        {"block_size": 16},
        0,
    )
    data = helper.make_tensor("a0", onnx.TensorProto.INT4, numbers.shape, numbers.reshape(-1))
    proto.graph.initializer[0].CopyFrom(data)
    (result,) = load(proto).evaluate([])
    scales = numpy_helper.to_array(proto.graph.initializer[2])
    np.testing.assert_array_equal(result, (numbers * np.repeat(scales, 16, 1)).astype(F)[[3, 1]])


def test_refusals() -> None:
    arrays = [of(F, 2, 64), of(U, 6, 2, 16), abs(of(F, 6, 2)), None, np.arange(64, dtype=np.int32)]
    attrs = {"K": 64, "N": 6, "bits": 4, "block_size": 32}
    with pytest.raises(UnsupportedError, match="MatMulNBits 'n': weight_prepacked=1, a layout"):
        load(model("MatMulNBits", arrays, attrs | {"weight_prepacked": 1}, 1))
    with pytest.raises(UserError, match="B must hold 6 rows of 2 blocks of 32 numbers"):
        load(model("MatMulNBits", [arrays[0], of(U, 6, 2, 15), arrays[2]], attrs, 1))
    per_channel = [of(U, 3, 4), abs(of(F, 4)), U(0), F(0.1), U(0)]
    with pytest.raises(UnsupportedError, match="a scale or zero point of shape"):
        load(model("QLinearSigmoid", per_channel, {}, 1))
