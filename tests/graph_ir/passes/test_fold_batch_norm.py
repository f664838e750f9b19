from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.fold_batch_norm import fold_batch_norm
from support.graphs import run_pass

POWERS = np.array([0.5, 2.0, -4.0], np.float32)
WHOLE = np.array([3.0, -1.0, 2.0], np.float32)


class Net:
    """convolution of x [2, 2, 5] by constant weights [3, 2, 2], and what is put behind it."""

    def __init__(self) -> None:
        self.graph = Graph("net")
        self.x = self.graph.make_input(LogicalTensor(F32, (2, 2, 5)), "x")
        self.weights = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
        self.y = self.make("convolution", self.x, self.constant(self.weights), before=(1,))

    def make(self, op_name, *inputs, **attrs):
        return self.graph.make(op_name, inputs, attrs).outputs[0]

    def constant(self, value):
        return self.graph.make_constant(np.asarray(value, np.float32), "c")

    def per_channel(self, value):
        return self.constant(np.reshape(value, (-1, 1)))

    def ops(self, result):
        """Names of the ops that compute, after the pass."""
        self.graph.make_output(result)
        run_pass(fold_batch_norm, self.graph, exact=False)
        return [op.op_name for op in self.graph.ops if op.kind not in ("source", "sink")]

    def weights_after(self):
        (conv,) = [op for op in self.graph.ops if op.op_name == "convolution"]
        return conv.inputs[1].producer_owner.attrs["value"]


def test_batch_norm():
    net = Net()
    mean, variance = WHOLE, np.array([3.0, 0.0, 15.0])
    statistics = [net.constant(v) for v in (POWERS, WHOLE, mean, variance)]
    result = net.make("batch_norm", net.y, *statistics, epsilon=1.0)
    assert net.ops(result) == ["convolution", "add"]
    factor = POWERS / np.sqrt(variance + 1)
    np.testing.assert_array_equal(net.weights_after(), net.weights * factor.reshape(-1, 1, 1))
    assert not run_pass(fold_batch_norm, net.graph)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_exporters_and_the_onnx_frontend_write(biased, swapped):
    net = Net()
    y = net.make("add", net.y, net.per_channel(WHOLE)) if biased else net.y
    pair = [y, net.per_channel(POWERS)]
    y = net.make("mul", *(pair[::-1] if swapped else pair))
    y = net.make("add", y, net.per_channel(WHOLE))
    assert net.ops(net.make("relu", y)) == ["convolution", "add", "relu"]
    np.testing.assert_array_equal(net.weights_after(), net.weights * POWERS.reshape(-1, 1, 1))


def test_two_offsets_become_one_and_weights_stay():
    net = Net()
    y = net.make("add", net.make("add", net.y, net.per_channel(WHOLE)), net.per_channel(POWERS))
    assert net.ops(y) == ["convolution", "add"]
    assert net.weights_after() is not None and (net.weights_after() == net.weights).all()


def test_a_factor_alone_leaves_no_add():
    net = Net()
    assert net.ops(net.make("mul", net.y, net.constant(2.0))) == ["convolution"]


def test_one_bias_is_left_alone():
    net = Net()
    net.graph.make_output(net.make("add", net.y, net.per_channel(WHOLE)))
    assert not run_pass(fold_batch_norm, net.graph)


@pytest.mark.parametrize(
    "what", ["another reader", "a factor per pixel", "an unknown factor", "an infinite factor"]
)
def test_stays(what):
    net = Net()
    factor = net.per_channel(POWERS)
    if what == "a factor per pixel":
        factor = net.constant(np.ones(5))
    elif what == "an unknown factor":
        factor = net.graph.make_input(LogicalTensor(F32, (3, 1)), "factor")
    elif what == "an infinite factor":
        factor = net.per_channel([1, np.inf, 1])
    net.graph.make_output(net.make("mul", net.y, factor))
    if what == "another reader":
        net.graph.make_output(net.y)
    assert not run_pass(fold_batch_norm, net.graph)
