"""Tensors of PyTorch and JAX as inputs, outputs and buffers, without copies."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

import graphc
from graphc import Graph, UserError
from graphc.base.dtypes import by_name
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.dlpack import shared_array
from graphc.runtime.executor import CompiledModel

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int64,
         torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]  # fmt: skip


class Only:
    """A tensor that has nothing but DLPack."""

    def __init__(self, tensor: Any, versioned: bool = True) -> None:
        self._tensor, self._versioned = tensor, versioned

    def __dlpack__(self, **options: Any) -> Any:
        if options and not self._versioned:
            raise TypeError("no such option")
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


def negation(dtype: str) -> CompiledModel:
    graph = Graph("negation")
    x = graph.make_input(LogicalTensor(by_name(dtype), (2, 3)), "x")
    graph.make_output(graph.make("neg", [x]).outputs[0])
    return graphc.compile(graph)


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_memory_is_shared(dtype: torch.dtype, versioned: bool) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    array = shared_array(Only(tensor, versioned))
    assert array is not None
    assert array.ctypes.data == tensor.data_ptr() and array.shape == (2, 3)
    assert np.array_equal(array.astype(np.float64), tensor.to(torch.float64).numpy())


def test_strides_and_sizes() -> None:
    for tensor in (
        torch.arange(12).reshape(3, 4).T,
        torch.arange(10)[2::3],
        torch.zeros(0, 3),
        torch.tensor(5),
    ):
        array = shared_array(Only(tensor))
        assert array is not None and array.shape == tuple(tensor.shape)
        assert np.array_equal(array, tensor.numpy())


def test_the_memory_lives_as_long_as_the_array() -> None:
    array = shared_array(Only(torch.arange(1000)))
    assert array is not None
    part = array[10:]
    del array
    gc.collect()
    torch.zeros(1000)  # would take freed memory
    assert np.array_equal(part, np.arange(10, 1000))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_models_take_tensors(dtype: str) -> None:
    model = negation(dtype)
    tensor = torch.arange(6).reshape(2, 3).to(torch.float32 if dtype == "f32" else torch.bfloat16)
    for given in (tensor, Only(tensor)):
        assert np.array_equal(model(given).astype(np.float32), -np.arange(6.0).reshape(2, 3))


def test_tensors_are_bound_and_written() -> None:
    model = negation("bf16")
    x, y = torch.ones(2, 3, dtype=torch.bfloat16), torch.zeros(2, 3, dtype=torch.bfloat16)
    call = model.bind({"x": x}, [y])  # type: ignore[list-item]
    x[1, 2] = 5
    assert call() == 0
    assert torch.equal(y, -x)


def test_results_are_tensors_without_a_copy() -> None:
    y = negation("f32")(np.ones((2, 3), np.float32))
    tensor = torch.from_dlpack(y)
    assert tensor.data_ptr() == y.ctypes.data


def test_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax")
    model, x = negation("f32"), jax.numpy.ones((2, 3), "float32")
    assert np.array_equal(model(x), -np.ones((2, 3)))
    shared = shared_array(x)
    assert shared is not None and not shared.flags.writeable
    with pytest.raises(UserError, match="read-only"):  # they never change
        model.bind({"x": x}, [jax.numpy.ones((2, 3), "float32")])


def test_tensors_with_gradients_are_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match=r"'x' must be an array f32\[2,3\], got Tensor: .*detach"):
        negation("f32")(torch.ones(2, 3, requires_grad=True))


def test_tensors_elsewhere_are_refused() -> None:
    model = negation("f32")
    with pytest.raises(UserError, match="must be an array"):
        model.bind({"x": torch.ones(2, 3)}, [torch.ones(2, 3, device="meta")])  # type: ignore[list-item]
    with pytest.raises(UserError, match=r"must be f32\[2,3\], got f64"):
        model(Only(torch.ones(2, 3, dtype=torch.float64)))
