"""Train a small classifier, quantize it to int8, and check its accuracy on data it has not seen.

Needs `pip install scikit-learn skl2onnx`.
"""

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import graphc
from graphc.tools.quantize import quantize_model

x, y = load_digits(return_X_y=True)  # 1,797 images of 8 x 8 pixels
train_x, test_x, train_y, test_y = train_test_split((x / 16).astype(np.float32), y, random_state=0)
network = MLPClassifier(
    (128, 64), learning_rate_init=0.005, tol=0.01, n_iter_no_change=3, random_state=0
)
network.fit(train_x, train_y)

options = {"zipmap": False}
with open("digits.onnx", "wb") as file:
    file.write(to_onnx(network, train_x[:1], options=options).SerializeToString())

# The ranges of activations are measured on 256 training images; the test images stay unseen.
done = quantize_model("digits.onnx", "digits.int8.onnx", {"X": train_x[:256]}, method="mse")
print(f"{len(done.nodes)} matmuls quantized")


def accuracy(path: str, **arguments: str) -> float:
    """The share of the test images that a compiled model labels correctly."""
    labels, _ = graphc.compile(path, **arguments)(test_x)
    return float(np.mean(labels == test_y))


f32, int8 = accuracy("digits.onnx"), accuracy("digits.int8.onnx")
print(
    f"accuracy: f32 {f32:.3f}, int8 {int8:.3f}, bf16 {accuracy('digits.onnx', precision='bf16'):.3f}"
)
assert f32 > 0.95, "the network must have learned something"
assert int8 > f32 - 0.01, "int8 may cost at most one percent point"
