"""Files of keras, and of the builder of language models: onnxruntime-genai."""

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
    x, y = keras.Input((7, 16)), keras.Input((12,))
    left, right = layers.Dense(6, "tanh")(y), layers.Dense(6)(y)
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
        "rnn": keras.Sequential([keras.Input((6, 16)), layers.SimpleRNN(8, return_sequences=True), layers.LSTM(4)]),
        "separable": keras.Sequential([
            keras.Input((12, 12, 3)), layers.ZeroPadding2D(1), layers.SeparableConv2D(8, 3, strides=2, padding="same"),
            layers.GroupNormalization(4), layers.LeakyReLU(), layers.AveragePooling2D(2, padding="same"),
            layers.Conv2DTranspose(4, 3, strides=2, padding="same"), layers.UpSampling2D(2, interpolation="bilinear"),
            layers.Cropping2D(1), layers.Flatten(), layers.Dense(3, "softmax"),
        ]),
        "activations": keras.Sequential([
            keras.Input((16,)), layers.Dense(16, "gelu"), layers.Dense(16, "swish"), layers.Dense(16, "elu"),
            layers.Dense(16, "selu"), layers.PReLU(), layers.UnitNormalization(), layers.Dense(8, "hard_sigmoid"),
            layers.Dense(8, "softplus"), layers.Dropout(0.3), layers.RepeatVector(3), layers.Permute((2, 1)),
        ]),
        "volume": keras.Sequential([
            keras.Input((6, 6, 6, 2)), layers.Conv3D(4, 3), layers.MaxPooling3D(2), layers.GlobalMaxPooling3D(),
        ]),
        "sequence": keras.Sequential([
            keras.Input((10, 4)), layers.Conv1D(8, 3, padding="causal", dilation_rate=2), layers.MaxPooling1D(2),
            layers.TimeDistributed(layers.Dense(3)), layers.GlobalAveragePooling1D(),
        ]),
        "merged": keras.Model(y, layers.concatenate([
            layers.add([left, right]), layers.multiply([left, right]), layers.maximum([left, right]),
            layers.subtract([left, right]), layers.average([left, right]),
        ])),
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
    "Gemma3": {"sliding_window": WINDOW, "sliding_window_pattern": 2},
    **dict.fromkeys(("Olmo", "Granite", "SmolLM3", "Ernie4_5", "HunYuanDenseV1"), {}),
    "Phi": {"num_key_value_heads": 4, "partial_rotary_factor": 0.5},
    "Nemotron": {"partial_rotary_factor": 0.5},
    "GptOss": {"sliding_window": WINDOW, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
}
"""Architectures of transformers, and what their configurations have besides."""

CONFIGS = {"Gemma3": "Gemma3Text"}
"""Names of configurations where they are not those of the architectures."""

WAYS: dict[str, tuple[str, ...]] = {
    "fp32": (),
    "int4": (),
    "fp16": (),
    "int4_asymmetric": ("int4_is_symmetric=false",),
}
"""Precisions and options of the builder."""

MORE_WAYS: dict[str, tuple[str, ...]] = {
    "int8": (),
    "int4_blocks": ("block_size=16",),
    "int4_rtn": ("algo_config=rtn", "op_types_to_quantize=MatMul/Gather"),
    "int4_mixed": ("algo_config=k_quant_mixed",),
    "int4_qdq": ("use_qdq=true",),
    "fp32_hidden": ("include_hidden_states=true",),
    "fp32_headless": ("exclude_lm_head=true",),
    "fp32_embeds": ("exclude_embeds=true",),
    "fp32_last": ("prune_lm_head=true",),
}
"""The same of the families in `WHOLE`."""

WHOLE = ("Llama", "Qwen3")


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
    for family, besides in DECODERS.items():
        with attempt(family):
            folder, name = new_folder(), family.partition(" ")[0]
            config = getattr(transformers, f"{CONFIGS.get(name, name)}Config")(**small, **besides)
            torch.manual_seed(0)
            getattr(transformers, f"{name}ForCausalLM")(config).eval().save_pretrained(folder)
            words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(64)}, unk_token="w0"))
            given = {"unk_token": "w0", "bos_token": "w1", "eos_token": "w2", "pad_token": "w0"}
            transformers.PreTrainedTokenizerFast(tokenizer_object=words, **given).save_pretrained(
                folder
            )
        for way, options in {**WAYS, **(MORE_WAYS if family in WHOLE else {})}.items():
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
    sizes = {"batch_size": 1, "past_sequence_length": past, "sequence_length": new}
    sizes |= {"past_sliding_length": max(past, WINDOW), "total_sequence_length": past + new}
    for info in model.graph.input:
        kind = info.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        dims = [dim.dim_value or sizes.get(dim.dim_param, 16) for dim in kind.shape.dim]
        if info.name == "attention_mask":
            values: Any = np.ones((1, past + new))
        elif info.name == "position_ids":
            values = np.arange(past, past + new)[None]
        elif dtype.kind == "i":
            values = draw.integers(3, 60, dims)
        else:  # caches, states and embeddings
            values = draw.standard_normal(dims)
        given[info.name] = values.astype(dtype)
    return given
