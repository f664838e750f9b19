"""Writes QuantizeLinear and DequantizeLinear around the matmuls and convolutions of an ONNX model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ..base.errors import UserError
from ..base.records import dataclass
from ..graph_ir.ir.graph import Array

MIN_OPSET = 13
"""Before, a scale per channel cannot be written."""

STEPS = 127
"""Integers of weights on either side of zero."""

LARGEST_BIAS = 1 << 30
"""Maximum bias in steps of both scales multiplied: the remaining range of s32 holds the accumulators."""

Scale = tuple[float, int]
"""Scale and zero point of u8."""


@dataclass(frozen=True)
class Site:
    """A node that is quantized: its activation, its constant weights with the axis of outputs, its constant bias."""

    node: str
    activation: str
    weight: str
    axis: int
    bias: str


def quantizable(model: ModelProto) -> list[Site]:
    """Return the matmuls and convolutions with constant f32 weights, in order. Raise UserError if the opset is too
    old."""
    opset = next((x.version for x in model.opset_import if x.domain in ("", "ai.onnx")), 0)
    if opset < MIN_OPSET:
        raise UserError(
            f"quantize: the model must be of opset {MIN_OPSET} or later, got {opset}; "
            "onnx.version_converter raises it"
        )
    constants = _constants(model)
    sites = [_site(node, constants) for node in model.graph.node]
    return [site for site in sites if site is not None]


def _constants(model: ModelProto) -> dict[str, TensorProto]:
    """Constant f32 tensors with elements: initializers, values of Constant nodes, and what Identity calls them."""
    found = {x.name: x for x in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
        elif node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
    return {
        name: x for name, x in found.items() if x.data_type == TensorProto.FLOAT and np.prod(x.dims)
    }


def _site(node: NodeProto, constants: Mapping[str, TensorProto]) -> Site | None:
    names = [*node.input, "", "", ""]
    activation, weight, bias = names[:3]
    if weight not in constants or activation in constants or node.domain not in ("", "ai.onnx"):
        return None
    transposed = any(x.name == "transB" and x.i for x in node.attribute)
    axes = {"Conv": 0, "Gemm": 0 if transposed else 1, "MatMul": 1}
    rank = len(constants[weight].dims)
    if node.op_type not in axes or (node.op_type == "MatMul" and rank != 2):
        return None
    if not _is_finite(constants[weight]):
        return None
    scaled = any(x.name in ("alpha", "beta") and x.f != 1.0 for x in node.attribute)
    known = constants.get(bias) if node.op_type != "MatMul" and not scaled else None
    has_bias = known is not None and len(known.dims) == 1 and _is_finite(known)
    return Site(node.output[0], activation, weight, axes[node.op_type], bias if has_bias else "")


def _is_finite(constant: TensorProto) -> bool:
    return bool(np.all(np.isfinite(numpy_helper.to_array(constant))))


def insert_quantization(
    model: ModelProto, sites: Sequence[Site], scales: Mapping[str, Scale]
) -> ModelProto:
    """A copy whose sites read dequantized integers: activations as u8 by `scales`, weights as s8 with a scale per
    output, biases as s32."""
    made = ModelProto()
    made.CopyFrom(model)
    writer = _Writer(made, scales)
    by_output = {site.node: site for site in sites}
    nodes = list(made.graph.node)
    del made.graph.node[:]
    for node in nodes:
        site = by_output.get(node.output[0]) if node.output else None
        if site is not None:
            node.input[0] = writer.activation(site.activation)
            node.input[1] = writer.weights(site)
            if site.bias:
                node.input[2] = writer.bias(site)
        made.graph.node.append(node)
    _drop_unread(made)
    return made


class _Writer:
    """Appends nodes and initializers to a model; each tensor is quantized once."""

    def __init__(self, model: ModelProto, scales: Mapping[str, Scale]) -> None:
        self.graph = model.graph
        self.scales = scales
        self.constants = _constants(model)
        self.taken = {x.name for x in model.graph.initializer} | {
            name for node in model.graph.node for name in (node.name, *node.input, *node.output)
        }
        self.made: dict[tuple[object, ...], str] = {}
        self.weight_scales: dict[str, Array] = {}

    def activation(self, name: str) -> str:
        """The tensor as u8 and back."""
        key = (name,)
        if key not in self.made:
            scale, zero = self.scales[name]
            operands = [
                self._constant(f"{name}_scale", np.float32(scale)),
                self._constant(f"{name}_zero_point", np.uint8(zero)),
            ]
            whole = self._node("QuantizeLinear", [name, *operands], f"{name}_quantized")
            self.made[key] = self._node(
                "DequantizeLinear", [whole, *operands], f"{name}_dequantized"
            )
        return self.made[key]

    def weights(self, site: Site) -> str:
        """The weights as s8 and back, with a scale per output."""
        value = numpy_helper.to_array(self.constants[site.weight])
        scale = self._weight_scale(site, value)
        self.weight_scales[site.node] = scale
        key = (site.weight, site.axis, scale.tobytes())
        if key not in self.made:
            others = tuple(i for i in range(value.ndim) if i != site.axis)
            whole = np.rint(value / np.expand_dims(scale, others))
            operands = [
                self._constant(
                    f"{site.weight}_quantized", np.clip(whole, -STEPS, STEPS).astype(np.int8)
                ),
                self._constant(f"{site.weight}_scale", scale),
                self._constant(f"{site.weight}_zero_point", np.zeros(scale.size, np.int8)),
            ]
            name = f"{site.weight}_dequantized"
            self.made[key] = self._node("DequantizeLinear", operands, name, axis=site.axis)
        return self.made[key]

    def _weight_scale(self, site: Site, value: Array) -> Array:
        """One per output: of the largest weight, or wider where the bias would not fit; 1 for zeros."""
        others = tuple(i for i in range(value.ndim) if i != site.axis)
        scale = np.max(np.abs(value), axis=others) / np.float64(STEPS)
        if site.bias:
            bias = np.abs(numpy_helper.to_array(self.constants[site.bias]).astype(np.float64))
            scale = np.maximum(scale, bias / (self.scales[site.activation][0] * LARGEST_BIAS))
        narrow = scale.astype(np.float32)
        return np.where(narrow > 0, narrow, np.float32(1))

    def bias(self, site: Site) -> str:
        """Add the bias as s32 in steps of both scales multiplied, and its dequantization."""
        scale = np.float32(self.scales[site.activation][0]) * self.weight_scales[site.node]
        value = numpy_helper.to_array(self.constants[site.bias]).astype(np.float64)
        whole = np.rint(np.divide(value, scale, out=np.zeros(scale.shape), where=scale > 0))
        operands = [
            self._constant(f"{site.bias}_quantized", whole.astype(np.int32)),
            self._constant(f"{site.bias}_scale", scale.astype(np.float32)),
        ]
        return self._node("DequantizeLinear", operands, f"{site.bias}_dequantized", axis=0)

    def _constant(self, name: str, value: Array | np.generic) -> str:
        name = self._fresh(name)
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _node(self, op_type: str, operands: Sequence[str], name: str, **attrs: Any) -> str:
        name = self._fresh(name)
        self.graph.node.append(helper.make_node(op_type, operands, [name], name=name, **attrs))
        return name

    def _fresh(self, name: str) -> str:
        number, wanted = 0, name
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name


def _drop_unread(model: ModelProto) -> None:
    """Remove f32 weights that nothing reads any more, as initializers and as nodes."""
    graph = model.graph
    read = _read(x for x in graph.node if x.op_type != "Identity") | {x.name for x in graph.output}
    nodes: list[NodeProto] = []
    for node in reversed(graph.node):
        if node.op_type not in ("Constant", "Identity") or read & set(node.output):
            nodes.append(node)
            read |= set(node.input)
    weights = [x for x in graph.initializer if x.name in read]
    gone = {x.name for x in graph.initializer} - {x.name for x in weights}
    inputs = [x for x in graph.input if x.name not in gone]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(reversed(nodes))
    graph.initializer.extend(weights)
    graph.input.extend(inputs)


def _read(nodes: Iterable[NodeProto]) -> set[str]:
    """The names that nodes read, or their subgraphs."""
    found: set[str] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        found |= set(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= {x.name for x in inner.output}
                pending += inner.node
    return found
