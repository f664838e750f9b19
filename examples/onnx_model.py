"""Compile an ONNX model, compare it with ONNX's own reference, save it, and load it again."""

from pathlib import Path

import numpy as np
from onnx.reference import ReferenceEvaluator

import graphc

MODEL = Path(__file__).parent / "mlp.onnx"

model = graphc.compile(MODEL)
print("inputs ", *model.inputs)
print("outputs", *model.outputs)

x = np.random.default_rng(0).standard_normal((32, 13), dtype=np.float32)
y = model(x)
(expected,) = ReferenceEvaluator(str(MODEL)).run(None, {"x": x})
np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)

model.save("mlp.gcm")  # the artifact holds native code: loading compiles nothing
again = graphc.load("mlp.gcm")
assert np.array_equal(again(x), y)
print("the artifact gives the same bits; largest difference from the reference:", end=" ")
print(f"{np.abs(y - expected).max():.1e}")
