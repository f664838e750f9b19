"""Every value of a model as computed by another engine, a few in memory at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..frontend.model_text import read_text
from .peers import unoptimized_results

Array = np.ndarray[Any, Any]
CHUNK = 16
"""Values fetched in the first run of an engine that cannot be stopped between nodes."""

MAX_BYTES = 256 << 20
"""Bytes of values that a run fetches, as far as those of the run before tell."""

ENGINES = ("ort", "openvino", "onnx-reference", "xla", "torch")
"""The first three take ONNX, xla takes HLO, torch takes PNNX."""

_PACKAGES = {"xla": "jax", "torch": "torch"}  # engines that the extra `bench` does not install
_ONNX_ONLY = (
    "ort, openvino and onnx-reference take ONNX models only; "
    "compare HLO against xla, PNNX against torch, and any model against numpy"
)


def engine_values(
    engine: str, model: str | bytes, inputs: Mapping[str, Array]
) -> Iterator[tuple[str, str, Array]]:
    """(value name, `op_type 'node'` that makes it, array) of every node's outputs, in the order of the file.

    Raise UserError for an engine that is not known or not installed, and for a model that is not of its format.
    """
    if engine not in ENGINES:
        raise UserError(f"engine '{engine}' is not known; known are numpy, {', '.join(ENGINES)}")
    try:
        if engine == "xla":
            from .xla_values import xla_values

            yield from xla_values(read_text(model, "model", "file of HLO")[0], inputs)
        elif engine == "torch":
            from .torch_values import torch_values

            yield from torch_values(Path(os.fsdecode(model)), inputs)
        elif engine == "onnx-reference":
            yield from _node_by_node(_read(model), inputs)
        else:
            run = {"ort": _run_ort, "openvino": _run_openvino}[engine]
            yield from _in_chunks(_read(model), inputs, run)
    except ImportError as error:
        package = _PACKAGES.get(engine, "'graphc[bench]'")
        raise UserError(
            f"engine '{engine}' is not installed ({error}); pip install {package}"
        ) from error


def _read(model: str | bytes) -> onnx.ModelProto:
    try:
        proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    except OSError as error:
        raise unreadable(os.fsdecode(model), error) from error
    except Exception as error:
        raise UserError(_ONNX_ONLY) from error
    if not proto.graph.node:
        raise UserError(_ONNX_ONLY)
    return proto


def _who(node: onnx.NodeProto) -> str:
    return f"{node.op_type} '{node.name or node.output[0]}'"


def _node_by_node(
    proto: onnx.ModelProto, inputs: Mapping[str, Array]
) -> Iterator[tuple[str, str, Array]]:
    """Models of one node each, so that a value is dropped after its last use."""
    from onnx.reference import ReferenceEvaluator

    values: dict[str, Array] = {
        **{x.name: onnx.numpy_helper.to_array(x) for x in proto.graph.initializer},
        **inputs,
    }
    last = {name: i for i, node in enumerate(proto.graph.node) for name in node.input}
    for number, node in enumerate(proto.graph.node):
        reads = [name for name in dict.fromkeys(node.input) if name]
        writes = [name for name in node.output if name]
        single = onnx.helper.make_graph([node], "node", _infos(reads), _infos(writes))
        alone = onnx.helper.make_model(
            single, opset_imports=proto.opset_import, functions=proto.functions
        )
        evaluator = ReferenceEvaluator(alone)
        # Values that a subgraph of the node reads are not among its inputs.
        feeds = {name: values[name] for name in reads} if not _nested(node) else dict(values)
        with np.errstate(all="ignore"):
            results = evaluator.run(None, feeds)
        for name, result in zip(writes, results, strict=True):
            values[name] = np.asarray(result)
            yield name, _who(node), values[name]
        for name in reads:
            if (
                last[name] <= number
                and name not in inputs
                and not any(map(_nested, proto.graph.node))
            ):
                values.pop(name, None)


def _nested(node: onnx.NodeProto) -> bool:
    return any(
        a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute
    )


def _infos(names: Sequence[str]) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names]


Run = Callable[[onnx.ModelProto, Mapping[str, Array], Sequence[str]], list[Array]]


def _in_chunks(
    proto: onnx.ModelProto, inputs: Mapping[str, Array], run: Run
) -> Iterator[tuple[str, str, Array]]:
    """Run the model several times, each time with other values of it as outputs: as many as fit into memory.

    Making a session takes most of the time, so a run asks for twice as many values as the one before if these
    were small.
    """
    who = {name: _who(node) for node in proto.graph.node for name in node.output if name}
    names, count = list(who), CHUNK
    while names:
        wanted, names = names[:count], names[count:]
        part = onnx.ModelProto()
        part.CopyFrom(proto)
        del part.graph.output[:]
        part.graph.output.extend(_infos(wanted))
        arrays = run(part, inputs, wanted)
        size = sum(array.nbytes for array in arrays)
        count = max(1, min(2 * count, count * MAX_BYTES // max(size, 1)))
        for name, array in zip(wanted, arrays, strict=True):
            yield name, who[name], array


def _run_ort(
    proto: onnx.ModelProto, inputs: Mapping[str, Array], wanted: Sequence[str]
) -> list[Array]:
    return unoptimized_results(proto.SerializeToString(), inputs, list(wanted))


def _run_openvino(
    proto: onnx.ModelProto, inputs: Mapping[str, Array], wanted: Sequence[str]
) -> list[Array]:
    import openvino as ov

    core = ov.Core()
    network = core.read_model(proto.SerializeToString(), b"")
    network.reshape({name: array.shape for name, array in inputs.items()})
    compiled = core.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    request.infer(dict(inputs))
    return [np.array(tensor.data) for tensor in request.output_tensors]
