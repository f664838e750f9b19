"""graphc as a backend of the onnx package, by the package's own runner on some of its cases."""

from __future__ import annotations

import re
import unittest
import warnings
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

import graphc
from graphc.base.errors import UnsupportedError, UserError
from support.onnx_models import model, node

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import onnx.backend.test

# Compiled natively, so only a few: the references of all cases are run in tests/frontend/onnx.
CHOSEN = (
    "test_add_bcast",
    "test_argmax_default_axis_example",
    "test_batchnorm_example",
    "test_cast_DOUBLE_to_FLOAT",
    "test_reduce_max_do_not_keepdims_example",
    "test_resize_upsample_sizes_nearest",
    "test_tile",
    "test_triu_neg",
    "test_unsqueeze_two_axes",
    "test_range_int32_type_negative_delta",
    "test_nonzero_example",
    "test_split_2d_uneven_split_opset18",
    "test_attention_4d_causal",
    "test_gru_defaults",
    "test_Conv1d",
    "test_operator_clip",
    "test_expand_shape_model1",
    "test_unique_sorted_with_axis",
)


@cache
def cases() -> dict[str, unittest.TestCase]:
    """The runner's tests by name."""
    found: dict[str, unittest.TestCase] = {}
    with warnings.catch_warnings():  # of NumPy, in the package's code that makes them
        warnings.simplefilter("ignore")
        groups = onnx.backend.test.BackendTest(graphc.onnx_backend, __name__).test_cases
    for group in groups.values():
        found |= {name: group(name) for name in dir(group) if name.endswith("_cpu")}
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CHOSEN)
def test_cases_of_the_package(name: str) -> None:
    result = unittest.TestResult()
    cases()[f"{name}_cpu"].run(result)
    assert result.testsRun == 1 and result.wasSuccessful() and not result.skipped, result


def test_outputs_have_names_and_inputs_too() -> None:
    rep = graphc.onnx_backend.prepare(model([node("Sub", "a b")], {"a": [2], "b": [2]}))
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)
    named: Any = rep.run({"b": one, "a": two})
    assert named["y"].tolist() == rep.run([two, one])[0].tolist() == [1, 1]


def test_a_model_is_compiled_for_each_shape_and_each_value_that_decides_one() -> None:
    sums = model(
        [node("ReduceSum", "x axes", keepdims=0)],
        {"x": ["n", "m"], "axes": [1]},
        opset=13,
        dtypes={"axes": onnx.TensorProto.INT64},
    )
    rep = graphc.onnx_backend.prepare(sums)
    for shape in ((2, 3), (3, 2)):
        x = np.arange(6, dtype=np.float32).reshape(shape)
        for axis in (0, 1, 0):
            assert np.array_equal(rep.run([x, np.array([axis])])[0], x.sum(axis))


def test_a_single_node() -> None:
    x = np.array([-1, 2], np.float32)
    (y,) = graphc.onnx_backend.run_node(node("Relu", "x"), [x])
    assert y.tolist() == [0, 2]
    (y,) = graphc.onnx_backend.run_node(node("LeakyRelu", "x", alpha=0.5), [x], opset_version=16)
    assert y.tolist() == [-0.5, 2]


def test_what_it_cannot_run() -> None:
    strange = model([node("NoSuchOp", "x")], {"x": [2]})
    assert not graphc.onnx_backend.is_compatible(strange)
    with pytest.raises(UnsupportedError, match=re.escape("NoSuchOp (1x)")):
        graphc.onnx_backend.prepare(strange)
    with pytest.raises(UserError, match="device must be CPU, got 'CUDA'"):
        graphc.onnx_backend.prepare(strange, "CUDA")
    rep = graphc.onnx_backend.prepare(model([node("Relu", "x")], {"x": [2]}))
    with pytest.raises(UserError, match="takes 1 inputs, got 2"):
        rep.run([1, 2])
