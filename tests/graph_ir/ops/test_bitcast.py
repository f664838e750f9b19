import numpy as np
import pytest

import graphc
from graphc.base.dtypes import by_name, from_numpy
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import NUMBERS, check_op, make_op, random_array, special_values


def width(dtype: str) -> int:
    return int(dtype.lstrip("bfsu"))


@pytest.mark.parametrize("source", NUMBERS)
def test_every_pair_of_one_width(source: str) -> None:
    for target in NUMBERS:
        if width(source) == width(target):
            x = special_values(source)
            x = x[~np.isnan(x.astype(np.float64))]
            name = make_op("bitcast", [x], {"dtype": target}).outputs[0].details.dtype.numpy
            check_op("bitcast", [x], {"dtype": target}, np.frombuffer(x.tobytes(), name))


@pytest.mark.parametrize(("source", "target"), [("f32", "u32"), ("s64", "f64"), ("bf16", "s16")])
def test_compiled_and_fused(source: str, target: str) -> None:
    x = random_array(source, (3, 21))
    graph = Graph("bits")
    tensor = graph.make_input(LogicalTensor(from_numpy(x.dtype), x.shape), "x")
    one = graph.make("bitcast", [graph.make("neg", [tensor]).outputs[0]], {"dtype": target})
    graph.make_output(graph.make("neg", [one.outputs[0]]).outputs[0])
    model = graphc.compile(graph)
    assert len(model.stats["calls"]) == 1
    np.testing.assert_array_equal(model(x), -(-x).view(one.outputs[0].details.dtype.numpy))


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (None, "attribute 'dtype' must be a dtype or its name, got None"),
        ("u16", "dtype must have as many bits as x, got f32 and u16"),
        ("bool", "dtype must have as many bits as x, got f32 and bool"),
    ],
)
def test_rejects(dtype: str | None, message: str) -> None:
    with pytest.raises(UserError) as error:
        make_op("bitcast", [random_array("f32", (2,))], {"dtype": dtype})
    assert str(error.value) == f"bitcast 'x': {message}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "generic"])
@pytest.mark.parametrize(
    ("source", "dtype"),
    [("u4", "s4"), ("s2", "u2"), ("u4", "f4e2m1fn"), ("f4e2m1fn", "s4"), ("u8", "f8e4m3fn"), ("f8e5m2", "s8")],
)  # fmt: skip
def test_types_of_less_than_16_bits(source: str, dtype: str, target: str) -> None:
    """Every pattern, and the same inside of a kernel that goes on with the bits."""
    given, made = by_name(source), by_name(dtype)
    x = np.arange(1 << given.bits, dtype=np.uint8)
    x = x.view(given.numpy) if given.is_float or given.bits == 8 else x.astype(given.numpy)
    graph = Graph("bits")
    tensor = graph.make_input(LogicalTensor(given, x.shape), "x")
    bits = graph.make("bitcast", [tensor], {"dtype": dtype}).outputs[0]
    graph.make_output(bits, "y")
    wide = "f32" if made.is_float else "s32"
    graph.make_output(graph.make("cast", [bits], {"dtype": wide}).outputs[0], "z")
    model = graphc.compile(graph, target=target, threads=1)
    numbers = ~np.isnan(x.astype(np.float32))  # a NaN may lose its payload
    for found, wanted in zip(model(x), graph.evaluate([x]), strict=True):
        ours, right = (y[numbers].astype(np.float64) for y in (found, wanted))
        np.testing.assert_array_equal(ours, right)
