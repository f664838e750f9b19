"""A convolutional network built layer by layer: ONNX nodes, random weights of a fixed seed, and shapes.

Values are names; every method adds a node and returns the name of its result. Weights are scaled by the number of terms
they are summed over, so that activations keep their magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.records import dataclass
from ..cases import Array, Case, model_bytes

CLASSES = 1000
MIN_CHANNELS = 8
RESIDUAL_GAIN = 0.3


@dataclass(frozen=True)
class ConvLayer:
    """The geometry of one convolution; layers of equal geometry are the same work."""

    channels: int
    height: int
    width: int
    outputs: int
    kernel: int
    stride: int
    groups: int

    def __str__(self) -> str:
        kind = " dw" if self.groups == self.channels else f" g{self.groups}"
        suffix = "" if self.groups == 1 else kind
        sizes = f"{self.channels}x{self.height}x{self.width}"
        return f"{sizes} to {self.outputs} k{self.kernel} s{self.stride}{suffix}"


class Net:
    """A network under construction: input images of `channels` and size `image` x `image`, batch 1.

    `result` is the value the network returns, `others` what it returns beside, `given` what inputs are to be if not
    normal numbers. `width` scales the channels returned by `wide`: tests use small networks.
    """

    def __init__(
        self, name: str, image: int | tuple[int, int], width: float = 1.0, channels: int = 3
    ) -> None:
        sizes = (image, image) if isinstance(image, int) else image
        self.name = name
        self.layers: list[ConvLayer] = []
        self.result = "x"
        self.others: list[str] = []
        self._width = width
        self._rng = np.random.default_rng(0)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._inputs: dict[str, tuple[int, ...]] = {"x": (1, channels, *sizes)}
        self._types: dict[str, int] = {}
        self.given: dict[str, Array] = {}
        self._shapes = dict(self._inputs)

    @classmethod
    def of_rows(cls, name: str, *shape: int) -> Net:
        """A network whose input is any array: the tokens of a sequence."""
        return cls.of_inputs(name, x=shape)

    @classmethod
    def of_inputs(cls, name: str, **shapes: tuple[int, ...]) -> Net:
        """A network of several f32 inputs."""
        net = cls(name, 1)
        net._shapes, net._inputs = dict(shapes), dict(shapes)
        return net

    @classmethod
    def of_integers(cls, name: str, **shapes: tuple[int, ...]) -> Net:
        """A network of s64 inputs: the ids of tokens and what says which of them count."""
        from onnx import TensorProto

        net = cls.of_inputs(name, **shapes)
        net._types = dict.fromkeys(shapes, TensorProto.INT64)
        return net

    def add_input(self, name: str, shape: tuple[int, ...]) -> None:
        """One more input, of f32."""
        self._shapes[name] = self._inputs[name] = shape

    def case(self) -> Case:
        """The finished model."""
        from onnx import TensorProto, helper

        inputs = [
            helper.make_tensor_value_info(name, self._types.get(name, TensorProto.FLOAT), shape)
            for name, shape in self._inputs.items()
        ]
        outputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape(name))
            for name in (self.result, *self.others)
        ]
        model = model_bytes(self.name, self._nodes, inputs, outputs, self._weights)
        return Case(self.name, model, self._inputs, self.given)

    def shape(self, x: str) -> tuple[int, ...]:
        """The shape of a value."""
        return self._shapes[x]

    def wide(self, channels: int) -> int:
        """A number of channels under this network's width: a multiple of 8."""
        if self._width == 1:
            return channels
        return max(MIN_CHANNELS, int(channels * self._width) // 8 * 8)

    def node(self, op_type: str, inputs: Sequence[str], shape: Sequence[int], **attrs: Any) -> str:
        """A node with one result of `shape`."""
        return self.nodes(op_type, inputs, [shape], **attrs)[0]

    def nodes(
        self, op_type: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]], **attrs: Any
    ) -> list[str]:
        """A node with a result of each shape."""
        from onnx import helper

        name = f"{op_type.lower()}{len(self._nodes)}"
        results = [name] if len(shapes) == 1 else [f"{name}_{i}" for i in range(len(shapes))]
        self._nodes.append(helper.make_node(op_type, list(inputs), results, name, **attrs))
        self._shapes.update((r, tuple(s)) for r, s in zip(results, shapes, strict=True))
        return results

    def constant(self, value: Array) -> str:
        """An initializer."""
        from onnx import numpy_helper

        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(value, name))
        self._shapes[name] = value.shape
        return name

    def random(self, *shape: int, scale: float = 0.1, offset: float = 0.0) -> str:
        """An initializer of normal values around `offset`."""
        values = self._rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
        return self.constant(values + np.float32(offset))

    def conv(
        self, x: str, outputs: int, kernel: int = 1, stride: int = 1, pad: int | None = None,
        groups: int = 1, bias: bool = True,
    ) -> str:  # fmt: skip
        """A convolution; padded so that stride 1 keeps the size, unless `pad` is given."""
        _, channels, height, width = self.shape(x)
        pad = kernel // 2 if pad is None else pad
        terms = channels // groups * kernel * kernel
        inputs = [x, self.random(outputs, channels // groups, kernel, kernel, scale=terms**-0.5)]
        if bias:
            inputs.append(self.random(outputs))
        self.layers.append(ConvLayer(channels, height, width, outputs, kernel, stride, groups))
        sizes = (window_positions(size, kernel, stride, 2 * pad) for size in (height, width))
        shape = (1, outputs, *sizes)
        geometry = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("Conv", inputs, shape, group=groups, **geometry)

    def norm(self, x: str, gain: float = 1.4) -> str:
        """Batch normalization as exported, not folded; `gain` compensates for a ReLU.

        A residual branch needs a small gain, or the sums would grow with depth.
        """
        channels = self.shape(x)[1]
        moments = [self.random(channels, offset=offset) for offset in (gain, 0, 0)]
        variance = self.constant(self._rng.uniform(0.8, 1.2, channels).astype(np.float32))
        return self.node("BatchNormalization", [x, *moments, variance], self.shape(x))

    def act(self, x: str, op_type: str, **attrs: Any) -> str:
        """An activation: the same shape."""
        return self.node(op_type, [x], self.shape(x), **attrs)

    def relu(self, x: str) -> str:
        """max(x, 0)."""
        return self.act(x, "Relu")

    def relu6(self, x: str) -> str:
        """min(max(x, 0), 6)."""
        bounds = [self.constant(np.array(bound, np.float32)) for bound in (0, 6)]
        return self.node("Clip", [x, *bounds], self.shape(x))

    def conv_norm_relu(
        self, x: str, outputs: int, kernel: int = 1, stride: int = 1, pad: int | None = None
    ) -> str:
        """Convolution without bias, batch normalization, ReLU."""
        return self.relu(self.norm(self.conv(x, outputs, kernel, stride, pad, bias=False)))

    def pool(
        self, x: str, op_type: str, kernel: int, stride: int, pads: tuple[int, int] = (0, 0),
        **attrs: Any,
    ) -> str:  # fmt: skip
        """MaxPool or AveragePool; `pads` before and after each axis."""
        batch, channels, *sizes = self.shape(x)
        spatial = (window_positions(size, kernel, stride, sum(pads)) for size in sizes)
        shape = (batch, channels, *spatial)
        geometry = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
        edges = [pads[0], pads[0], pads[1], pads[1]]
        return self.node(op_type, [x], shape, pads=edges, **geometry, **attrs)

    def global_pool(self, x: str) -> str:
        """The mean of each channel."""
        return self.node("GlobalAveragePool", [x], (*self.shape(x)[:2], 1, 1))

    def pair(self, op_type: str, a: str, b: str) -> str:
        """Add, Mul and the like; the result has the shape of `a`."""
        return self.node(op_type, [a, b], self.shape(a))

    def concat(self, parts: Sequence[str], axis: int = 1) -> str:
        """The parts concatenated."""
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.node("Concat", parts, shape, axis=axis)

    def reshape(self, x: str, shape: Sequence[int], keep: int = 0) -> str:
        """The same elements under another shape, whose first `keep` sizes are those of x, whatever they are."""
        text = [0] * keep + list(shape[keep:])
        return self.node("Reshape", [x, self.constant(np.array(text, np.int64))], shape)

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """The axes in another order."""
        return self.node("Transpose", [x], [self.shape(x)[axis] for axis in perm], perm=list(perm))

    def dense(self, x: str, outputs: int) -> str:
        """A fully connected layer on the flattened x."""
        terms = math.prod(self.shape(x)[1:])
        flat = self.node("Flatten", [x], (1, terms), axis=1)
        weight = self.random(outputs, terms, scale=terms**-0.5)
        inputs = [flat, weight, self.random(outputs)]
        return self.node("Gemm", inputs, (1, outputs), transB=1)

    def linear(self, x: str, outputs: int) -> str:
        """Add a matmul along the last axis and a bias."""
        *rows, terms = self.shape(x)
        weight = self.random(terms, outputs, scale=terms**-0.5)
        return self.pair("Add", self.matmul(x, weight, outputs), self.random(outputs))

    def matmul(self, a: str, b: str, columns: int) -> str:
        """MatMul with `columns` columns of results."""
        return self.node("MatMul", [a, b], (*self.shape(a)[:-1], columns))

    def layer_norm(self, x: str) -> str:
        """LayerNormalization along the last axis."""
        size = self.shape(x)[-1]
        moments = [self.random(size, offset=1.0), self.random(size)]
        return self.node("LayerNormalization", [x, *moments], self.shape(x), axis=-1)

    def gelu(self, x: str) -> str:
        """x (1 + erf(x / sqrt 2)) / 2, node by node as exporters write it."""
        root, one, half = (self.constant(np.array(v, np.float32)) for v in (2**0.5, 1.0, 0.5))
        curve = self.pair("Add", self.act(self.pair("Div", x, root), "Erf"), one)
        return self.pair("Mul", self.pair("Mul", x, curve), half)

    def classify(self, x: str) -> str:
        """Global average, a fully connected layer and softmax."""
        return self.act(self.dense(self.global_pool(x), CLASSES), "Softmax", axis=1)


def one_layer(layer: ConvLayer) -> Net:
    """A network of one convolution with bias and ReLU."""
    net = Net(str(layer), (layer.height, layer.width), channels=layer.channels)
    geometry = (layer.outputs, layer.kernel, layer.stride)
    net.result = net.relu(net.conv("x", *geometry, groups=layer.groups))
    return net


def window_positions(size: int, kernel: int, stride: int, padding: int) -> int:
    """Number of window positions along an axis."""
    return (size + padding - kernel) // stride + 1
