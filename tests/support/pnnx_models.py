"""Small PNNX models from a few words: a `.param` text with its `.bin`, loaded and run."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from graphc.frontend import load
from graphc.frontend.pnnx.program import SUFFIX_DTYPES
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.verifier import verify
from support.files import write_anew

_SUFFIXES = {dtype.numpy: suffix for suffix, dtype in SUFFIX_DTYPES.items()}


def annotation(array: Array) -> str:
    """`(2,3)f32` for an array."""
    return f"({','.join(map(str, array.shape))}){_SUFFIXES[array.dtype]}"


def write_model(
    folder: Path, lines: Sequence[str], weights: Mapping[str, Array] | None = None
) -> Path:
    """Write `m.pnnx.param` of operator lines and `m.pnnx.bin` of weights by entry name; the former's path."""
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        for name, array in (weights or {}).items():
            writer.writestr(name, array.tobytes())
    write_anew(folder / "m.pnnx.bin", archive.getvalue())
    text = "\n".join(("7767517", f"{len(lines)} {len(lines)}", *lines, ""))
    return write_anew(folder / "m.pnnx.param", text)


def operator_lines(
    line: str, inputs: Sequence[Array], weights: Mapping[str, Array] | None = None, outputs: int = 1
) -> list[str]:
    """A model of one operator: `type key=value ...` with its inputs, weights and outputs filled in.

    Its inputs are operands a, b, c, ...; `@key` in the line declares a weight, `$key` names the next input.
    """
    type_name, *words = line.split()
    operands = [chr(ord("a") + i) for i in range(len(inputs))]
    attributes = [f"@{key}={annotation(array)}" for key, array in (weights or {}).items()]
    results = [f"y{i}" for i in range(outputs)]
    heads = [
        f"pnnx.Input in_{x} 0 1 {x} #{x}={annotation(array)}"
        for x, array in zip(operands, inputs, strict=True)
    ]
    body = f"{type_name} op {len(operands)} {outputs} {' '.join([*operands, *results, *words, *attributes])}"
    return [*heads, body, *(f"pnnx.Output out_{y} 1 0 {y}" for y in results)]


def load_operator(
    folder: Path,
    line: str,
    inputs: Sequence[Array],
    weights: Mapping[str, Array] | None = None,
    outputs: int = 1,
) -> Graph:
    """The graph of a model of one operator; see `operator_lines`."""
    entries = {f"op.{key}": array for key, array in (weights or {}).items()}
    graph = load(write_model(folder, operator_lines(line, inputs, weights, outputs), entries))
    verify(graph)
    return graph


def run_operator(
    folder: Path,
    line: str,
    inputs: Sequence[Array],
    weights: Mapping[str, Array] | None = None,
    outputs: int = 1,
) -> list[Array]:
    """Return the results of the references of the graph; see `operator_lines`."""
    graph = load_operator(folder, line, inputs, weights, outputs)
    with np.errstate(all="ignore"):
        return graph.evaluate(list(inputs))
