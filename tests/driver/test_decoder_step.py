"""A decoder's step over a cache of open length: the bits of the step compiled for that length."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphc
from graphc import CompiledModel
from graphc.base.errors import UserError
from support.onnx_models import Array, node

KINDS = {"last": onnx.TensorProto.INT32, "total": onnx.TensorProto.INT32}
LENGTHS = (1, 2, 126, 127, 128, 129, 300)
"""Of the cache: sums over keys are in blocks of 128."""


def step(window: int = -1) -> onnx.ModelProto:
    """Projections, grouped attention with turned heads, and a residual, for one new token after P."""
    random = np.random.default_rng(3)
    angles = random.uniform(0, 6, (512, 8))
    values = {
        "w": random.standard_normal((32, 128)) / 8,
        "o": random.standard_normal((64, 32)) / 8,
        "cos": np.cos(angles),
        "sin": np.sin(angles),
    }
    attention = node(
        "GroupQueryAttention", "qkv - - pk pv last total cos sin", "mixed nk nv",
        domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=window,
    )  # fmt: skip
    nodes = [
        node("MatMul", "x w", "qkv"),
        attention,
        node("MatMul", "mixed o", "out"),
        node("Add", "x out", "y"),
    ]
    past, present = [1, 2, "P", 16], [1, 2, "T", 16]
    shapes = {"x": [1, 1, 32], "pk": past, "pv": past, "last": [1], "total": []}
    graph = helper.make_graph(
        nodes,
        "step",
        [helper.make_tensor_value_info(n, KINDS.get(n, 1), s) for n, s in shapes.items()],
        [
            helper.make_tensor_value_info(n, 1, s)
            for n, s in {"y": [1, 1, 32], "nk": present, "nv": present}.items()
        ],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in values.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def feeds(length: int) -> dict[str, Array]:
    random = np.random.default_rng(length)
    return {
        "x": random.standard_normal((1, 1, 32), np.float32),
        "pk": random.standard_normal((1, 2, length, 16), np.float32),
        "pv": random.standard_normal((1, 2, length, 16), np.float32),
        "last": np.array([length], np.int32),
        "total": np.array(length + 1, np.int32),
    }


@pytest.fixture(scope="module")
def served() -> CompiledModel:
    return graphc.compile(step(), inputs={"pk": "f32[1,2,P=1..511,16]"})


@pytest.mark.parametrize("length", LENGTHS)
def test_every_length_has_the_bits_of_its_own_model(served: CompiledModel, length: int) -> None:
    given = feeds(length)
    alone = graphc.compile(step(), inputs={"pk": f"f32[1,2,{length},16]"})
    for got, wanted in zip(served(**given), alone(**given), strict=True):
        assert got.tobytes() == wanted.tobytes()


def test_against_onnx_runtime(served: CompiledModel) -> None:
    ort = pytest.importorskip("onnxruntime")
    for window, model in ((-1, served), (5, graphc.compile(step(5)))):
        session = ort.InferenceSession(step(window).SerializeToString())
        for length in (1, 4, 5, 6, 200):
            for got, wanted in zip(
                model(**feeds(length)), session.run(None, feeds(length)), strict=True
            ):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_the_number_of_keys_must_be_that_of_the_cache(served: CompiledModel) -> None:
    given = feeds(7) | {"last": np.array([6], np.int32)}
    rule = r"'last' must be the number of keys less one, P\+1 - 1, for every sentence"
    with pytest.raises(UserError, match=rule):
        served(**given)
