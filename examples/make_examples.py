"""Make the example models anew: `python examples/make_examples.py [FOLDER]`. Same bytes on every run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from graphc.base.dtypes import F32
from graphc.frontend.pnnx import write_pnnx
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

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
    linear = graph.make("matmul_core", inputs, {"transpose_b": True}, "linear").outputs[0]
    y = graph.make("add", (linear, graph.make_constant(bias, "linear.bias"))).outputs[0]
    result = graph.make("sigmoid", (y,), name="F.sigmoid_0").outputs[0]
    graph.make_output(result, "pnnx_output_0")
    return graph


def make_mha() -> ModelProto:
    """Attention of 4 heads over 24 tokens of size 64, as exporters decompose it: one node per matmul."""
    rng = np.random.default_rng(0)
    batch, tokens, heads, size = 2, 24, 4, 16
    width = heads * size
    nodes: list[NodeProto] = []
    weights = [numpy_helper.from_array(np.array(size**0.5, np.float32), "scale")]
    weights.append(numpy_helper.from_array(np.array([0, 0, heads, size]), "split"))
    for name, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        weight = rng.standard_normal((width, width)).astype(np.float32) / np.float32(width**0.5)
        weights.append(numpy_helper.from_array(weight, f"{name}.weight"))
        nodes += [
            helper.make_node("MatMul", ["x", f"{name}.weight"], [f"{name}.flat"], name=name),
            helper.make_node("Reshape", [f"{name}.flat", "split"], [f"{name}.heads"]),
            helper.make_node("Transpose", [f"{name}.heads"], [f"{name}.out"], perm=order),
        ]
    nodes += [
        helper.make_node("MatMul", ["query.out", "key.out"], ["scores.out"], name="scores"),
        helper.make_node("Div", ["scores.out", "scale"], ["scaled.out"], name="scaled"),
        helper.make_node("Add", ["scaled.out", "mask"], ["masked.out"], name="masked"),
        helper.make_node("Softmax", ["masked.out"], ["weights.out"], name="weights", axis=-1),
        helper.make_node("MatMul", ["weights.out", "value.out"], ["mixed.out"], name="mixed"),
        helper.make_node("Transpose", ["mixed.out"], ["y"], name="merge", perm=[0, 2, 1, 3]),
    ]
    shapes = {"x": [batch, tokens, width], "mask": [batch, 1, 1, tokens]}
    graph = helper.make_graph(
        nodes,
        "mha",
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, tokens, heads, size])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


HLO = """\
HloModule block

%sum (left: f32[], right: f32[]) -> f32[] {
  %left = f32[] parameter(0)
  %right = f32[] parameter(1)
  ROOT %total = f32[] add(%left, %right)
}

%most (left.1: f32[], right.1: f32[]) -> f32[] {
  %left.1 = f32[] parameter(0)
  %right.1 = f32[] parameter(1)
  ROOT %greater = f32[] maximum(%left.1, %right.1)
}

ENTRY %main (x: f32[16,32], w1: f32[32,48], b1: f32[48], w2: f32[48,32]) -> (f32[16,32]) {
  %x = f32[16,32]{1,0} parameter(0)
  %w1 = f32[32,48]{1,0} parameter(1)
  %b1 = f32[48]{0} parameter(2)
  %w2 = f32[48,32]{1,0} parameter(3)
  %zero = f32[] constant(0)
  %lowest = f32[] constant(-inf)
  %count = f32[] constant(32)
  %counts = f32[16]{0} broadcast(%count), dimensions={}
  %sums = f32[16]{0} reduce(%x, %zero), dimensions={1}, to_apply=%sum
  %means = f32[16]{0} divide(%sums, %counts)
  %spread.means = f32[16,32]{1,0} broadcast(%means), dimensions={0}
  %centered = f32[16,32]{1,0} subtract(%x, %spread.means)
  %dot.1 = f32[16,48]{1,0} dot(%centered, %w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %spread.b1 = f32[16,48]{1,0} broadcast(%b1), dimensions={1}
  %biased = f32[16,48]{1,0} add(%dot.1, %spread.b1)
  %hidden = f32[16,48]{1,0} tanh(%biased)
  %dot.2 = f32[16,32]{1,0} dot(%hidden, %w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %residual = f32[16,32]{1,0} add(%dot.2, %x)
  %maxima = f32[16]{0} reduce(%residual, %lowest), dimensions={1}, to_apply=%most
  %spread.maxima = f32[16,32]{1,0} broadcast(%maxima), dimensions={0}
  %shifted = f32[16,32]{1,0} subtract(%residual, %spread.maxima)
  %powers = f32[16,32]{1,0} exponential(%shifted)
  %totals = f32[16]{0} reduce(%powers, %zero), dimensions={1}, to_apply=%sum
  %spread.totals = f32[16,32]{1,0} broadcast(%totals), dimensions={0}
  %y = f32[16,32]{1,0} divide(%powers, %spread.totals)
  ROOT %result = (f32[16,32]{1,0}) tuple(%y)
}
"""
"""Rows centered, two dense layers with tanh between and a residual around, softmax: text as XLA prints it."""


def make_examples(folder: Path) -> None:
    """Write every example model into `folder`."""
    (folder / "mha.onnx").write_bytes(make_mha().SerializeToString(deterministic=True))
    (folder / "block.hlo").write_text(HLO, encoding="utf-8")
    (folder / "mlp.onnx").write_bytes(make_mlp().SerializeToString(deterministic=True))
    write_pnnx(make_linear(), folder / "linear.pnnx.param")


if __name__ == "__main__":
    make_examples(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
