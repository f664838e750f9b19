"""onnxruntime-genai beside a language model: a folder of the shape of a case of the suite `decode`, with 4-bit weights.

Its model builder makes the folder without the network, from a folder of Hugging Face Transformers whose weights are
random. It needs the packages `onnxruntime-genai`, `onnx-ir`, `torch` and `transformers`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..base.errors import UserError
from .decode_models import CONTEXT_LENGTH, NORM_EPSILON, SCALE, SHAPES, Shape
from .peers import package_of

GENAI = "onnxruntime-genai"
KINDS = ("Q4_0", "Q4_K_M")
"""Weights of cases that folders of 4-bit weights are compared with."""
CONTEXT = 4096
NEW = 16
"""Tokens that are generated after a context; the first of them is not timed."""
BUILDER = "onnxruntime_genai.models.builder"
NAMES = {
    "token_embd": "embed_tokens", "output_norm": "norm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
}  # fmt: skip
"""The names that Transformers has for tensors of a GGUF file."""


class Genai:
    """onnxruntime-genai with a folder, greedily."""

    def __init__(self, folder: Path, threads: int) -> None:
        package = package_of(f"peer '{GENAI}'", "onnxruntime_genai", GENAI)
        config = package.Config(str(folder))
        session = {"session_options": {"intra_op_num_threads": threads}}
        config.overlay(json.dumps({"model": {"decoder": session}}))
        model = package.Model(config)
        parameters = package.GeneratorParams(model)
        # min_length keeps the token that ends a text from being chosen
        parameters.set_search_options(max_length=CONTEXT, min_length=CONTEXT, do_sample=False)
        self._generator = package.Generator(model, parameters)

    def prefill(self, tokens: Sequence[int]) -> float:
        """Seconds of a prompt."""
        self._generator.rewind_to(0)
        start = time.perf_counter()
        self._generator.append_tokens(np.array(tokens, np.int32))
        return time.perf_counter() - start

    def decode(self, tokens: Sequence[int]) -> float:
        """Seconds of a token, the mean of `NEW` - 1."""
        self.prefill(tokens or [1])
        self._generator.generate_next_token()
        start = time.perf_counter()
        for _ in range(NEW - 1):
            self._generator.generate_next_token()
        return (time.perf_counter() - start) / (NEW - 1)


@contextmanager
def genai_folder(case: str) -> Iterator[Path | None]:
    """Build the folder of a case, which is deleted afterwards; None for a case of other weights or of experts.

    Raise UserError where the builder fails.
    """
    name, _, kind = case.rpartition(" ")
    if kind not in KINDS or name not in SHAPES or SHAPES[name].experts:
        yield None
        return
    with TemporaryDirectory(prefix="graphc-genai-") as folder:
        path = Path(folder)
        write_folder(path / "transformers", SHAPES[name])
        yield build(path / "transformers", path / "genai")


def build(source: Path, result: Path) -> Path:
    """Let the model builder write a folder of 4-bit weights. Raise UserError where it fails."""
    package_of(f"peer '{GENAI}'", BUILDER.partition(".")[0], GENAI)
    words = ["-i", source, "-o", result, "-p", "int4", "-e", "cpu", "-c", source.parent / "cache"]
    command = [sys.executable, "-m", BUILDER, *map(str, words)]
    done = subprocess.run(
        command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"peer '{GENAI}': its model builder failed ({reason}); pip install onnx-ir transformers"
        )
    return result


def write_folder(folder: Path, shape: Shape) -> None:
    """Write a folder of Hugging Face Transformers with random weights in f16, and norms 1."""
    save: Any = package_of(f"peer '{GENAI}'", "safetensors.numpy", "safetensors").save_file
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(_config(shape)))
    rng, tensors = np.random.default_rng(0), {}
    for name, dims in shape.tensors():
        *layer, part = name.removeprefix("blk.").split(".")
        known = ".".join(["model", *(["layers", *layer] if layer else []), NAMES[part], "weight"])
        wide = rng.random(dims, np.float32) - 0.5 if len(dims) > 1 else np.ones(dims, np.float32)
        tensors[known] = (wide * SCALE if len(dims) > 1 else wide).astype(np.float16)
    save(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    words = {"<unk>": 0, "<s>": 1, "</s>": 2}
    model = {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))


def _config(shape: Shape) -> dict[str, Any]:
    """Return the configuration of a shape in the words of Transformers."""
    return {
        "model_type": shape.architecture, "architectures": [f"{shape.architecture.title()}ForCausalLM"],
        "num_hidden_layers": shape.layers, "hidden_size": shape.width, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": shape.key_size, "intermediate_size": shape.hidden,
        "vocab_size": shape.vocabulary, "rope_theta": shape.rotary_base, "max_position_embeddings": CONTEXT_LENGTH,
        "rms_norm_eps": NORM_EPSILON, "tie_word_embeddings": True, "hidden_act": "silu", "torch_dtype": "float16",
        "bos_token_id": 1, "eos_token_id": 2, "attention_bias": False, "mlp_bias": False,
    }  # fmt: skip
