"""One workload of a model of dynamic sizes: the model, its calls, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.records import dataclass
from ..frontend.shape_spec import parse_inputs
from .cases import Array, Case
from .operands import Operand


@dataclass(frozen=True)
class Call:
    """One call: its sizes as text, `b3 s117`, and its inputs."""

    label: str
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class DynamicCase:
    """A model with dynamic dimensions and the sizes it is called with: a row of a table each, and one of all in turn.

    `inputs`: specs for dynamic shapes of the file. `options`: those of `graphc.compile` beside.
    """

    name: str
    model: bytes | Path
    calls: Sequence[Call]
    inputs: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def onnx(self) -> bytes:
        """The model for other engines. Raise UserError if they cannot read it."""
        return Case(self.name, self.model, {}).onnx()


def suite_case(
    name: str, model: bytes, inputs: Mapping[str, Operand], draws: Sequence[Mapping[str, int]]
) -> DynamicCase:
    """A case of a suite: a model whose inputs get the types of `inputs`, called with the sizes of each draw."""
    dynamic = dynamic_model(model, {key: str(one) for key, one in inputs.items()})
    calls = [Call(sizes_text(sizes), arrays_of(inputs, sizes)) for sizes in draws]
    return DynamicCase(name, dynamic, calls)


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`b3 s117`."""
    return " ".join(f"{name.lower()}{size}" for name, size in sizes.items())


def arrays_of(inputs: Mapping[str, Operand], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Return values for these sizes with a fixed seed."""
    rng = np.random.default_rng(1)
    return {name: operand.values(sizes, rng) for name, operand in inputs.items()}


def dynamic_model(model: bytes, inputs: Mapping[str, str]) -> bytes:
    """An ONNX model of some shapes as one of dynamic dimensions: inputs of the types `f32[B,13]`, results of any shape.

    Its nodes must not depend on the sizes that become dynamic.
    """
    from onnx import ModelProto

    model_proto = ModelProto()
    model_proto.ParseFromString(model)
    specs = parse_inputs(inputs)
    for value in model_proto.graph.input:
        shape = value.type.tensor_type.shape
        for dim, size in zip(shape.dim, specs[value.name].dims, strict=True):
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = str(size)
    for value in model_proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    return bytes(model_proto.SerializeToString())


def draws(
    seed: int, count: int, most: Mapping[str, int], max_elements: int | None = None
) -> Iterator[dict[str, int]]:
    """`count` sizes from 1 to `most` of each name, small ones as often as large ones: logarithms are uniform.

    Sets of sizes with more than `max_elements` elements are drawn again, because such calls take seconds.
    """
    rng = np.random.default_rng(seed)
    while count:
        sizes = {name: int(np.exp(rng.uniform(0, np.log(n + 1)))) for name, n in most.items()}
        if max_elements is None or np.prod(list(sizes.values())) <= max_elements:
            count -= 1
            yield sizes
