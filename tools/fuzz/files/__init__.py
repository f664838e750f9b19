"""Random ONNX models of what no graph holds, as reading expands it: functions, and attributes of tree ensembles."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from onnx import ModelProto

from ....graph_ir.ir.graph import Array
from .functions import random_functions
from .trees import random_trees

KINDS: dict[str, Callable[[random.Random], ModelProto]] = {
    "functions": random_functions,
    "trees": random_trees,
}
"""Builders of models with one f32 input of two axes, `x`."""


def random_file(seed: str) -> tuple[bytes, list[Array]]:
    """Return an ONNX model and its input: the same for a seed in every process."""
    source = random.Random(f"file {seed}")
    model = KINDS[source.choice(list(KINDS))](source)
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(source.getrandbits(32)).integers(-8, 9, dims).astype(np.float32) / 2
    return model.SerializeToString(), [x]
