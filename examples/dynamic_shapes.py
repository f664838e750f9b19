"""Compile a model once and call it with any batch size and sequence length."""

import numpy as np
import onnx

import graphc

TEXT = """
<ir_version: 9, opset_import: ["": 18]>
pooled (float[batch, tokens, 32] x, float[batch, tokens, 1] mask) => (float[batch, 8] y)
{
    projected = MatMul (x, weight)
    kept = Mul (projected, mask)
    axes = Constant <value_ints = [1]> ()
    total = ReduceSum <keepdims = 0> (kept, axes)
    count = ReduceSum <keepdims = 0> (mask, axes)
    y = Div (total, count)
}
"""
rng = np.random.default_rng(0)
weight = rng.standard_normal((32, 8), dtype=np.float32)
source = onnx.parser.parse_model(TEXT)
source.graph.initializer.append(onnx.numpy_helper.from_array(weight, "weight"))

model = graphc.compile(source)
print(model.inputs)
for batch, tokens in ((1, 1), (1, 100), (7, 33), (64, 512)):
    x = rng.standard_normal((batch, tokens, 32), dtype=np.float32)
    mask = np.ones((batch, tokens, 1), np.float32)
    expected = (x @ weight).sum(axis=1) / tokens
    np.testing.assert_allclose(model(x, mask), expected, rtol=1e-3, atol=1e-5)
    print(f"batch {batch}, {tokens} tokens: right")

# A range bounds a dimension, and a number fixes it.
ranged = {"x": "f32[B=1..8,64,32]", "mask": "f32[B=1..8,64,1]"}
bounded = graphc.compile(source, inputs=ranged)
try:
    bounded(np.zeros((9, 64, 32), np.float32), np.ones((9, 64, 1), np.float32))
except graphc.UserError as error:
    print(error)
