"""JAX functions: their HLO, before and after XLA's optimization, gives JAX's numbers. Skipped without jax."""

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
    centered = x - x.mean(-1, keepdims=True)
    normal = centered / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale
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
    "put": (lambda x, i, u: (x.at[i].set(u), x.at[i].add(u), x.at[:, i].multiply(u[:, :4].T[:1])),
            (f32(5, 6), s32(0, 3, -1, 9), f32(4, 6))),
    "put_apart": (lambda x, i, j, u: (x.at[i, :, j].max(u), x.at[i].apply(jnp.tanh)),
                  (f32(5, 6, 7), s32(0, 3, 4, 1), s32(6, 5, 0, 9), f32(4, 6))),
    "put_windows": (
        lambda x, i, u: lax.scatter_add(
            x, i, u, lax.ScatterDimensionNumbers((1, 2), (), (0, 1)), mode=lax.GatherScatterMode.FILL_OR_DROP
        ),
        (f32(7, 8), s32(3, 4, 5, 7, -1, 0, 0, 0).reshape(4, 2), f32(4, 3, 2)),
    ),
    "put_batched": (jax.vmap(lambda x, i, u: x.at[i].add(u)),
                    (f32(3, 7, 2), s32(1, 2, 3, 4, 0, 9).reshape(3, 2), f32(3, 2, 2))),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 4), (f32(9, 3), s32(0, 1, 1, 3, 3, 0, 2, 2, 5))),
    "pool_gradient": (
        jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2).sum()),
        (f32(2, 7, 6, 3),),
    ),
    "gradient": (jax.grad(lambda w, x: jax.nn.softmax(jax.nn.relu(x @ w))[:, 0].sum()), (f32(6, 5), f32(3, 6))),
    "convolution_gradient": (
        jax.grad(lambda w, x: (lax.conv_general_dilated(x, w, (2, 2), "SAME") ** 2).sum()),
        (f32(4, 2, 3, 3), f32(2, 2, 7, 8)),
    ),
    "bits": (
        lambda x, i: (
            lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.uint16),
            lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.uint8), jnp.float32),
            lax.bitcast_convert_type(x.astype(jnp.bfloat16), jnp.int16), lax.population_count(i), lax.clz(i),
        ),
        (f32(3, 4), s32(0, 1, -1, 5, 1 << 30)),
    ),
    "fewer_bits": (
        lambda x: [
            lax.reduce_precision(y, e, m) for y in (x, x.astype(jnp.float16), x.astype(jnp.bfloat16))
            for e, m in ((8, 7), (5, 10), (5, 2), (4, 3), (8, 10), (8, 0), (2, 5))
        ],
        (np.array([0, -0.0, 1e-40, 1e38, -np.inf, np.nan, 65519, 65520, 6.1e-5, 6.103e-5, 2.98e-8, 1.0009765, 0.1])
         .astype(np.float32),),
    ),
    "random_bits": (
        lambda k: [
            lax.rng_bit_generator(k, s, dtype=d, algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)
            for s in ((), (4,), (3, 5), (5, 6), (2, 3, 4)) for d in (jnp.uint32, jnp.uint8)
        ],
        (np.array([1, 2, 3, 4], np.uint32),),
    ),
    "random_floats": (
        lambda k, x: (jax.random.normal(k, (33,)), jax.random.categorical(k, x), jax.random.uniform(k, (3, 5))),
        (np.array([0, 7], np.uint32), f32(4, 9)),
    ),
    "loop": (
        lambda n, x: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + s[1].sum()), (0, x)),
        (np.int32(5), f32(3)),
    ),
    "pytree": (lambda d: {"z": d["a"] @ d["b"], "y": (d["a"][::-1],)}, ({"a": f32(2, 3), "b": f32(3, 2)},)),
}  # fmt: skip


def close(got: list[np.ndarray], wanted: list[Any]) -> None:
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, map(np.asarray, wanted), strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(mine, theirs, rtol=3e-5, atol=3e-5)


@pytest.mark.exhaustive
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


IN_XLA = [
    "mlp",
    "block",
    "take",
    "pool",
    "integers",
    "special",
    "put",
    "put_apart",
    "put_batched",
    "pool_gradient",
    "bits",
    "fewer_bits",
    "cond",
    "switch",
    "loop",
]


def xla_run(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results of HLO text, compiled and run by XLA."""
    from jax._src.lib import xla_client

    client = jax.devices()[0].client
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    stable = xla_client._xla.mlir.hlo_to_stablehlo(proto)
    loaded = client.compile_and_load(stable, client.devices()[:1], xla_client.CompileOptions())
    buffers = [jax.device_put(x) for x in inputs]
    return [np.asarray(y) for y in loaded.execute(buffers)]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IN_XLA)
def test_written_text_computes_the_same_in_xla(name: str) -> None:
    function, arguments = CASES[name]
    text = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_text()
    if "{...}" in text:
        pytest.skip("XLA left constants out")
    inputs = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    graph = import_hlo(parse_hlo(text))
    close(xla_run(write_hlo(graph), inputs), graph.evaluate(inputs))


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(CASES) - {"sort"}))
def test_optimized_dump(name: str) -> None:
    """XLA's optimized HLO of a function on a CPU: fusions, layouts, bitcasts, stack-frame tables."""
    function, arguments = CASES[name]
    text = jax.jit(function).lower(*arguments).compile().as_text()
    inputs = [np.asarray(x) for x in jax.tree.leaves(arguments)]
    graph = import_hlo(parse_hlo(text))
    close(graph.evaluate(inputs), jax.tree.leaves(jax.jit(function)(*arguments)))
