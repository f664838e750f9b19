"""Writes GGUF files: metadata, tensors, and small decoders with random weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphc.base.block_types import BLOCK_TYPES, BlockType

Array = np.ndarray[Any, Any]
TYPES = {one.name: one for one in BLOCK_TYPES}
PLAIN = {"f32": (0, "<f4"), "f16": (1, "<f2"), "i32": (26, "<i4")}
_KINDS = {"<u4": 4, "<i4": 5, "<f4": 6, "?": 7}


@dataclass
class Blocks:
    """Random weights of a block type: `dims` outermost first."""

    kind: BlockType
    dims: tuple[int, ...]
    raw: Array

    @property
    def values(self) -> Array:
        """f32, as the file says."""
        return self.kind.values(self.raw).reshape(self.dims)


def blocks(kind: str, rows: int, k: int, rng: np.random.Generator, scale: float = 0.02) -> Blocks:
    """Random bytes whose floats are replaced, so that weights are about as large as `scale`."""
    row = TYPES[kind]
    raw = rng.integers(0, 256, (rows * k // row.elements, row.size), dtype=np.uint8)
    for factor in (row.scale, row.minimum):
        if factor is None:
            continue
        floats, largest = factor.floats, 1.0
        if floats.decode is not None:
            raw[:, floats.offset : floats.offset + floats.count] = (
                120 if row.name == "mxfp4" else 40
            )
            continue
        if factor.of_group is not None:
            largest = float(
                np.abs(factor.of_group.read(raw).astype(np.float64) - factor.zero).max()
            )
        levels = (
            max(abs(row.min_level), row.min_level + row.level_count - 1)
            if factor is row.scale
            else 4
        )
        value = scale * rng.uniform(0.5, 1, (len(raw), floats.count)) / largest / levels * 4
        raw[:, floats.offset : floats.offset + 2 * floats.count] = value.astype("<f2").view(
            np.uint8
        )
    return Blocks(row, (rows, k), raw.reshape(rows, -1))


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Array | Blocks]
) -> Path:
    """Write a file of version 3. Metadata: str, bool, int (u32), float (f32), bytes, lists of these and arrays."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    head += b"".join(_text(key) + _pair(value) for key, value in metadata.items())
    data = b""
    for name, tensor in tensors.items():
        data += bytes(-len(data) % 32)
        if isinstance(tensor, Blocks):
            code, raw, dims = tensor.kind.code, tensor.raw.tobytes(), tensor.dims
        else:
            code, dtype = PLAIN[
                {"float32": "f32", "float16": "f16", "int32": "i32"}[str(tensor.dtype)]
            ]
            raw, dims = tensor.astype(dtype).tobytes(), tensor.shape
        head += _text(name) + struct.pack("<I", len(dims))
        head += struct.pack(f"<{len(dims)}Q", *dims[::-1]) + struct.pack("<IQ", code, len(data))
        data += raw
    path.write_bytes(head + bytes(-len(head) % 32) + data)
    return path


def _text(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _pair(value: Any) -> bytes:
    kind, raw = _value(value)
    return struct.pack("<I", kind) + raw


def _value(value: Any) -> tuple[int, bytes]:
    if isinstance(value, str | bytes):
        return 8, _text(value)
    if isinstance(value, bool):
        return 7, bytes([value])
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, np.ndarray):
        kind = {"int32": 5, "float32": 6, "bool": 7}[str(value.dtype)]
        return 9, struct.pack("<IQ", kind, len(value)) + value.tobytes()
    parts = [_value(one) for one in value]
    kind = parts[0][0] if parts else 8
    return 9, struct.pack("<IQ", kind, len(parts)) + b"".join(raw for _, raw in parts)


@dataclass
class TinyDecoder:
    """Metadata and weights of a small decoder."""

    architecture: str
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    key_size: int = 16
    hidden: int = 96
    vocabulary: int = 300
    kinds: Sequence[str] = ("q4_0", "q8_0", "q5_0")
    experts: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    def write(self, path: Path) -> tuple[Path, dict[str, Array]]:
        """Write the file; return its path and the values of its tensors."""
        tensors = self.tensors()
        values = {n: t.values if isinstance(t, Blocks) else t for n, t in tensors.items()}
        return write_gguf(path, self.metadata(), tensors), values

    def metadata(self) -> dict[str, Any]:
        """Sizes, and a vocabulary of bytes and words."""
        a = self.architecture
        sizes = {
            f"{a}.context_length": 512, f"{a}.embedding_length": self.width, f"{a}.block_count": self.layers,
            f"{a}.feed_forward_length": self.hidden, f"{a}.attention.head_count": self.heads,
            f"{a}.attention.head_count_kv": self.kv_heads, f"{a}.attention.key_length": self.key_size,
            f"{a}.attention.value_length": self.key_size, f"{a}.attention.layer_norm_rms_epsilon": 1e-6,
            f"{a}.rope.freq_base": 10000.0,
        }  # fmt: skip
        if self.experts:
            sizes |= {f"{a}.expert_count": self.experts, f"{a}.expert_used_count": 2}
        more = {f"{a}.{key}": value for key, value in self.more.items()}
        return {
            "general.architecture": a,
            "general.name": "tiny",
            **sizes,
            **more,
            **vocabulary(self.vocabulary),
        }

    def tensors(self) -> dict[str, Array | Blocks]:
        """Weights by name, of the types in turn."""
        rng, a = np.random.default_rng(self.seed), self.architecture
        found: dict[str, Array | Blocks] = {}
        wanted: list[tuple[str, int, int]] = []
        q, kv = self.heads * self.key_size, self.kv_heads * self.key_size

        def norm(name: str, size: int) -> None:
            found[f"{name}.weight"] = (1 + 0.1 * rng.standard_normal(size)).astype(np.float32)

        for layer in range(self.layers):
            at = f"blk.{layer}."
            norm(f"{at}attn_norm", self.width)
            norm(f"{at}ffn_norm", self.width)
            if a == "phi3":
                wanted += [
                    (f"{at}attn_qkv", q + 2 * kv, self.width),
                    (f"{at}ffn_up", 2 * self.hidden, self.width),
                ]
            else:
                wanted += [
                    (f"{at}attn_{x}", n, self.width) for x, n in (("q", q), ("k", kv), ("v", kv))
                ]
                wanted += self._gated(at)
            wanted += [(f"{at}attn_output", self.width, q)]
            wanted += [] if self.experts else [(f"{at}ffn_down", self.width, self.hidden)]
            if a in ("gemma3", "qwen3", "qwen3moe"):
                norm(f"{at}attn_q_norm", self.key_size)
                norm(f"{at}attn_k_norm", self.key_size)
            if a.startswith("gemma"):
                norm(f"{at}post_attention_norm", self.width)
                norm(f"{at}post_ffw_norm", self.width)
            if a == "qwen2":
                for x, n in (("q", q), ("k", kv), ("v", kv)):
                    found[f"{at}attn_{x}.bias"] = rng.standard_normal(n).astype(np.float32)
        norm("output_norm", self.width)
        wanted += [("token_embd", self.vocabulary, self.width)]
        wanted += [("output", self.vocabulary, self.width)] * (
            a in ("llama", "phi3", "qwen3", "qwen3moe")
        )
        for i, (name, rows, k) in enumerate(wanted):
            packed = blocks(self.kinds[i % len(self.kinds)], rows, k, rng, 0.2)
            if name.endswith("_exps"):
                packed.dims = (self.experts, rows // self.experts, k)
            found[f"{name}.weight"] = packed
        return found

    def _gated(self, at: str) -> list[tuple[str, int, int]]:
        """The gate and its factor, or a router and these of every expert."""
        if not self.experts:
            return [(f"{at}ffn_{name}", self.hidden, self.width) for name in ("gate", "up")]
        rows = self.experts * self.hidden
        return [
            (f"{at}ffn_gate_inp", self.experts, self.width),
            (f"{at}ffn_gate_exps", rows, self.width),
            (f"{at}ffn_up_exps", rows, self.width),
            (f"{at}ffn_down_exps", self.experts * self.width, self.hidden),
        ]


def vocabulary(count: int) -> dict[str, Any]:
    """SentencePiece-like metadata: control tokens, 256 bytes, letters, and what pairs of them make."""
    texts = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    kinds = [2, 3, 3] + [6] * 256
    words = ["▁", *"helowrd", "he", "ll", "lo", "hell", "hello", "▁w", "or", "▁wor", "ld", "▁world"]
    words += [f"word{i}" for i in range(count)]
    scores = [0.0] * 259 + [-float(i) for i in range(len(words))]
    texts += [word.encode() for word in words]
    kinds += [1] * len(words)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": texts[:count],
        "tokenizer.ggml.scores": np.array(scores[:count], np.float32),
        "tokenizer.ggml.token_type": np.array(kinds[:count], np.int32),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": False,
    }
