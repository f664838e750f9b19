"""The workloads of the README's tables, as ONNX models with random weights of a fixed seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
IR_VERSION, OPSET = 9, 17  # what every engine of the last years reads


@dataclass(frozen=True)
class Case:
    """One row of a table: an ONNX model as bytes, and the shape of each input (f32)."""

    name: str
    model: bytes
    inputs: Mapping[str, tuple[int, ...]]

    def arrays(self) -> dict[str, Array]:
        """Inputs with a fixed seed."""
        rng = np.random.default_rng(1)
        return {
            name: rng.standard_normal(shape, dtype=np.float32)
            for name, shape in self.inputs.items()
        }


def mlp(name: str, batch: int, sizes: Sequence[int], relu: bool = True) -> Case:
    """Dense layers with constant weights; with `relu`, bias and ReLU after each, the last included."""
    from onnx import helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes, weights, current = [], [], "x"
    for layer, (k, n) in enumerate(zip(sizes, sizes[1:], strict=False)):
        weight = rng.standard_normal((k, n), dtype=np.float32) * np.float32((2.0 / k) ** 0.5)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(
            helper.make_node("MatMul", [current, f"w{layer}"], [f"mm{layer}"], f"fc{layer}")
        )
        current = f"mm{layer}"
        if relu:
            bias = rng.standard_normal(n, dtype=np.float32) * np.float32(0.1)
            weights.append(numpy_helper.from_array(bias, f"b{layer}"))
            nodes.append(
                helper.make_node("Add", [current, f"b{layer}"], [f"add{layer}"], f"bias{layer}")
            )
            nodes.append(helper.make_node("Relu", [f"add{layer}"], [f"relu{layer}"], f"act{layer}"))
            current = f"relu{layer}"
    return _case(name, nodes, weights, {"x": (batch, sizes[0])}, current, (batch, sizes[-1]))


def matmul(m: int, n: int, k: int) -> Case:
    """One product with a constant right-hand side."""
    return mlp(f"{m}x{n}x{k}", m, (k, n), relu=False)


def attention(name: str, batch: int, sequence: int, hidden: int, heads: int) -> Case:
    """Q[B,A,S,d] x K[B,A,d,S] / sqrt(d) + mask[B,1,1,S], softmax, x V[B,A,S,d], transposed to [B,S,A,d]."""
    from onnx import helper, numpy_helper

    d = hidden // heads
    scale = numpy_helper.from_array(np.array([d**0.5], np.float32), "scale")
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["qk"], "qk"),
        helper.make_node("Div", ["qk", "scale"], ["scaled"], "scaled"),
        helper.make_node("Add", ["scaled", "mask"], ["masked"], "masked"),
        helper.make_node("Softmax", ["masked"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["pv"], "pv"),
        helper.make_node("Transpose", ["pv"], ["y"], "transpose", perm=[0, 2, 1, 3]),
    ]
    inputs = {
        "q": (batch, heads, sequence, d),
        "k": (batch, heads, d, sequence),
        "mask": (batch, 1, 1, sequence),
        "v": (batch, heads, sequence, d),
    }
    return _case(name, nodes, [scale], inputs, "y", (batch, sequence, heads, d))


def _case(
    name: str, nodes: Sequence[Any], weights: Sequence[Any], inputs: Mapping[str, tuple[int, ...]], result: str,
    shape: tuple[int, ...],
) -> Case:  # fmt: skip
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(i, TensorProto.FLOAT, s) for i, s in inputs.items()],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
        list(weights),
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    return Case(name, model.SerializeToString(), inputs)


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


def suite(name: str) -> list[Case]:
    """The cases of `gemm` (m x n x k), `mlp`, `mha` or `tiny`; KeyError for another name."""
    makers = {
        "gemm": lambda: [matmul(*sizes) for sizes in GEMMS],
        "mlp": lambda: [
            mlp(f"{label} b{batch}", batch, sizes)
            for label, sizes in (("MLP_1", MLP_1), ("MLP_2", MLP_2))
            for batch in BATCHES
        ],
        "mha": lambda: [
            attention(f"{label} b{batch}", batch, *sizes) for label, sizes in MHAS.items() for batch in (1, 8, 32)
        ],
        "tiny": lambda: [
            mlp("16x16", 16, (16, 16)), mlp("64x3 b1", 1, (64,) * 4), mlp("256x3 b1", 1, (256,) * 4),
        ],
    }  # fmt: skip
    return makers[name]()


SUITES = ("gemm", "mlp", "mha", "tiny")
