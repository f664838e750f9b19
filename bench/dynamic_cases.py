"""The suite `dynamic`: one compiled model for every batch and length, at sizes drawn with a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from .dynamic_case import DynamicCase, draws, suite_case
from .networks import NETWORKS
from .networks.decoder import gpt2_step, llama_step
from .networks.net import Net
from .networks.transformer import text_encoder
from .operands import Operand
from .quantized import dense

Sizes = Sequence[Mapping[str, int]]

MLPS = {"MLP_1": (13, 512, 256, 128), "MLP_2": (479, 1024, 1024, 512, 256, 1)}
ROWS: Sizes = [
    {"B": b} for b in sorted({1, 2, 3, 4, 512, *(sizes["B"] for sizes in draws(0, 7, {"B": 512}))})
]
IMAGES: Sizes = [{"B": b} for b in (1, 2, 3, 5, 8, 16)]
ENCODERS = {
    "MiniLM": ((6, 384, 12), list(draws(1, 9, {"B": 16, "S": 512}, 4096))),
    "BERT-base": ((12, 768, 12), list(draws(1, 6, {"B": 16, "S": 512}, 1024))),
}
"""(blocks, hidden, heads) and the batches and lengths of each."""

DECODERS: Mapping[str, tuple[Callable[[], Net], int, int, int]] = {
    "GPT-2 step": (partial(gpt2_step, "gpt2", 12, 768, 12), 12, 12, 64),
    "Llama step": (partial(llama_step, "llama", 8, 768, 12, 4), 8, 4, 64),
}
"""The network of one token after P others; blocks, heads of the cache, and their size."""

PASTS: Sizes = [{"P": p} for p in (1, 31, 128, 500, 1024, 2047)]

VOCABULARY = 1000
TEXT = {"ids": Operand.of("s64[B,S]", 0, VOCABULARY - 1), "mask": Operand.of("s64[B,S]", 1, 1)}


def dynamic_cases() -> dict[str, Callable[[], DynamicCase]]:
    """Name of a model to its case."""
    found: dict[str, Callable[[], DynamicCase]] = {}
    for name, widths in MLPS.items():
        rows = {"x": Operand.of(f"f32[B,{widths[0]}]")}
        found[name] = partial(_case, name, partial(dense, 1, widths), rows, ROWS)
    for name in ("resnet18", "mobilenet_v2"):
        images = {"x": Operand.of("f32[B,3,224,224]")}
        found[name] = partial(_case, name, NETWORKS[name], images, IMAGES)
    for name, (shape, sizes) in ENCODERS.items():
        net = partial(text_encoder, name, *shape, vocabulary=VOCABULARY)
        found[name] = partial(_case, name, net, TEXT, sizes)
    for name, (step, blocks, heads, size) in DECODERS.items():
        found[name] = partial(_case, name, step, step_inputs(blocks, heads, size), PASTS)
    return found


def step_inputs(blocks: int, heads: int, size: int) -> dict[str, Operand]:
    """The inputs of a decoder's step: a token, and the keys and values of P others for each block."""
    past = Operand.of(f"f32[1,{heads},P=1..4095,{size}]")
    caches = {f"past_{block}_{part}": past for block in range(blocks) for part in "kv"}
    return {"ids": Operand.of("s64[1,1]", 0, VOCABULARY - 1), **caches}


def _case(
    name: str, net: Callable[[], Net], inputs: Mapping[str, Operand], sizes: Sizes
) -> DynamicCase:
    return suite_case(name, net().case().onnx(), inputs, sizes)
