"""Make the example models anew: `python examples/make_examples.py [FOLDER]`. Same bytes on every run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from graphc.dtypes import F32
from graphc.frontend.pnnx import write_pnnx
from graphc.graph_ir import ops  # noqa: F401 - fills the registry
from graphc.graph_ir.graph import Graph
from graphc.graph_ir.logical_tensor import LogicalTensor

BATCH = 32
MLP_SIZES = (13, 512, 256, 128)  # 13 features in, 128 out


def make_mlp() -> ModelProto:
    """Fully connected layers with ReLU after each, as PyTorch exports them: weights [out, in], Gemm with transB."""
    rng = np.random.default_rng(0)
    nodes: list[NodeProto] = []
    weights: list[TensorProto] = []
    value = "x"
    for layer, (fan_in, fan_out) in enumerate(zip(MLP_SIZES, MLP_SIZES[1:], strict=False), 1):
        bound = 1 / np.sqrt(fan_in)
        for name, shape in (
            (f"fc{layer}.weight", (fan_out, fan_in)),
            (f"fc{layer}.bias", (fan_out,)),
        ):
            data = rng.uniform(-bound, bound, shape).astype(np.float32)
            weights.append(numpy_helper.from_array(data, name))
        gemm = [value, f"fc{layer}.weight", f"fc{layer}.bias"]
        nodes.append(
            helper.make_node("Gemm", gemm, [f"fc{layer}.out"], name=f"fc{layer}", transB=1)
        )
        value = "y" if fan_out == MLP_SIZES[-1] else f"relu{layer}.out"
        nodes.append(helper.make_node("Relu", [f"fc{layer}.out"], [value], name=f"relu{layer}"))
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, MLP_SIZES[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, MLP_SIZES[-1]])],
        weights,
    )
    # Versions are pinned so that another onnx package writes the same file.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def make_linear() -> Graph:
    """nn.Linear(32, 128) and F.sigmoid on a batch of 4."""
    rng = np.random.default_rng(0)
    fan_in, fan_out = 32, 128
    bound = fan_in**-0.5
    weight = rng.uniform(-bound, bound, (fan_out, fan_in)).astype(np.float32)
    bias = rng.uniform(-bound, bound, fan_out).astype(np.float32)
    graph = Graph("linear")
    x = graph.make_input(LogicalTensor(F32, (4, fan_in)), "pnnx_input_0")
    inputs = (x, graph.make_constant(weight, "linear.weight"))
    product = graph.make("matmul_core", inputs, {"transpose_b": True}, "linear").outputs[0]
    y = graph.make("add", (product, graph.make_constant(bias, "linear.bias"))).outputs[0]
    result = graph.make("sigmoid", (y,), name="F.sigmoid_0").outputs[0]
    graph.make_output(result, "pnnx_output_0")
    return graph


def make_examples(folder: Path) -> None:
    """Write every example model into `folder`."""
    (folder / "mlp.onnx").write_bytes(make_mlp().SerializeToString(deterministic=True))
    write_pnnx(make_linear(), folder / "linear.pnnx.param")


if __name__ == "__main__":
    make_examples(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
