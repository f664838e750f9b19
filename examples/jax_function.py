"""Compile a JAX function, and the gradient of a loss.

Needs `pip install jax`.
"""

import jax
import jax.numpy as jnp
import numpy as np

import graphc


def predict(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """A network with one hidden layer."""
    hidden = jax.nn.gelu(x @ weights["w1"] + weights["b1"])
    return jax.nn.log_softmax(hidden @ weights["w2"])


def loss(weights: dict[str, jax.Array], x: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean negative log-likelihood of the labels."""
    return -predict(weights, x)[jnp.arange(len(labels)), labels].mean()


rng = np.random.default_rng(0)
weights = {
    "w1": rng.standard_normal((8, 32), np.float32) / 3,
    "b1": np.zeros(32, np.float32),
    "w2": rng.standard_normal((32, 4), np.float32) / 6,
}
x = rng.standard_normal((64, 8), np.float32)
labels = x[:, :4].argmax(axis=1).astype(np.int32)

step = graphc.jax.jit(jax.value_and_grad(loss))  # instead of jax.jit
value, gradients = step(weights, x, labels)
expected, expected_gradients = jax.jit(jax.value_and_grad(loss))(weights, x, labels)
np.testing.assert_allclose(value, expected, rtol=1e-5)
for name, gradient in gradients.items():
    np.testing.assert_allclose(gradient, expected_gradients[name], rtol=1e-3, atol=1e-6)

for _ in range(200):  # gradient descent
    value, gradients = step(weights, x, labels)
    weights = {name: weight - 0.5 * gradients[name] for name, weight in weights.items()}
print(f"loss {float(expected):.2f} before and {float(value):.2f} after 200 steps")
assert value < 0.5 * expected
