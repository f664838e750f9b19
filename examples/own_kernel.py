"""Define an op of your own and write its kernel."""

import numpy as np

import graphc
from graphc.base.dtypes import F32
from graphc.tensor_ir import builder as t

# An elementwise op. Its formula is enough: graphc fuses it with its neighbors and checks it against the reference.
graphc.ops.define(
    "tanhshrink",
    "x - tanh(x).",
    accepts=("float",),
    element=lambda x: x - t.call("tanh", x),
    reference=lambda x: x - np.tanh(x),
)


# A kernel that writes its loops itself, for softmax over rows: one pass without looking for the maximum.
@graphc.kernel("softmax", when=lambda op, target: op.x.details.rank == 2 and op.axis == 1)
def softmax_of_small_values(b, op, x, y):
    """The exponentials and their sum, then one division per row; valid for |x| < 80."""
    rows, columns = x.shape
    with b.loop("i", 0, rows, "parallel") as i:
        total = b.allocate("total", F32, (1,))
        b.store(total, (0,), 0.0)
        with b.loop("j", 0, columns, "vector") as j:
            value = b.let("value", t.call("exp", x[i, j]))
            b.store(y, (i, j), value)
            b.store(total, (0,), total[0] + value)
        scale = b.let("scale", 1.0 / total[0])
        with b.loop("j", 0, columns, "vector") as j:
            b.store(y, (i, j), y[i, j] * scale)


graph = graphc.Graph("demo")
x = graph.make_input(graphc.ops.LogicalTensor(F32, (64, 100)), "x")
shrunk = graph.make("tanhshrink", [x], name="shrunk").outputs[0]
graph.make_output(graph.make("softmax", [shrunk], {"axis": 1}, "rows").outputs[0], "y")

model = graphc.compile(graph)
for call in model.stats["calls"]:
    print(call["kernel"], "computes", call["note"])

value = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
expected = np.exp(value - np.tanh(value))
expected /= expected.sum(axis=1, keepdims=True)
np.testing.assert_allclose(model(value), expected, rtol=1e-5, atol=1e-7)
assert any("softmax_of_small_values" in call["note"] for call in model.stats["calls"])
