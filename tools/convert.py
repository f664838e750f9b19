"""Converts model files to other formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory

from ..base.dims import Symbol, UndecidedSize, symbols_of
from ..base.errors import UnsupportedError
from ..base.records import dataclass
from ..frontend import format_of, load
from ..frontend.formats import FORMATS, HLO_VIEWS, Format, hlo_view, register, write_text
from ..graph_ir.ir.graph import Array, Graph
from ..graph_ir.rewriting.known_sizes import with_sizes

OnStep = Callable[[str, int, int], None]

STATIC = ("tvm",)
"""Formats without dynamic dimensions."""


@dataclass(frozen=True)
class Conversion:
    """Files read and written; `arguments` are the options needed to read `files[0]` again."""

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
    on_step: OnStep | None = None,
) -> Conversion:
    """Read `model` as `frontend.load` does and write it to `output` in the format `target`, a key of `FORMATS`.

    Raise UserError for what is wrong with the model or cannot be written; UnsupportedError naming all ops that the
    model's reader or the target format does not support.
    """
    source = format_of(Path(model))
    if target in HLO_VIEWS and source == "hlo":  # the file's own computations, with any opcode
        from ..frontend.hlo import read_module

        write_text(output, hlo_view(target, *read_module(Path(model))))
        return Conversion(source, target, (output,), None)
    step = on_step or (lambda phase, done, total: None)
    step("read", 0, 1)
    graph = load(model, inputs, constants, attrs)
    step("read", 1, 1)
    step("write", 0, 1)
    try:
        if target in STATIC and _symbols(graph):
            raise UndecidedSize(f"sizes in {target} are numbers")
        files = FORMATS[target].write(graph, output)
    except UndecidedSize as error:
        _check_expressible(graph, target, output.name)
        raise UnsupportedError(_needs_numbers(graph, source, target)) from error
    step("write", 1, 1)
    options = FORMATS[target].options(graph, files)
    return Conversion(source, target, tuple(files), graph, options)


def _check_expressible(graph: Graph, target: str, name: str) -> None:
    """Raise UnsupportedError naming the ops that a format lacks, which numbers for dynamic dimensions do not change."""
    sized = with_sizes(graph, {symbol.name: symbol.typical for symbol in _symbols(graph)})
    with TemporaryDirectory() as folder:
        FORMATS[target].write(sized, Path(folder) / name)


def _symbols(graph: Graph) -> tuple[Symbol, ...]:
    return symbols_of(size for op in graph.inputs for size in op.outputs[0].details.plain_dims)


def _needs_numbers(graph: Graph, source: str, target: str) -> str:
    """Return the error that a format needs static sizes for the dynamic dimensions of a graph, with a remedy."""
    details = {op.name: op.outputs[0].details for op in graph.inputs}
    found = {name: one for name, one in details.items() if not one.is_known}
    inputs = ", ".join(f"'{name}' is {one}" for name, one in found.items())
    given = " ".join(f"--input {name}={one.typical}" for name, one in found.items())
    remedy = "write some into the file" if source == "graph" else f"give some, as in {given}"
    return f"{target} needs numbers for dynamic dimensions here: {inputs}; {remedy}"


def _write_svg(graph: Graph, output: Path) -> list[Path]:
    from .report.graph_picture import standalone_picture

    return write_text(output, standalone_picture(graph))


register(Format("svg", ".svg", "picture", "`.svg`", writer=_write_svg))
