"""Small ONNX models for tests, and what other programs say they compute."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from graphc.frontend import load

Array = np.ndarray[Any, Any]
F32 = onnx.TensorProto.FLOAT
Dims = Sequence[int | str | None] | None


def node(op_type: str, inputs: str, outputs: str = "y", **attrs: Any) -> NodeProto:
    """`node("Add", "a b")`; `-` stands for an input or output that is left out."""
    reads, writes = (["" if n == "-" else n for n in names.split()] for names in (inputs, outputs))
    return helper.make_node(op_type, reads, writes, **attrs)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Dims] | None = None,
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    outputs: Sequence[str] = ("y",),
    dtypes: Mapping[str, int] | None = None,
    domains: Sequence[str] = (),
) -> ModelProto:
    """A model of f32 inputs (or of `dtypes`), not checked by onnx."""
    kinds = dtypes or {}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, kinds.get(n, F32), d) for n, d in (inputs or {}).items()],
        [helper.make_tensor_value_info(n, kinds.get(n, F32), None) for n in outputs],
        [numpy_helper.from_array(np.asarray(w), n) for n, w in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def evaluate(proto: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Import the model and run the references of its ops; inputs take the shapes of `feeds`."""
    graph = load(proto)
    return graph.evaluate([feeds[op.name] for op in graph.inputs])


def expected(proto: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Return the results of onnx's own evaluator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = ReferenceEvaluator(proto).run(None, dict(feeds))
    return [np.asarray(result) for result in results]
