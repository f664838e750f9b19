"""JAX functions compiled by `graphc.jax.jit` against the same functions compiled by XLA. Skipped without jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc

RNG = np.random.default_rng(11)


def f32(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax


def layer_norm(x: Any, scale: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale


def mlp(layers: Any, x: Any) -> Any:
    for layer in layers[:-1]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def block(p: Any, x: Any) -> Any:
    """A transformer block with two heads and a causal mask."""
    batch, length, width = x.shape
    qkv = layer_norm(x, p["scale"]) @ p["qkv"]
    q, k, v = (
        y.reshape(batch, length, 2, width // 2).swapaxes(1, 2) for y in jnp.split(qkv, 3, -1)
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(width / 2)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    mixed = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
    x = x + mixed @ p["out"]
    return x + jax.nn.silu(layer_norm(x, p["scale"]) @ p["up"]) @ p["down"]


def convnet(p: Any, x: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    for w, stride in ((p["first"], (2, 2)), (p["second"], (1, 1))):
        x = jax.nn.relu(lax.conv_general_dilated(x, w, stride, "SAME", dimension_numbers=numbers))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.nn.log_softmax(x.mean((1, 2)) @ p["head"])


def gru(p: Any, x: Any, steps: Any) -> Any:
    """A GRU with a number of steps given by an argument."""

    def cell(state: Any) -> Any:
        i, h = state
        now = x[i]
        update = jax.nn.sigmoid(now @ p["wz"] + h @ p["uz"])
        reset = jax.nn.sigmoid(now @ p["wr"] + h @ p["ur"])
        fresh = jnp.tanh(now @ p["wh"] + (reset * h) @ p["uh"])
        return i + 1, (1 - update) * h + update * fresh

    start = (jnp.int32(0), jnp.zeros((x.shape[1], p["uz"].shape[0])))
    return lax.while_loop(lambda state: state[0] < steps, cell, start)[1]


def top_k_sampling(key: Any, logits: Any) -> Any:
    values, indices = lax.top_k(logits, 5)
    chosen = jax.random.categorical(key, values)
    return jnp.take_along_axis(indices, chosen[:, None], 1)[:, 0], jax.nn.softmax(values)


def training_step(p: Any, x: Any, y: Any) -> Any:
    loss, slopes = jax.value_and_grad(lambda q: ((mlp(q, x) - y) ** 2).mean())(p)
    return loss, jax.tree.map(lambda a, b: a - 0.1 * b, p, slopes)


LAYERS = [{"w": f32(7, 9), "b": f32(9)}, {"w": f32(9, 3), "b": f32(3)}]
BLOCK = {
    "scale": f32(16),
    "qkv": f32(16, 48) / 4,
    "out": f32(16, 16) / 4,
    "up": f32(16, 32) / 4,
    "down": f32(32, 16) / 6,
}
GRU = {
    **{name: f32(4, 5) / 2 for name in ("wz", "wr", "wh")},
    **{name: f32(5, 5) / 2 for name in ("uz", "ur", "uh")},
}
CONVNET = {"first": f32(3, 3, 3, 8), "second": f32(3, 3, 8, 8) / 4, "head": f32(8, 5)}
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (mlp, (LAYERS, f32(6, 7))),
    "block": (block, (BLOCK, f32(2, 11, 16))),
    "convnet": (convnet, (CONVNET, f32(2, 12, 11, 3))),
    "top_k_sampling": (top_k_sampling, (np.array([0, 42], np.uint32), f32(4, 50))),
    "layer_norm": (layer_norm, (f32(3, 5, 33), f32(33))),
    "training_step": (training_step, (LAYERS, f32(6, 7), f32(6, 3))),
}  # fmt: skip


def close(got: Any, wanted: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        theirs = np.asarray(theirs)
        assert isinstance(mine, np.ndarray) and (mine.shape, mine.dtype) == (
            theirs.shape,
            theirs.dtype,
        )
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name: str) -> None:
    function, arguments = CASES[name]
    close(graphc.jax.jit(function)(*arguments), jax.jit(function)(*arguments))


def test_a_gru_runs_as_many_steps_as_it_is_told() -> None:
    fast, x = graphc.jax.jit(gru), f32(9, 2, 4)
    for steps in (0, 1, 9):
        close(fast(GRU, x, np.int32(steps)), jax.jit(gru)(GRU, x, np.int32(steps)))
    assert fast.cache_size == 1


def test_one_model_for_each_combination_of_shapes_and_types() -> None:
    @graphc.jax.jit(threads=1)
    def scaled(tree: Any, factor: Any = 2) -> Any:
        """Doc."""
        return {"y": tree["x"] * factor, "n": len(tree["x"]), "empty": ()}

    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Doc.")
    x = f32(3)
    for _ in range(2):
        close(scaled({"x": x}), {"y": x * 2, "n": np.array(3, np.int32), "empty": ()})
    assert scaled.cache_size == 1
    close(scaled({"x": x}, factor=0.5)["y"], x / 2)
    close(scaled({"x": x}, factor=0.25)["y"], x / 4)
    close(scaled({"x": x[:2]}, factor=0.25)["y"], x[:2] / 4)
    assert scaled.cache_size == 3
    assert scaled({"x": jnp.asarray(x)}, factor=3)["y"].dtype == np.float32


def test_types_jax_does_not_compute_in_are_narrowed_as_jax_does() -> None:
    fast = graphc.jax.jit(lambda x, i: (x + i, i))
    wanted = np.array([0, 2, 4], np.float32), np.arange(3, dtype=np.int32)
    close(fast(np.arange(3.0), np.arange(3)), wanted)


def test_arguments_that_are_not_used_and_results_that_are_arguments() -> None:
    three = np.float32(3)
    fast = graphc.jax.jit(lambda a, b, c: (b, b, 1.5))
    close(fast(f32(2), three, f32(1)), (three, three, np.float32(1.5)))
    assert graphc.jax.jit(lambda: jnp.arange(3))().tolist() == [0, 1, 2]


def test_the_text_and_the_model_behind_a_call() -> None:
    table = np.arange(64, dtype=np.float32)  # larger than XLA prints by default
    fast = graphc.jax.jit(lambda i: jnp.asarray(table)[i])
    text = fast.lower(np.int32(3))
    assert text.startswith("HloModule") and "{...}" not in text
    assert fast(np.int32(3)) == 3
    with graphc.compile(text.encode()) as model:
        assert model(np.int32(5)) == 5
    assert fast.model(np.int32(3))(np.int32(7)) == 7


def test_complex_numbers_are_results_and_arguments() -> None:
    def function(x: Any, z: Any) -> Any:
        return {"moved": z * 1j, "waves": jnp.fft.fft(x), "real": x + 1}

    x, z = f32(8), (f32(3, 4) + 1j * f32(3, 4)).astype(np.complex64)
    found = graphc.jax.jit(function)(x, z)
    assert found["moved"].dtype == np.complex64 and found["real"].dtype == np.float32
    np.testing.assert_array_equal(found["moved"], z * 1j)
    np.testing.assert_allclose(found["waves"], np.fft.fft(x), atol=1e-5)
    assert graphc.jax.jit(lambda c: c.imag + 1)(2 + 3j) == 4


def test_what_is_not_supported_is_named() -> None:
    with pytest.raises(graphc.UnsupportedError, match=r"target 'lapack_sgeev_ffi'"):
        graphc.jax.jit(jnp.linalg.eig)(np.eye(3, dtype=np.float32))
