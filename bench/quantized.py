"""The suite `quantized`: networks of 8-bit integers as ONNX Runtime's tool makes them, of bf16, and 4-bit weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from .cases import Case
from .light_cases import in_bf16, in_four_bits
from .networks import NETWORKS
from .networks.net import Net
from .networks.transformer import bert, vit
from .quantizer import quantized
from .roofline import PACKED

MLP_2 = (479, 1024, 1024, 512, 256, 1)
WIDE = (1024, 4096, 4096, 1024)
HALF_MATMULS = ((1, 4096, 4096), (128, 768, 768), (1024, 1024, 1024))
PACKED_MATMULS = ((1, 4096, 4096), (1, 11008, 4096), (128, 4096, 4096))

Maker = Callable[[], Case]


def quantized_cases() -> dict[str, Maker]:
    """Label to case: the network, its batch or sequence, and the form."""
    nets: dict[str, tuple[Callable[[], Net], tuple[str, ...]]] = {
        "MLP_2 b128": (partial(dense, 128, MLP_2), ("qdq", "7-bit", "dynamic", "operator")),
        "MLP wide b1": (partial(dense, 1, WIDE), ("dynamic", "qdq")),
        "1x4096x4096": (partial(linear, 1, 4096, 4096), ("qdq", "dynamic")),
        "128x768x768": (partial(linear, 128, 768, 768), ("qdq", "7-bit", "dynamic")),
        "1024x1024x1024": (partial(linear, 1024, 1024, 1024), ("qdq", "7-bit")),
        "BERT block s128": (partial(bert, 1), ("qdq", "dynamic")),
        "BERT-base s128": (bert, ("qdq", "dynamic")),
        "ResNet-50": (NETWORKS["resnet50"], ("qdq", "7-bit", "operator")),
        "MobileNetV2": (NETWORKS["mobilenet_v2"], ("qdq", "operator")),
        "ViT-S/16": (vit, ("qdq", "dynamic")),
    }
    return {
        f"{name} {form}": partial(_made, f"{name} {form}", net, form)
        for name, (net, forms) in nets.items()
        for form in forms
    } | _light_cases()


def _light_cases() -> dict[str, Maker]:
    """`4-bit`: activations stay f32; `4-bit-s8`: they may be rounded to 8 bits."""
    nets: dict[str, Callable[[], Net]] = {
        **{"x".join(map(str, x)): partial(linear, *x) for x in HALF_MATMULS},
        "BERT block s128": partial(bert, 1),
        "BERT-base s128": bert,
        "ResNet-50": NETWORKS["resnet50"],
    }
    found: dict[str, Maker] = {}
    for name, net in nets.items():
        found[f"{name} bf16"] = partial(_made, f"{name} bf16", net, "bf16")
    for sizes in PACKED_MATMULS:
        for form in ("4-bit", "4-bit-s8"):
            label = f"{'x'.join(map(str, sizes))} {form}"
            found[label] = partial(_packed, label, sizes, form == "4-bit-s8")
    return found


def dense(batch: int, sizes: Sequence[int]) -> Net:
    """Dense layers with bias, ReLU after all but the last."""
    net = Net.of_rows("mlp", batch, sizes[0])
    x = net.linear("x", sizes[1])
    for size in sizes[2:]:
        x = net.linear(net.relu(x), size)
    net.result = x
    return net


def linear(m: int, n: int, k: int) -> Net:
    """One linear layer with constant weights and a bias."""
    net = Net.of_rows("matmul", m, k)
    net.result = net.linear("x", n)
    return net


def _made(label: str, net: Callable[[], Net], form: str) -> Case:
    """Build a quantized case: one scale per output channel for convolutions, as is usual, one per tensor
    for matmuls."""
    if form == "bf16":
        return with_roof(in_bf16(label, net), "bf16")
    made = net()
    case = quantized(replace(made.case(), name=label), form, per_channel=bool(made.layers))
    return with_roof(case, "u8")


def _packed(label: str, sizes: tuple[int, int, int], rounds: bool) -> Case:
    return with_roof(in_four_bits(label, *sizes, rounds), "s8" if rounds else PACKED)


def with_roof(case: Case, multiplied: str) -> Case:
    """Return a single-matmul case, whose name gives its sizes, with the roof of its compute dtype."""
    name = case.name.split()[0]
    sizes = name.split("x")
    if len(sizes) != 3 or not all(size.isdigit() for size in sizes):
        return case
    return replace(case, op_gflop=2e-9 * math.prod(map(int, sizes)), multiplied=multiplied)
