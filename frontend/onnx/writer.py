"""Writes a graph as an ONNX model: nodes of the default domain, weights as initializers, large ones in an
external file."""

from __future__ import annotations

import os
from pathlib import Path

from onnx import ModelProto, TensorProto, helper

from ...base.file_errors import unwritable
from ...base.printable import encodable
from ...base.whole_file import whole_file
from ...graph_ir.ir.graph import Array, Graph
from ...graph_ir.rewriting.written_out import with_names, written_out
from .export import Exporter, value_info
from .export_quantize import has_node
from .op_table import WRITERS
from .tensors import DTYPES, stored

MAX_BYTES_INSIDE = 1 << 30
"""Limit of weights stored in the model file; protobuf cannot read messages of 2 GiB."""

_DTYPES = {dtype.numpy: number for number, dtype in DTYPES.items()}


def to_onnx(graph: Graph) -> ModelProto:
    """The equivalent model, of opset `export.OPSET` or the lowest later one that has all its ops.

    Attributes are float32 in ONNX, so an epsilon or a slope may lose digits; NumPy's expm1 and log1p become exp(x) - 1
    and log(x + 1). UnsupportedError lists everything that ONNX cannot express.
    """
    graph = with_names(written_out(graph, has_node), encodable)
    exporter = Exporter(graph, WRITERS)
    exporter.write_ops(graph)
    exporter.finish()
    results = exporter.results()
    weights = [_tensor(name, array) for name, array in exporter.initializers.items()]
    inputs = [value_info(op.name, op.outputs[0].details) for op in graph.inputs]
    name, between = encodable(graph.name) or "graph", exporter.between()
    proto = helper.make_graph(exporter.nodes, name, inputs, results, weights, value_info=between)
    opsets = [helper.make_opsetid("", exporter.opset)]
    others = [helper.make_opsetid(domain, 1) for domain in sorted(exporter.domains)]
    return helper.make_model(
        proto,
        opset_imports=[*opsets, *others],
        ir_version=helper.find_min_ir_version_for(opsets),
        producer_name="graphc",
    )


def write_onnx(graph: Graph, path: str | os.PathLike[str]) -> list[Path]:
    """Write the model to `path`, and more than `MAX_BYTES_INSIDE` of weights to PATH.data; returns the files.

    Errors as `to_onnx`; raise UserError if the files cannot be written.
    """
    model, target = to_onnx(graph), Path(path)
    files = [target]
    try:
        if sum(len(t.raw_data) for t in model.graph.initializer) > MAX_BYTES_INSIDE:
            files.append(target.with_name(f"{target.name}.data"))
            _move_weights(model, files[1])
        with whole_file(target) as stream:
            stream.write(model.SerializeToString(deterministic=True))
    except OSError as error:
        raise unwritable(target, error) from error
    return files


def _tensor(name: str, array: Array) -> TensorProto:
    return TensorProto(
        name=name,
        data_type=_DTYPES[array.dtype.newbyteorder("=")],
        dims=array.shape,
        raw_data=stored(array),
    )


def _move_weights(model: ModelProto, path: Path) -> None:
    """Write the data of all initializers consecutively to an external file."""
    with whole_file(path) as stream:
        for tensor in model.graph.initializer:
            location = {
                "location": path.name,
                "offset": str(stream.tell()),
                "length": str(len(tensor.raw_data)),
            }
            stream.write(tensor.raw_data)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in location.items():
                tensor.external_data.add(key=key, value=value)
