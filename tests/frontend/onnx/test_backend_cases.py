"""The node tests of the onnx package: its own models and expected results, for every op that is imported."""

from __future__ import annotations

import warnings
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.onnx.inline import type_of
from graphc.frontend.onnx.op_table import HANDLERS
from graphc.frontend.onnx.tensors import to_array
from graphc.graph_ir.ir.graph import Graph

SEVERAL = "several nodes"  # functions, written out by the onnx package
OF_TEXTS = ("ai.onnx.ml::LabelEncoder",)  # ops all cases of which have texts

SOURCES = (
    "Range",
    "ConstantOfShape",
    "Loop",
    "NonZero",
    "Unique",
    "NonMaxSuppression",
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    "MelWeightMatrix",
)

# What a refusal may say of a case whose ops are all in the table; nothing else may be refused.
REFUSALS = (
    "element type STRING",
    "training mode",
    "depends on the model's inputs",
    "a padding value",
    "opsets 7 to",
    "a constant of kind value_string",
    "the batched form of opset 8",
)


def is_of_lists(case: Any) -> bool:
    """Return whether inputs or outputs are sequences or optional values."""
    infos = (*case.model.graph.input, *case.model.graph.output)
    return any(info.type.WhichOneof("value") != "tensor_type" for info in infos)


@cache
def cases() -> dict[str, list[Any]]:
    """Cases by op type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found: list[Any] = collect_testcases(None)
    by_op = defaultdict(list)
    for case in found:
        for opset in case.model.opset_import:  # those of unchanged ops, such as Not, say 1
            opset.version = max(opset.version, 7) if not opset.domain else opset.version
        if is_of_lists(case):  # see test_sequences
            continue
        nodes = case.model.graph.node
        by_op[type_of(nodes[0]) if len(nodes) == 1 else SEVERAL].append(case)
    return by_op


def array(value: Any) -> Any:
    """An input or output of a case; a proto where NumPy lacks the type."""
    return to_array(value, "case", None) if isinstance(value, onnx.TensorProto) else value


def import_case(case: Any, feeds: dict[str, Any]) -> Graph:
    """Import the model; parameters that must be known, such as shapes, become initializers and leave `feeds`."""
    try:
        return load(case.model)
    except UnsupportedError as error:
        if "depends on the model's inputs" not in str(error):
            raise
    # Sources such as Range need all of their inputs; the others have their data first.
    (node, *others) = case.model.graph.node
    kept = 0 if node.op_type in SOURCES and not others else 1
    frozen = onnx.ModelProto()
    frozen.CopyFrom(case.model)
    for name in list(feeds)[kept:]:
        frozen.graph.initializer.append(numpy_helper.from_array(np.asarray(feeds.pop(name)), name))
    return load(frozen)


def refusal(case: Any) -> str:
    """Return the reason why the case is not imported, "" if it is; fail if its result is wrong."""
    ((inputs, outputs),) = case.data_sets
    names = [info.name for info in case.model.graph.input]
    try:
        feeds = {name: array(value) for name, value in zip(names, inputs, strict=True)}
        graph = import_case(case, feeds)
    except UnsupportedError as error:
        return str(error)
    results = graph.evaluate([feeds[op.name] for op in graph.inputs])
    for result, output in zip(results, outputs, strict=True):
        wanted = np.asarray(array(output))
        assert result.shape == wanted.shape and result.dtype == wanted.dtype, case.name
        # The package computes 16-bit floats step by step in 16 bits; the references round once.
        rough = 1e-2 if result.dtype.itemsize == 2 else 0
        if (
            case.model.graph.node[0].op_type == "DFT"
        ):  # its results are rounded sums, even where they cancel
            rough = float(np.finfo(np.float32).eps * np.abs(wanted).max())
        np.testing.assert_allclose(
            result.astype(np.float64),
            wanted.astype(np.float64),
            rtol=max(case.rtol, rough),
            atol=max(case.atol, rough),
            err_msg=case.name,
        )
    return ""


@cache
def refusals(op_type: str) -> list[str]:
    """Return the reason why each case of an op is not imported; imported ones have the right result."""
    return [refusal(case) for case in cases()[op_type]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_type", [*sorted(HANDLERS), SEVERAL])
def test_cases_of(op_type: str) -> None:
    found = refusals(op_type)
    assert "" in found or not found or op_type in OF_TEXTS
    if op_type != SEVERAL:
        for case, why in zip(cases()[op_type], found, strict=True):
            assert not why or any(reason in why for reason in REFUSALS), case.name


def test_standard_functions_are_imported_by_their_bodies() -> None:
    for op_type in ("MeanVarianceNormalization", "GroupNormalization", "SwiGLU"):
        assert cases()[op_type] and not any(refusals(op_type)), op_type


def test_max_of_the_package_s_cases_are_imported() -> None:
    # Stands against a change that turns cases into refusals without anyone noticing.
    assert sum(refusals(op_type).count("") for op_type in cases()) >= 1500
