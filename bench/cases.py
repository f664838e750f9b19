"""One workload: an ONNX model with the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
IR_VERSION, OPSET = 9, 17  # what every engine of the last years reads


@dataclass(frozen=True)
class Case:
    """One row of a table: an ONNX model as bytes, and the shape of each input (f32)."""

    name: str
    model: bytes
    inputs: Mapping[str, tuple[int, ...]]

    def arrays(self) -> dict[str, Array]:
        """Inputs with a fixed seed."""
        rng = np.random.default_rng(1)
        return {
            name: rng.standard_normal(shape, dtype=np.float32)
            for name, shape in self.inputs.items()
        }


def case_of(
    name: str,
    nodes: Sequence[Any],
    weights: Sequence[Any],
    inputs: Mapping[str, tuple[int, ...]],
    result: str,
    shape: tuple[int, ...],
) -> Case:
    """The case of ONNX nodes and initialisers (f32) with one result of `shape`."""
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(i, TensorProto.FLOAT, s) for i, s in inputs.items()],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
        list(weights),
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    return Case(name, model.SerializeToString(), inputs)
