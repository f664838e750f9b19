"""Writes a graph as PNNX files: the text of `X.param` and the archive `X.bin`."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from ...base.errors import UserError
from ...base.file_errors import unwritable
from ...base.whole_file import whole_file
from ...graph_ir.ir.graph import Array, Graph
from ...graph_ir.rewriting.written_out import written_out
from .contraction import absorb_parts
from .export import Exporter, absorb_literals
from .op_table import WRITERS
from .program import MAGIC, Operator

_COLUMN = 24  # the tool pads operator types and names to this width
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes for the same graph, whenever it is written


def write_pnnx(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write `path` (which must end in .param) and the weights in the .bin beside it.

    UnsupportedError lists what PNNX cannot express; nothing is then written. Raise UserError if files cannot be.
    """
    param = Path(path)
    if param.suffix != ".param":
        raise UserError(
            f"'{param}': the name of a PNNX model must end in .param, like linear.pnnx.param"
        )
    write_files(param, param.with_suffix(".bin"), *export_graph(graph))


def write_files(
    param: Path, bin: Path, operators: list[Operator], weights: dict[str, Array]
) -> None:
    """Write operators and the archive of their weights, by entry name. Raise UserError if the system refuses."""
    try:
        with whole_file(bin) as stream:
            _write_archive(stream, weights)
        with whole_file(param) as stream:
            stream.write(_text(operators).encode())
    except OSError as error:
        raise unwritable(param, error) from error


def export_graph(graph: Graph) -> tuple[list[Operator], dict[str, Array]]:
    """Operators and weights by entry name. UnsupportedError lists everything that PNNX cannot express."""
    graph = written_out(graph)
    exporter = Exporter(graph, WRITERS)
    absorb_parts(exporter)
    absorb_literals(exporter)
    exporter.write_ops(graph)
    exporter.finish()
    return exporter.operators, exporter.weights


def _write_archive(stream: IO[bytes], weights: dict[str, Array]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in weights.items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            info = zipfile.ZipInfo(name, _EPOCH)
            # Known in advance: no data descriptor, which the tool cannot read.
            info.file_size = little.nbytes
            with archive.open(info, "w") as entry:
                entry.write(little.reshape(-1).view(np.uint8).data)


def _text(operators: list[Operator]) -> str:
    operands = {operand for op in operators for operand in op.outputs}
    lines = [MAGIC, f"{len(operators)} {len(operands)}", *map(print_operator, operators)]
    return "\n".join(lines) + "\n"


def print_operator(op: Operator) -> str:
    """The line of an operator, in the tool's order and columns."""
    head = f"{op.type:<{_COLUMN}} {op.name:<{_COLUMN}} {len(op.inputs)} {len(op.outputs)}"
    return " ".join((head, *op.inputs, *op.outputs, *_pairs(op)))


def _pairs(op: Operator) -> Iterator[str]:
    yield from (f"{key}={value}" for key, value in sorted(op.params.items()))
    yield from (f"@{key}={value}" for key, value in sorted(op.attributes.items()))
    yield from (f"${key}={operand}" for key, operand in op.keys)
    yield from (f"#{operand}={tensor_type}" for operand, tensor_type in op.types.items())
