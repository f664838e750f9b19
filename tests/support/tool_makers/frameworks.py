"""Files of frameworks and of builders of language models: keras, jax2onnx, onnxruntime-genai."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .making import Save, attempt, new_folder


def keras(save: Save) -> None:
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    from keras import layers

    heads = layers.MultiHeadAttention(4, 4)
    x = keras.Input((7, 16))
    models = {
        "mlp": keras.Sequential([keras.Input((16,)), layers.Dense(32, "relu"), layers.Dense(5)]),
        "conv": keras.Sequential([
            keras.Input((12, 12, 3)), layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(3), layers.MaxPooling2D(), layers.GlobalAveragePooling2D(), layers.Dense(5),
        ]),
        "attention": keras.Model(x, layers.LayerNormalization()(x + heads(x, x))),
        "lstm": keras.Sequential([keras.Input((6, 16)), layers.LSTM(12, return_sequences=True), layers.Dense(3)]),
        "gru": keras.Sequential([keras.Input((6, 16)), layers.Bidirectional(layers.GRU(8)), layers.Dense(3)]),
        "embedding": keras.Sequential([keras.Input((9,), dtype="int32"), layers.Embedding(20, 8), layers.Conv1D(4, 3)]),
    }  # fmt: skip
    modes = [
        *((name, "") for name in models),
        *(("mlp", mode) for mode in ("int8", "int4", "float8")),
    ]
    for name, mode in modes:
        model = keras.models.clone_model(models[name]) if mode else models[name]
        given = np.random.default_rng(0).standard_normal((2, *model.input_shape[1:])).astype("f4")
        given = np.abs(given * 5).astype("int32") if name == "embedding" else given
        with attempt(f"{name}_{mode}"):
            if mode:
                model.quantize(mode)
            want = keras.ops.convert_to_numpy(model(given))
            path = new_folder() / "m.onnx"
            model.export(str(path), format="onnx", verbose=False)
            save(f"{name}_{mode}", path, {"": given}, [want])


def _jax_functions() -> dict[str, tuple[Any, tuple[int, ...]]]:
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

    return {
        "mlp": (lambda x: jax.nn.relu(x @ w1) @ w2, (4, 16)),
        "conv": (
            lambda x: jax.lax.conv_general_dilated(
                x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            (2, 12, 12, 3),
        ),
        "attention": (attention, (2, 7, 16)),
        "lstm": (lstm, (2, 6, 16)),
        "gelu_norm": (
            lambda x: jax.nn.gelu(x) / jnp.linalg.norm(x, axis=-1, keepdims=True),
            (4, 16),
        ),
        "top_k": (lambda x: jax.lax.top_k(x, 3)[0], (4, 16)),
        "sort": (lambda x: jnp.sort(x, -1), (4, 16)),
        "cumsum": (lambda x: jnp.cumsum(x, axis=1), (4, 16)),
        "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), (4, 16)),
        "while": (
            lambda x: jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + 1, x),
            (3, 4),
        ),
        "cond": (lambda x: jax.lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x), (3, 4)),
        "take": (lambda x: jnp.take(x, jnp.array([2, 0, 1]), axis=1), (4, 16)),
        "einsum": (lambda x: jnp.einsum("bij,bkj->bik", x, x), (2, 7, 16)),
        "pool": (
            lambda x: jax.lax.reduce_window(
                x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
            ),
            (2, 12, 12, 3),
        ),
        "scatter": (lambda x: x.at[:, 2].add(1.0), (4, 16)),
        "logsumexp": (lambda x: jax.scipy.special.logsumexp(x, -1), (4, 16)),
    }


def jax2onnx(save: Save) -> None:
    import jax
    from jax2onnx import to_onnx

    draw = np.random.default_rng(1).standard_normal
    for name, (function, shape) in _jax_functions().items():
        with attempt(name):
            x, path = draw(shape).astype("float32"), new_folder() / "m.onnx"
            want = np.asarray(jax.jit(function)(x))
            to_onnx(function, [shape], return_mode="file", output_path=str(path))
            save(name, path, {"": x}, [want])


WINDOW = 5
"""Keys that a sliding window sees, for which its cache has room: as many as a prompt has, as ONNX Runtime does not set
the rows of others."""

LONG = {
    "type": "longrope",
    "rope_type": "longrope",
    "long_factor": [1.5] * 8,
    "short_factor": [1.1] * 8,
}

DECODERS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma"), {}),
    "Phi3": {"original_max_position_embeddings": 128},
    "Phi3 of two ranges": {"original_max_position_embeddings": 64, "rope_scaling": LONG},
    "Gemma2": {"sliding_window": WINDOW},
}
"""Architectures of transformers, and what their configurations have besides."""


def genai(save: Save) -> None:
    """Decoders of a few architectures with random weights, by onnxruntime-genai's model builder: a prompt, a token."""
    import subprocess
    import sys

    import onnx
    import torch
    import transformers
    from tokenizers import Tokenizer, models

    small = {
        "vocab_size": 64, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    ways = {
        "fp32": (),
        "fp16": (),
        "int4": (),
        "int4_asymmetric": ("int4_is_symmetric=false",),
    }
    for family, besides in DECODERS.items():
        with attempt(family):
            folder, name = new_folder(), family.partition(" ")[0]
            config = getattr(transformers, f"{name}Config")(**small, **besides)
            torch.manual_seed(0)
            getattr(transformers, f"{name}ForCausalLM")(config).eval().save_pretrained(folder)
            words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(64)}, unk_token="w0"))
            given = {"unk_token": "w0", "bos_token": "w1", "eos_token": "w2", "pad_token": "w0"}
            transformers.PreTrainedTokenizerFast(tokenizer_object=words, **given).save_pretrained(
                folder
            )
        for way, options in ways.items():
            with attempt(f"{family}_{way}"):
                made = new_folder()
                command = [
                    sys.executable,
                    "-m",
                    "onnxruntime_genai.models.builder",
                    "-i",
                    folder,
                    "-o",
                    made,
                ]
                command += ["-p", way.partition("_")[0], "-e", "cpu", "-c", made / "cache"]
                command += ["--extra_options", *options] if options else []
                subprocess.run(command, check=True, capture_output=True)
                whole = onnx.load(made / "model.onnx")
                for attribute in (a for node in whole.graph.node for a in node.attribute):
                    if attribute.name == "accuracy_level":
                        attribute.i = 1  # matmuls in f32, not in bytes, which any level allows
                target = new_folder() / "m.onnx"
                onnx.save(whole, target)
                for step, (past, new) in {"prompt": (0, 5), "token": (5, 1)}.items():
                    save(f"{family}_{way}_{step}", target, _decoder_inputs(whole, past, new), None)


def _decoder_inputs(model: Any, past: int, new: int) -> dict[str, Any]:
    """Return random inputs of a decoder after `past` tokens, one row."""
    import onnx

    draw, given = np.random.default_rng(0), dict[str, Any]()
    for info in model.graph.input:
        kind = info.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if info.name.startswith("past_key_values"):
            dims = [dim.dim_value for dim in kind.shape.dim]
            slides = kind.shape.dim[2].dim_param == "past_sliding_length"
            rows = max(past, WINDOW) if slides else past
            values: Any = draw.standard_normal((1, dims[1], rows, dims[3] or 16))
        elif info.name == "attention_mask":
            values = np.ones((1, past + new))
        elif info.name == "position_ids":
            values = np.arange(past, past + new)[None]
        else:
            values = draw.integers(3, 60, (1, new))
        given[info.name] = values.astype(dtype)
    return given
