"""A small folder as the model builder of onnxruntime-genai writes it: one layer of grouped attention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

HEADS, KV_HEADS, SIZE, VOCABULARY = 4, 2, 16, 30
WIDTH = HEADS * SIZE


def genai_config() -> dict[str, Any]:
    """Settings with the names that the builder gives."""
    decoder = {
        "filename": "model.onnx", "head_size": SIZE, "num_hidden_layers": 1, "num_key_value_heads": KV_HEADS,
        "inputs": {
            "input_ids": "input_ids", "attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value",
        },
    }  # fmt: skip
    return {
        "model": {
            "vocab_size": VOCABULARY,
            "context_length": 64,
            "eos_token_id": 2,
            "decoder": decoder,
        }
    }


def write_genai(folder: Path) -> Path:
    """Write the configuration, the decoder and a tokenizer of words w0, w1, ..."""
    folder.mkdir()
    (folder / "genai_config.json").write_text(json.dumps(genai_config()))
    (folder / "model.onnx").write_bytes(_decoder().SerializeToString())
    words = {f"w{n}": n for n in range(VOCABULARY)}
    tokenizer: dict[str, Any] = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def _decoder() -> ModelProto:
    rng = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> TensorProto:
        values = rng.standard_normal(shape).astype(np.float32) / shape[0] ** 0.5
        return numpy_helper.from_array(values, name)

    def number(name: str, value: Any) -> TensorProto:
        return numpy_helper.from_array(np.array(value, np.int64), name)

    n = helper.make_node
    kv = KV_HEADS * SIZE
    nodes = [
        n("Gather", ["embedding", "input_ids"], ["x"]),
        *(n("MatMul", ["x", f"w_{one}"], [one]) for one in "qkv"),
        n("ReduceSum", ["attention_mask", "last_axis"], ["filled"], keepdims=0),
        n("Sub", ["filled", "one"], ["before"]),
        n("Cast", ["before"], ["lengths"], to=TensorProto.INT32),
        n("Shape", ["attention_mask"], ["shape"]),
        n("Gather", ["shape", "one"], ["total_wide"], axis=0),
        n("Cast", ["total_wide"], ["total"], to=TensorProto.INT32),
        n(
            "GroupQueryAttention",
            ["q", "k", "v", "past_key_values.0.key", "past_key_values.0.value", "lengths", "total"],
            ["mixed", "present.0.key", "present.0.value"], domain="com.microsoft",
            num_heads=HEADS, kv_num_heads=KV_HEADS,
        ),
        n("Add", ["x", "mixed"], ["y"]),
        n("MatMul", ["y", "head"], ["logits"]),
    ]  # fmt: skip
    tensors = [
        weights("embedding", VOCABULARY, WIDTH), weights("w_q", WIDTH, WIDTH), weights("w_k", WIDTH, kv),
        weights("w_v", WIDTH, kv), weights("head", WIDTH, VOCABULARY), number("last_axis", [1]), number("one", 1),
    ]  # fmt: skip
    info, ints, floats = helper.make_tensor_value_info, TensorProto.INT64, TensorProto.FLOAT
    cache = ["batch", KV_HEADS, "past", SIZE]
    graph = helper.make_graph(
        nodes, "decoder",
        [
            info("input_ids", ints, ["batch", "new"]), info("attention_mask", ints, ["batch", "total"]),
            info("past_key_values.0.key", floats, cache), info("past_key_values.0.value", floats, cache),
        ],
        [
            info("logits", floats, ["batch", "new", VOCABULARY]),
            *(info(f"present.0.{kind}", floats, ["batch", KV_HEADS, "total", SIZE]) for kind in ("key", "value")),
        ],
        tensors,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
