"""Converts model files to other formats: the table of output formats and their writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import UserError
from ..base.whole_file import whole_file
from ..frontend import format_of, load
from ..graph_ir.ir.graph import Array, Graph


@dataclass(frozen=True)
class Target:
    """An output format: its file suffix, a description, and the function that writes the files and returns their
    paths."""

    suffix: str
    meaning: str
    write: Callable[[Graph, Path], list[Path]]


@dataclass(frozen=True)
class Conversion:
    """What was read and written; `arguments` are the options needed to read `files[0]` again."""

    source: str
    target: str
    files: tuple[Path, ...]
    graph: Graph | None
    arguments: tuple[str, ...] = field(default=())


def convert(
    model: str | Path,
    target: str,
    output: Path,
    inputs: Mapping[str, str] | None = None,
    constants: Mapping[str, Array] | None = None,
    attrs: Mapping[str, str] | None = None,
) -> Conversion:
    """Read `model` as `frontend.load` does and write it to `output` in the format `target`, a key of `TARGETS`.

    UserError for what is wrong with the model or cannot be written; UnsupportedError naming all ops that the model's
    reader or the target format does not support.
    """
    source = format_of(Path(model))
    if target == "dfg" and source == "hlo":  # the file's own computations, with any opcode
        from ..frontend.model_text import read_text

        _write_text(output, _dfg_text(*read_text(Path(model), "model", "file of HLO")))
        return Conversion(source, target, (output,), None)
    graph = load(model, inputs, constants, attrs)
    files = TARGETS[target].write(graph, output)
    return Conversion(source, target, tuple(files), graph, _arguments(target, graph, files))


def target_of(name: str) -> str:
    """The key of `TARGETS` for a file name, a suffix or a format name. UserError if there is none."""
    found = [key for key, t in TARGETS.items() if name == key or f".{name}".endswith(t.suffix)]
    if not found:
        known = ", ".join(f"{key} ({target.suffix})" for key, target in TARGETS.items())
        raise UserError(f"'{name}' is not an output format; known are {known}")
    return max(found, key=lambda key: (name == key, len(TARGETS[key].suffix)))


def _arguments(target: str, graph: Graph, files: list[Path]) -> tuple[str, ...]:
    """A GE dump holds neither the types of its inputs nor exact constants: both must be given to read it."""
    if target != "ge":
        return ()
    from ..frontend.ge import written_names

    names = written_names(graph).inputs
    inputs = [("--input", f"{op.name}={op.outputs[0].details}") for op in names]
    constants = [("--const", f"@{file}") for file in files[1:]]
    return tuple(word for pair in (*inputs, *constants) for word in pair)


def _write_onnx(graph: Graph, output: Path) -> list[Path]:
    from ..frontend.onnx import write_onnx

    return write_onnx(graph, output)


def _write_pnnx(graph: Graph, output: Path) -> list[Path]:
    from ..frontend.pnnx import write_pnnx

    write_pnnx(graph, output)
    return [output, output.with_suffix(".bin")]


def _write_hlo(graph: Graph, output: Path) -> list[Path]:
    from ..frontend.hlo import write_hlo

    return _write_text(output, write_hlo(graph))


def _write_ge(graph: Graph, output: Path) -> list[Path]:
    from ..frontend.ge import dump_constants, write_ge

    beside = output.with_name(
        f"{output.name}.params"
    )  # not the name that a TVM graph's parameters would have
    return _write_text(output, write_ge(graph), beside, dump_constants(graph))


def _write_tvm(graph: Graph, output: Path) -> list[Path]:
    from ..frontend.tvm.writer import write_tvm

    text, params = write_tvm(graph)
    return _write_text(output, text, output.with_suffix(".params"), params)


def _write_dfg(graph: Graph, output: Path) -> list[Path]:
    from ..frontend.hlo import write_hlo

    return _write_text(output, _dfg_text(write_hlo(graph), graph.name))


def _write_dot(graph: Graph, output: Path) -> list[Path]:
    from ..frontend.dot import write_dot

    return _write_text(output, write_dot(graph))


def _write_svg(graph: Graph, output: Path) -> list[Path]:
    from .report.graph_picture import standalone_picture

    return _write_text(output, standalone_picture(graph))


def _write_graph(graph: Graph, output: Path) -> list[Path]:
    from ..graph_ir.text.printer import print_graph

    return _write_text(output, print_graph(graph, full=True))


def _dfg_text(hlo: str, label: str) -> str:
    from ..frontend.hlo import parse_hlo, to_dfg

    return json.dumps(to_dfg(parse_hlo(hlo, label)), indent=1) + "\n"


def _write_text(
    output: Path,
    text: str,
    beside: Path | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> list[Path]:
    """A text file, and its arrays, if there are any, in the `.params` file `beside`."""
    from ..frontend.tvm.params import write_params

    files = [output]
    try:
        if beside is not None and arrays:
            files.append(beside)
            write_params(beside, arrays)
        with whole_file(output) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise UserError(f"'{output}' cannot be written: {error.strerror or error}") from error
    return files


TARGETS: dict[str, Target] = {
    "onnx": Target(".onnx", "ONNX", _write_onnx),
    "hlo": Target(".hlo", "XLA HLO text", _write_hlo),
    "pnnx": Target(".param", "PNNX, with its weights in a .bin file", _write_pnnx),
    "tvm": Target(".json", "TVM graph JSON, with its weights in a .params file", _write_tvm),
    "ge": Target(".txt", "GE readable dump, with its constants in a .params file", _write_ge),
    "dfg": Target(".dfg.json", "data-flow graph of the HLO, as JSON", _write_dfg),
    "graph": Target(".graph", "graphc's own text", _write_graph),
    "dot": Target(".dot", "Graphviz", _write_dot),
    "svg": Target(".svg", "a picture", _write_svg),
}
"""The output formats, by name."""
