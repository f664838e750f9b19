"""JAX functions: their HLO, before and after XLA's optimisation, gives JAX's numbers. Skipped without jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphc.frontend.hlo import import_hlo, parse_hlo, write_hlo

jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax
hlo = pytest.importorskip("jaxlib._hlo")

RNG = np.random.default_rng(3)


def f32(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def s32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def gru(x: Any, w: Any, u: Any) -> Any:
    def cell(h: Any, step: Any) -> Any:
        gate = jax.nn.sigmoid(step @ w + h @ u)
        h = (1 - gate) * jnp.tanh(step @ w * gate) + gate * h
        return h, h

    return lax.scan(cell, jnp.zeros((2, 4)), x)


def block(x: Any, w: Any, scale: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale
    q, k, v = jnp.split(normal @ w, 3, axis=-1)
    weights = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / 2.0)
    return x + jax.nn.gelu(weights @ v)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (lambda x, w, b: jax.nn.relu(x @ w + b), (f32(5, 7), f32(7, 3), f32(3))),
    "block": (block, (f32(2, 5, 8), f32(8, 24), f32(8))),
    "gru": (gru, (f32(5, 2, 3), f32(3, 4), f32(4, 4))),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (2, 1), ((1, 2), (0, 1)), rhs_dilation=(1, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (f32(2, 9, 8, 3), f32(3, 2, 3, 5)),
    ),
    "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (f32(2, 5, 4, 3), f32(3, 3, 3, 5))),
    "depthwise": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=3),
        (f32(2, 6, 5, 4), f32(9, 2, 3, 3)),
    ),
    "batch_groups": (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID", batch_group_count=2),
        (f32(4, 3, 7), f32(6, 3, 3)),
    ),
    "pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME"),
        (f32(2, 7, 6, 3),),
    ),
    "dilated_pool": (
        lambda x: lax.reduce_window(
            x, 0.0, lax.add, (1, 3, 2), (1, 1, 1), ((0, 0), (2, 1), (0, 0)), (1, 2, 1), (1, 2, 3)
        ),
        (f32(2, 7, 6),),
    ),
    "cumulative": (lambda x: (jnp.cumsum(x, 1), lax.cummax(x, axis=0, reverse=True)), (f32(5, 6),)),
    "take": (lambda x, i: (x[i], x[:, i, 1], jnp.take(x, i, axis=2)), (f32(4, 3, 5), s32(0, 2, -1))),
    "along": (lambda x, i: jnp.take_along_axis(x, i, 1), (f32(3, 7), s32(3, 0, 1, 1, 2, 6).reshape(3, 2))),
    "vmap": (jax.vmap(lambda x, i: x[i]), (f32(3, 7, 2), s32(1, 2, 3, 4, 0, 9).reshape(3, 2))),
    "slices": (
        lambda x, i: (lax.dynamic_slice(x, (i, 0), (2, 3)), lax.dynamic_update_slice(x, x[:2, :2] * 2, (i, i + 1))),
        (f32(5, 6), np.int32(2)),
    ),
    "pad": (
        lambda x, v: (lax.pad(x, v, ((1, -1, 2), (0, 2, 0))), lax.pad(x, 1.5, ((-1, 3, 1), (2, -2, 3)))),
        (f32(5, 6), np.float32(3)),
    ),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)), (f32(5, 6),)),
    "sampling": (lambda x: (lax.top_k(x, 3), jnp.argmax(x, 1), jnp.argmin(x, 0)), (f32(4, 9),)),
    "cond": (lambda p, x: lax.cond(p, lambda v: v * 2, lambda v: v.sum() + v, x), (np.bool_(True), f32(3))),
    "switch": (
        lambda i, x: lax.switch(i, [lambda v: v * 2, lambda v: v + 1, lambda v: -v], x),
        (np.int32(7), f32(3)),
    ),
    "integers": (
        lambda a, b: (a // b, a % b, lax.div(a, b), lax.rem(a, b), a << 2, a >> 1, a**2),
        (s32(*range(-9, 9)), s32(*([1, -2, 3] * 6))),
    ),
    "special": (
        lambda x: (jnp.cbrt(x), jnp.round(x), jnp.isfinite(x), jnp.arctan(x), x.astype("int32"), jax.nn.softplus(x)),
        (f32(30),),
    ),
    "einsum": (lambda a, b: jnp.einsum("abcd,cbed->bace", a, b), (f32(2, 3, 4, 5), f32(4, 3, 6, 5))),
    "bools": (lambda x: ((x > 0).any(0), (x > -9).all(), (x > 0).sum()), (f32(4, 5),)),
    "general_reduce": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + b + a * b, (0,)), (f32(4, 5),)),
    "pytree": (lambda d: {"z": d["a"] @ d["b"], "y": (d["a"][::-1],)}, ({"a": f32(2, 3), "b": f32(3, 2)},)),
}  # fmt: skip


def close(got: list[np.ndarray], wanted: list[Any]) -> None:
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, map(np.asarray, wanted), strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(mine, theirs, rtol=3e-5, atol=3e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_function(name: str) -> None:
    function, arguments = CASES[name]
    lowered = jax.jit(function).lower(*arguments)
    options = hlo.HloPrintOptions()
    options.print_large_constants = True
    text = lowered.compiler_ir("hlo").get_hlo_module().to_string(options)
    inputs = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    graph = import_hlo(parse_hlo(text))
    close(graph.evaluate(inputs), wanted)
    written = write_hlo(graph)
    hlo.hlo_module_from_text(written)
    close(import_hlo(parse_hlo(written)).evaluate(inputs), wanted)


def xla_run(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results of HLO text, compiled and run by XLA."""
    from jax._src.lib import xla_client

    client = jax.devices()[0].client
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    stable = xla_client._xla.mlir.hlo_to_stablehlo(proto)
    loaded = client.compile_and_load(stable, client.devices()[:1], xla_client.CompileOptions())
    buffers = [jax.device_put(x) for x in inputs]
    return [np.asarray(y) for y in loaded.execute(buffers)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mlp", "block", "take", "pool", "integers", "special"])
def test_written_text_computes_the_same_in_xla(name: str) -> None:
    function, arguments = CASES[name]
    text = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_text()
    if "{...}" in text:
        pytest.skip("XLA left constants out")
    inputs = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    graph = import_hlo(parse_hlo(text))
    close(xla_run(write_hlo(graph), inputs), graph.evaluate(inputs))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(CASES) - {"sort"}))
def test_optimised_dump(name: str) -> None:
    """What XLA makes of a function on a CPU: fusions, layouts, bitcasts, stack-frame tables."""
    function, arguments = CASES[name]
    text = jax.jit(function).lower(*arguments).compile().as_text()
    inputs = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    graph = import_hlo(parse_hlo(text))
    close(graph.evaluate(inputs), jax.tree.leaves(jax.jit(function)(*arguments)))
