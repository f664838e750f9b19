"""The workloads of the README's tables, with random weights of a fixed seed: ONNX models, and PyTorch's modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from .cases import Case, chosen
from .dynamic_case import DynamicCase
from .dynamic_cases import dynamic_cases
from .networks import NETWORKS, TRANSFORMERS
from .networks.net import ConvLayer, Net, one_layer
from .one_op import one_op_case
from .op_cases import op_lines
from .quantized import dense, quantized_cases
from .torch_networks import TorchCase, torch_cases


def mlp(name: str, batch: int, sizes: Sequence[int]) -> Case:
    """Dense layers with constant weights, bias and ReLU after each, the last included."""
    net = dense(batch, sizes)
    net.name, net.result = name, net.relu(net.result)
    return net.case()


def matmul(m: int, n: int, k: int) -> Case:
    """One matmul with a constant right-hand side."""
    net = Net.of_rows(f"{m}x{n}x{k}", m, k)
    net.result = net.matmul("x", net.random(k, n, scale=k**-0.5), n)
    return net.case()


def attention(name: str, batch: int, sequence: int, hidden: int, heads: int) -> Case:
    """Q[B,A,S,d] x K[B,A,d,S] / sqrt(d) + mask[B,1,1,S], softmax, x V[B,A,S,d], transposed to [B,S,A,d]."""
    d, rows = hidden // heads, (batch, heads, sequence, hidden // heads)
    shapes = {"q": rows, "k": (batch, heads, d, sequence), "mask": (batch, 1, 1, sequence)}
    net = Net.of_inputs(name, **shapes, v=rows)
    scale = net.constant(np.array([d**0.5], np.float32))
    scores = net.pair("Div", net.matmul("q", "k", sequence), scale)
    weights = net.act(net.pair("Add", scores, "mask"), "Softmax", axis=-1)
    net.result = net.transpose(net.matmul(weights, "v", d), (0, 2, 1, 3))
    return net.case()


BATCHES = (32, 64, 128, 256, 512)
MLP_1, MLP_2 = (13, 512, 256, 128), (479, 1024, 1024, 512, 256, 1)
GEMMS = (
    (128, 768, 768), (128, 512, 13), (128, 256, 512), (128, 1024, 479), (128, 1024, 1024), (512, 1024, 1024),
    (1024, 1024, 1024), (2048, 2048, 2048), (384, 3072, 768), (32, 512, 512), (1, 4096, 4096),
)  # fmt: skip
MHAS = {
    "MHA_1": (128, 768, 8),
    "MHA_2": (128, 768, 12),
    "MHA_3": (384, 1024, 8),
    "MHA_4": (512, 1024, 16),
}
LAYERS_OF = ("resnet50", "mobilenet_v2")


Maker = Callable[[], Case]
DynamicMaker = Callable[[], DynamicCase]
TorchMaker = Callable[[], TorchCase]


def suite(name: str, only: str = "") -> Iterator[Case | DynamicCase | TorchCase]:
    """The cases of a suite whose names contain `only`, built one at a time, as they are large.

    Raise KeyError for a name that is not in `SUITES`.
    """
    return (make() for make in makers(name, only).values())


def makers(name: str, only: str = "") -> dict[str, Maker | DynamicMaker | TorchMaker]:
    """Return the builders of the cases of a suite whose name contains `only`. Raise UserError if there is none."""
    found = SUITES[name]()
    return {label: found[label] for label in chosen(found, name, only)}


def _gemm() -> dict[str, Maker]:
    return {"x".join(map(str, sizes)): partial(matmul, *sizes) for sizes in GEMMS}


def _mlp() -> dict[str, Maker]:
    stacks = {"MLP_1": MLP_1, "MLP_2": MLP_2}
    labels = {f"{name} b{batch}": (batch, name) for name in stacks for batch in BATCHES}
    return {
        label: partial(mlp, label, batch, stacks[name]) for label, (batch, name) in labels.items()
    }


def _mha() -> dict[str, Maker]:
    labels = {f"{name} b{batch}": (batch, name) for name in MHAS for batch in (1, 8, 32)}
    return {
        label: partial(attention, label, batch, *MHAS[name])
        for label, (batch, name) in labels.items()
    }


def _tiny() -> dict[str, Maker]:
    sizes = {
        "16x16": (16, (16, 16)),
        "64x3 b1": (1, (64,) * 4),
        "256x3 b1": (1, (256,) * 4),
    }
    return {label: partial(mlp, label, *size) for label, size in sizes.items()}


def _conv() -> dict[str, Maker]:
    """The distinct layers of two networks, each with bias and ReLU."""
    layers = [layer for name in LAYERS_OF for layer in NETWORKS[name]().layers]
    return {str(layer): partial(_layer_case, layer) for layer in layers}


def _layer_case(layer: ConvLayer) -> Case:
    return one_layer(layer).case()


def _networks() -> dict[str, Maker]:
    return {name: partial(_network_case, name) for name in NETWORKS}


def _network_case(name: str) -> Case:
    return NETWORKS[name]().case()


def _transformers() -> dict[str, Maker]:
    return {name: partial(_transformer_case, name) for name in TRANSFORMERS}


def _transformer_case(name: str) -> Case:
    return replace(TRANSFORMERS[name]().case(), name=name)


def _ops() -> dict[str, Maker]:
    return {name: partial(one_op_case, name, text) for name, text in op_lines().items()}


SUITES: dict[str, Callable[[], Mapping[str, Maker | DynamicMaker | TorchMaker]]] = {
    "gemm": _gemm,
    "mlp": _mlp,
    "mha": _mha,
    "tiny": _tiny,
    "conv": _conv,
    "networks": _networks,
    "transformers": _transformers,
    "ops": _ops,
    "quantized": quantized_cases,
    "dynamic": dynamic_cases,
    "torch": torch_cases,
}
