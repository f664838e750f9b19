"""Files of jax2onnx, and programs that JAX lowers: functions, and layers of flax."""

from __future__ import annotations

from typing import Any

import numpy as np

from .making import Save, attempt, new_folder

FUNCTIONS: dict[str, tuple[str, tuple[int, ...]]] = {
    "mlp": ("jax.nn.relu(x @ w1) @ w2", (4, 16)),
    "conv": (
        "jax.lax.conv_general_dilated(x, k, (2, 2), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))",
        (2, 12, 12, 3),
    ),
    "gelu_norm": ("jax.nn.gelu(x) / jnp.linalg.norm(x, axis=-1, keepdims=True)", (4, 16)),
    "top_k": ("jax.lax.top_k(x, 3)[0]", (4, 16)),
    "sort": ("jnp.sort(x, -1)", (4, 16)),
    "cumsum": ("jnp.cumsum(x, axis=1)", (4, 16)),
    "fft": ("jnp.abs(jnp.fft.fft(x))", (4, 16)),
    "while": ("jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + 1, x)", (3, 4)),
    "cond": ("jax.lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x)", (3, 4)),
    "take": ("jnp.take(x, jnp.array([2, 0, 1]), axis=1)", (4, 16)),
    "einsum": ("jnp.einsum('bij,bkj->bik', x, x)", (2, 7, 16)),
    "pool": (
        "jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')",
        (2, 12, 12, 3),
    ),
    "scatter": ("x.at[:, 2].add(1.0)", (4, 16)),
    "logsumexp": ("jax.scipy.special.logsumexp(x, -1)", (4, 16)),
    "depthwise": (
        "jax.lax.conv_general_dilated(x, k[:, :, :1, :6], (1, 1), [(1, 0), (0, 2)], rhs_dilation=(2, 1), "
        "feature_group_count=3, dimension_numbers=('NHWC', 'HWIO', 'NHWC'))",
        (2, 12, 12, 3),
    ),
    "conv_transpose": (
        "jax.lax.conv_transpose(x, k, (2, 2), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))",
        (2, 6, 6, 3),
    ),
    "mean_pool": (
        "jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), 'SAME') / 9",
        (2, 11, 12, 3),
    ),
    "resize": ("jax.image.resize(x, (2, 9, 15, 3), 'bilinear')", (2, 6, 10, 3)),
    "layer_norm": (
        "(x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-05) * w1[:, 0]",
        (2, 7, 16),
    ),
    "argmax": ("jnp.argmax(x, -1)", (4, 16)),
    "one_hot": ("jax.nn.one_hot(jnp.argmax(x, -1), 16) @ w1", (4, 16)),
    "where": ("jnp.where(x > 0, jnp.log1p(jnp.abs(x)), -x * 2)", (4, 16)),
    "clip_mod": ("jnp.clip(jnp.mod(x * 3, 1.7) + jnp.remainder(-x, 0.9), 0.1, 1.5)", (4, 16)),
    "floor_div": ("x // 0.3 + jnp.round(x * 2) - jnp.sign(x)", (4, 16)),
    "integers": ("(x * 10).astype('int32') // 3 % 5 + ((x * 9).astype('int32') >> 1)", (4, 16)),
    "argsort": ("jnp.argsort(x, -1)", (4, 16)),
    "split_roll": (
        "jnp.concatenate([jnp.roll(p, 1, -1) for p in jnp.split(x, 4, -1)], 0)",
        (4, 16),
    ),
    "flip_pad": ("jnp.pad(jnp.flip(x, 1), ((1, 2), (0, 3)), constant_values=2.0)", (4, 16)),
    "reflect": ("jnp.pad(x, ((0, 0), (2, 3)), mode='reflect')", (4, 16)),
    "tril": ("jnp.tril(x) + jnp.triu(x, 1) * 2", (16, 16)),
    "cumprod_max": ("jnp.cumprod(x, 1) + jax.lax.cummax(x, 1)", (4, 16)),
    "dynamic_slice": ("jax.lax.dynamic_slice(x, (1, 2), (2, 5))", (4, 16)),
    "dynamic_update": ("jax.lax.dynamic_update_slice(x, x[:2, :3] * 2, (1, 4))", (4, 16)),
    "gather_rows": ("x[jnp.array([3, 0, 2, 2]), jnp.array([1, 5, 5, 7])]", (4, 16)),
    "take_along": ("jnp.take_along_axis(x, jnp.argsort(x, -1)[:, :3], -1)", (4, 16)),
    "scatter_max": ("x.at[jnp.array([0, 2, 0])].max(1.5).at[1, ::3].mul(2.0)", (4, 16)),
    "fori": ("jax.lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x)", (3, 4)),
    "switch": (
        "jax.lax.switch((x.sum() > 0).astype('int32') + 1, [lambda v: v, jnp.sin, jnp.exp], x)",
        (3, 4),
    ),
    "vmap": ("jax.vmap(lambda r: jnp.outer(r, r).sum(0))(x)", (4, 16)),
    "grad": ("jax.grad(lambda v: (jnp.tanh(v @ w1) ** 2).sum())(x)", (4, 16)),
    "sdpa": (
        "jax.nn.dot_product_attention(*[x.reshape(2, 6, 4, 4)] * 3, is_causal=True)",
        (2, 6, 16),
    ),
    "activations": (
        "jax.nn.silu(x) + jax.nn.elu(x) + jax.nn.softplus(x) + jax.nn.selu(x) + jax.nn.hard_swish(x) + "
        "jax.nn.log_softmax(x, 0) + jax.nn.glu(jnp.concatenate([x, x], -1)) + jax.nn.relu6(x) + "
        "jax.nn.celu(x)",
        (4, 16),
    ),
    "erf_family": (
        "jax.scipy.special.erf(x) + jax.scipy.special.erfc(x) + jnp.expm1(x) + jnp.cbrt(x) + jnp.arctan2(x, 1 "
        "+ x * x) + jnp.sinh(x) + jnp.arcsinh(x) + jnp.hypot(x, 2.0)",
        (4, 16),
    ),
    "variance": ("jnp.std(x, 1) + jnp.median(x, 1) + jnp.prod(x, 1) + jnp.ptp(x, 1)", (4, 15)),
    "bool_logic": ("(x > 0).all(1) | (x > 1).any(1) ^ (x.sum(1) > 2)", (4, 16)),
    "linear_solve": ("jnp.linalg.norm(x @ x.T, axis=1)", (4, 16)),
    "diag": ("jnp.diagonal(x) + jnp.trace(x)", (6, 6)),
    "stack": ("jnp.stack([x, x + 1], 1).transpose(2, 0, 1).reshape(16, -1)", (4, 16)),
    "tile": ("jnp.tile(x, (2, 3)) + jnp.repeat(x, 6, 0).reshape(8, 48)", (4, 16)),
    "associative_scan": ("jax.lax.associative_scan(jnp.add, x, axis=1)", (4, 16)),
}
"""Functions of x, and its shape."""


def _jax_functions(
    texts: dict[str, tuple[str, tuple[int, ...]]],
) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return functions and the shapes of their inputs."""
    import jax
    import jax.numpy as jnp

    draw = np.random.default_rng(0).standard_normal
    w1, w2, k = (draw(s).astype("float32") for s in ((16, 32), (32, 5), (3, 3, 3, 8)))

    def attention(x: Any) -> Any:
        scores = jax.nn.softmax(x @ x.swapaxes(-1, -2) / 4, -1)
        return scores @ x

    def lstm(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            h, c = state
            gates = row @ w1[:, :32] + jnp.concatenate([h, h, h, h], -1)
            i, f, g, o = jnp.split(gates, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = (jnp.zeros((2, 8)), jnp.zeros((2, 8)))
        return jax.lax.scan(step, start, x.swapaxes(0, 1))[1]

    names = {"jax": jax, "jnp": jnp, "w1": w1, "w2": w2, "k": k}
    made = {
        name: (eval(f"lambda x: {text}", names), shape) for name, (text, shape) in texts.items()
    }
    return made | {"attention": (attention, (2, 7, 16)), "lstm": (lstm, (2, 6, 16))}


def _flax_layers() -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return layers of flax.nnx, and the shapes of their inputs."""
    from flax import nnx

    keys = nnx.Rngs(0)
    image, text = (2, 12, 12, 3), (2, 7, 16)
    layers: dict[str, tuple[Any, tuple[int, ...]]] = {
        "linear": (nnx.Linear(16, 8, rngs=keys), text),
        "linear_general": (nnx.LinearGeneral(16, (2, 4), rngs=keys), text),
        "conv": (nnx.Conv(3, 8, (3, 3), (2, 2), padding="VALID", rngs=keys), image),
        "conv_groups": (
            nnx.Conv(3, 6, (3, 3), feature_group_count=3, kernel_dilation=(2, 2), rngs=keys),
            image,
        ),
        "conv_transpose": (nnx.ConvTranspose(3, 8, (2, 2), (2, 2), rngs=keys), image),
        "batch_norm": (nnx.BatchNorm(3, use_running_average=True, rngs=keys), image),
        "layer_norm": (nnx.LayerNorm(16, rngs=keys), text),
        "rms_norm": (nnx.RMSNorm(16, rngs=keys), text),
        "group_norm": (nnx.GroupNorm(16, 4, rngs=keys), text),
        "attention": (nnx.MultiHeadAttention(4, 16, decode=False, rngs=keys), text),
        "sequential": (
            nnx.Sequential(nnx.Linear(16, 32, rngs=keys), nnx.gelu, nnx.Linear(32, 4, rngs=keys)),
            text,
        ),
        "lstm": (nnx.RNN(nnx.OptimizedLSTMCell(16, 8, rngs=keys)), text),
        "gru": (nnx.RNN(nnx.GRUCell(16, 8, rngs=keys)), text),
        "embed": (lambda x: nnx.Embed(20, 8, rngs=keys)((x * 0).astype("int32") + 3), (2, 7)),
        "max_pool": (lambda x: nnx.max_pool(x, (2, 2), (2, 2)), image),
        "avg_pool": (lambda x: nnx.avg_pool(x, (3, 3), (2, 2), "SAME"), image),
    }
    return {f"nnx_{name}": layer for name, layer in layers.items()}


LOWERED: dict[str, tuple[str, tuple[int, ...]]] = {
    "solve": ("jnp.linalg.solve(x @ x.T + jnp.eye(5), x)", (5, 7)),
    "inv": ("jnp.linalg.inv(x @ x.T + jnp.eye(4))", (4, 9)),
    "cholesky": ("jnp.linalg.cholesky(x @ x.swapaxes(-1, -2) + jnp.eye(4))", (2, 4, 6)),
    "det": ("jnp.linalg.det(x) + jnp.linalg.slogdet(x)[1]", (3, 4, 4)),
    "qr": ("jnp.abs(jnp.linalg.qr(x)[1])", (6, 4)),
    "svd": ("jnp.linalg.svd(x, compute_uv=False)", (6, 4)),
    "eigh": ("jnp.linalg.eigvalsh(x @ x.T)", (5, 5)),
    "triangular": (
        "jax.scipy.linalg.solve_triangular(jnp.tril(x) + 3 * jnp.eye(5), x, lower=True)",
        (5, 5),
    ),
    "fft_parts": ("jnp.abs(jnp.fft.rfft(x)) + jnp.fft.irfft(jnp.fft.rfft(x), 18)[:, :10]", (4, 18)),
    "complex": ("jnp.real((x + 1j * x) ** 2 * jnp.exp(1j * x))", (4, 16)),
    "bfloat16": ("(x.astype(jnp.bfloat16) @ w1.astype(jnp.bfloat16)).astype('float32')", (4, 16)),
    "half_sum": ("jnp.cumsum(x.astype('float16'), 1).astype('float32')", (4, 16)),
    "int8": ("((x * 40).astype('int8') * jnp.int8(3) + jnp.int8(100)).astype('int32')", (4, 16)),
    "uint8": ("((jnp.abs(x) * 90).astype('uint8') - jnp.uint8(200) >> 1).astype('int32')", (4, 16)),
    "int16_dot": (
        "jnp.dot((x * 9).astype('int16'), (x.T * 9).astype('int16')).astype('int32')",
        (4, 16),
    ),
    "reduce_precision": ("jax.lax.reduce_precision(x, 5, 4)", (4, 16)),
    "bits": ("jax.lax.bitcast_convert_type(x, jnp.int32) & 0xFFFF", (4, 16)),
    "popcount": (
        "jax.lax.population_count((x * 99).astype('int32')) + jax.lax.clz((x * 99).astype('int32'))",
        (4, 16),
    ),
    "random": ("jax.random.uniform(jax.random.PRNGKey(3), x.shape) + x", (4, 16)),
    "normal": ("jax.random.normal(jax.random.PRNGKey(7), x.shape) * x", (4, 16)),
    "sort_pairs": ("jax.lax.sort((x, -x), dimension=1, num_keys=1)[1]", (4, 16)),
    "lexsort": ("jnp.lexsort((x[0], jnp.round(x[1])))", (4, 16)),
    "unique_ranks": ("jnp.searchsorted(jnp.sort(x[0]), x[1])", (4, 16)),
    "histogram": ("jnp.bincount((jnp.abs(x) * 4).astype('int32').reshape(-1), length=12)", (4, 16)),
    "segment_sum": ("jax.ops.segment_sum(x, jnp.array([0, 2, 2, 1]), 3)", (4, 16)),
    "window_min": (
        "jax.lax.reduce_window(x, jnp.inf, jax.lax.min, (1, 3), (1, 2), ((0, 0), (1, 2)))",
        (4, 16),
    ),
    "select_and_scatter": (
        "jax.grad(lambda v: (jax.lax.reduce_window(v, -jnp.inf, jax.lax.max, (1, 2), (1, 2), 'VALID') ** 2).sum())(x)",
        (4, 16),
    ),
    "conv_grad": (
        "jax.grad(lambda v: (jax.lax.conv_general_dilated(v, k, (2, 2), 'SAME', "
        "dimension_numbers=('NHWC', 'HWIO', 'NHWC')) ** 2).sum())(x)",
        (2, 9, 9, 3),
    ),
    "special": (
        "jax.scipy.special.gammaln(jnp.abs(x) + 0.5) + jax.scipy.special.i0e(x) + jax.lax.erf_inv(x / 9)",
        (4, 16),
    ),
    "digamma": (
        "jax.scipy.special.digamma(jnp.abs(x) + 1) + jax.lax.igamma(1.5, jnp.abs(x))",
        (4, 16),
    ),
    "nan_to_num": (
        "jnp.nan_to_num(jnp.log(x)) + jnp.nanmax(jnp.sqrt(x), 1, keepdims=True)",
        (4, 16),
    ),
    "percentile": ("jnp.percentile(x, jnp.array([10.0, 50.0, 95.0]), axis=1)", (4, 15)),
    "convolve": ("jnp.convolve(x[0], x[1], mode='same')", (4, 16)),
    "map": ("jax.lax.map(lambda r: r * r.sum(), x)", (4, 16)),
    "scan_rows": ("jax.lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), x[0], x)[1]", (5, 16)),
    "nested_while": (
        "jax.lax.fori_loop(0, 3, lambda i, c: jax.lax.while_loop(lambda v: v.max() < 9, lambda v: v + 1, c) - i, x)",
        (3, 4),
    ),
    "remat": ("jax.checkpoint(lambda v: jnp.tanh(v @ w1) @ w2)(x)", (4, 16)),
    "custom_jvp": ("jax.nn.relu(x) + jax.nn.gelu(x, approximate=False)", (4, 16)),
    "mod_signs": ("jnp.fmod(x * 1e6, 0.7) + jax.lax.rem(x, -0.3) + jnp.copysign(x, -x)", (4, 16)),
    "next_after": (
        "jnp.nextafter(x, 2.0) + jnp.ldexp(x, 3) + jnp.exp2(x) + jnp.log2(jnp.abs(x))",
        (4, 16),
    ),
}
"""More functions of x whose programs are read as HLO and StableHLO."""


def hlo(save: Save) -> None:
    """Write programs as HLO and StableHLO texts, by the jaxlib that is installed."""
    import jax

    draw = np.random.default_rng(1).standard_normal
    for name, (function, shape) in _jax_functions(FUNCTIONS | LOWERED).items():
        x = draw(shape).astype("float32")
        with attempt(name):
            lowered = jax.jit(function).lower(x)
            compiled = lowered.compile()
            results = jax.tree_util.tree_leaves(compiled(x))
            want = [np.asarray(one) for one in results]
            texts = {"mlir": lowered.as_text(), "hlo": lowered.as_text(dialect="hlo")}
            texts["optimized.hlo"] = compiled.as_text()
            for form, text in texts.items():
                path = new_folder() / f"m.{form}"
                path.write_text(text)
                save(f"{name}.{form.partition('.')[0]}", path, {"x": x}, want)


def jax2onnx(save: Save) -> None:
    import jax
    from jax2onnx import to_onnx

    draw = np.random.default_rng(1).standard_normal
    for name, (function, shape) in (_jax_functions(FUNCTIONS) | _flax_layers()).items():
        with attempt(name):
            x, path = draw(shape).astype("float32"), new_folder() / "m.onnx"
            want = np.asarray(jax.jit(function)(x))
            to_onnx(function, [shape], return_mode="file", output_path=str(path))
            save(name, path, {"": x}, [want])
