"""Networks quantized by ONNX Runtime's tool: the same results as ONNX Runtime computes without optimizations."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest

from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.frontend import load
from support.quantized_models import NETS, RECIPES, Array, Recipe, peer_results, quantized, sample
from support.quantized_widths import BRANCHES, every_width

KNOWN = RECIPES


@pytest.fixture(autouse=True)
def _silence() -> None:
    logging.getLogger().setLevel(logging.ERROR)


def inputs_of(model: bytes) -> Array:
    dims = onnx.load_from_string(model).graph.input[0].type.tensor_type.shape.dim
    return sample([d.dim_value for d in dims], 7)


def check(result: Array, wanted: Array) -> None:
    """Equal except for rounding: none of these networks ends in a step of more than 2 % of its range."""
    assert result.shape == wanted.shape
    np.testing.assert_allclose(result, wanted, atol=0.02 * float(np.ptp(wanted)))
    assert np.mean(np.abs(result - wanted)) < 0.002 * float(np.ptp(wanted))


@pytest.mark.exhaustive
@pytest.mark.parametrize("recipe", KNOWN, ids=str)
@pytest.mark.parametrize("net", NETS)
def test_references(net: str, recipe: Recipe) -> None:
    model = quantized(net, recipe)
    x = inputs_of(model)
    check(load(model).evaluate([x])[0], peer_results(model, x)[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("recipe", [KNOWN[0], KNOWN[3], KNOWN[-1]], ids=str)
@pytest.mark.parametrize("net", NETS)
def test_native_code(net: str, recipe: Recipe) -> None:
    model = quantized(net, recipe)
    x = inputs_of(model)
    check(np.asarray(compile_model(load(model), threads=1)(x)), peer_results(model, x)[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("net", NETS)
def test_integers_change_nothing_but_roundings(net: str) -> None:
    """With and without the passes that multiply and move integers."""
    model = quantized(net, RECIPES[1])
    x = inputs_of(model)
    on = np.asarray(compile_model(load(model), threads=1)(x))
    off = np.asarray(compile_model(load(model), threads=1, disabled={"quantized"})(x))
    check(on, off)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "isa", [isa for isa in ("generic", "avx2", "avx512") if host_supports(isa)][1:]
)
def test_integers_of_every_width_and_scales_of_every_kind(isa: str) -> None:
    """Within a step of what ONNX Runtime computes node by node, and nearly always the same one."""
    model = every_width()
    a, b = sample((5, 32), 1), sample((1, 16, 6, 6), 2)
    found = compile_model(load(model), isa, threads=1)(a, b)
    wanted = peer_results(model.SerializeToString(), a, b)
    for branch, ours, theirs in zip(BRANCHES, found, wanted, strict=True):
        apart = np.abs(np.asarray(ours) - theirs) * 8
        assert np.ptp(theirs) > 5, branch
        assert apart.max() < 1.01 and np.mean(apart > 0.5) < 0.01, branch


@pytest.mark.exhaustive
@pytest.mark.parametrize("net", ["mlp", "convnet"])
def test_dynamic_sizes_are_multiplied_in_bytes_too(net: str) -> None:
    proto = onnx.load_from_string(quantized(net, KNOWN[0]))
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_param = "N"
    for value in (*proto.graph.value_info, *proto.graph.output):
        value.type.tensor_type.ClearField("shape")
    x = sample([3, *[d.dim_value for d in dims[1:]]], 7)
    found = np.asarray(compile_model(load(proto), threads=1)(x))
    check(found, load(proto, {"x": f"f32[{','.join(map(str, x.shape))}]"}).evaluate([x])[0])
