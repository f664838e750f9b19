"""The formats of model files: a `Format` each, registered here and nowhere else.

What reads and writes a format is imported when a file of it is met. Commands, messages and
docs/reference/formats.md list what is registered; user code adds a format with `register`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ..base.errors import GraphcError, UnsupportedError, UserError
from ..base.file_errors import unreadable, unwritable
from ..base.records import dataclass
from ..base.symbols import Limits
from ..base.whole_file import write_file
from ..graph_ir.ir.graph import Array, Graph
from .model_text import is_stablehlo
from .other_formats import check_read
from .shape_spec import InputSpecs, check_inputs

HEAD_BYTES = 1 << 16
"""Bytes at the beginning of a file by which formats are told apart."""

_BYTE_ORDER_MARK = rb"\A(?:\xef\xbb\xbf)?"
# The file, or a Markdown fence.
_GE_BEGIN = re.compile(rb'(?:\A(?:\xef\xbb\xbf)?|\n(?:```|~~~)[^\n]*\n)\s*graph\("')
_HLO_BEGIN = re.compile(
    _BYTE_ORDER_MARK + rb"(?:\s++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+\n)*+HloModule\b"
)
_JSON_BEGIN = re.compile(_BYTE_ORDER_MARK + rb"(?:\s++|(?:#|//)[^\n]*+\n)*+\{")
_ZIP_MAGIC = b"PK\x03\x04"
_GGUF_MAGIC = b"GGUF"
_PNNX_MAGIC = b"7767517"  # the first line of a .param file


@dataclass(frozen=True)
class Reading:
    """Information for a reader besides the file: shapes that are dynamic in it, arrays and attributes that it omits.

    `limits`: what some op of the model needs of dynamic sizes, by name. `opened`: what a reader keeps of the file for
    the next attempt with other limits.
    """

    inputs: InputSpecs = field(default_factory=dict)
    constants: Mapping[str, Any] | None = None
    attrs: Mapping[str, str] | None = None
    limits: Limits = field(default_factory=dict)
    opened: list[Any] = field(default_factory=list)


Detect = Callable[[str, bytes], bool]
"""Function that returns whether a file of this suffix, "" for bytes in memory, with these first bytes is of
the format."""

Read = Callable[[Any, Reading], Graph]
"""The graph of a path or of the bytes of a file. UserError, UnsupportedError."""

Write = Callable[[Graph, Path], list[Path]]
"""Writes a graph to a file, maybe with others beside it, and returns the paths of all. UserError, UnsupportedError."""


def _never(suffix: str, head: bytes) -> bool:
    return False


def _no_options(graph: Graph, files: list[Path]) -> tuple[str, ...]:
    return ()


_LOCATION = re.compile(r"'?(?:(?: line |:)(\d+))?(?:(?: column |:)(\d+))?: ", re.ASCII)


def _file_last(sentence: str, source: Any) -> str:
    """A sentence of a reader, who says which file and line it is about first, with what is wrong first."""
    start = sentence.removeprefix("'")
    if not isinstance(source, Path) or not start.startswith(str(source)):
        return sentence
    found = _LOCATION.match(start, len(str(source)))
    if found is None:
        return sentence
    line, column = found.groups()
    location = f", line {line}" * bool(line) + f", column {column}" * bool(column)
    return f"{start[found.end() :]} (in '{source}'{location})"


@dataclass(frozen=True)
class Format:
    """A format: `name` for `--to`, its `suffix`, how it is recognized, read and written.

    `title`, `files` and `omits` are its row in docs/reference/formats.md. `takes`: the parts of a `Reading` besides
    `inputs` that its files may need. `options`: those needed to read what was written.
    """

    name: str
    suffix: str
    title: str
    files: str
    omits: str = ""
    detect: Detect = _never
    reader: Read | None = None
    writer: Write | None = None
    takes: tuple[str, ...] = ()
    options: Callable[[Graph, list[Path]], tuple[str, ...]] = _no_options

    def read(self, source: Any, how: Reading) -> Graph:
        """The graph of a path, of the bytes of a file or of an object in memory. May raise UserError or
        UnsupportedError."""
        if self.reader is None:
            raise UserError(
                f"format '{self.name}' is only written, it cannot be read; give what it was written from"
            )
        try:
            return self.reader(source, how)
        except GraphcError as error:
            error.said(_file_last(str(error), source))
            raise

    def write(self, graph: Graph, output: Path) -> list[Path]:
        """Write a graph; the paths of all files. May raise UserError or UnsupportedError."""
        if self.writer is None:
            raise UserError(
                f"format '{self.name}' is only read, it cannot be written; choose another with --to"
            )
        if graph.checks and self.name not in ("graph", "dot"):
            raise UnsupportedError(
                f"format '{self.name}' has no checks of values, and graph '{graph.name}' needs one "
                f"({graph.checks[0]}); fix the input's value (--constant)"
            )
        return self.writer(graph, output)


def register(one: Format) -> None:
    """Add a format; files are tried for it before those that are there. Raise UserError if its name or suffix is
    taken."""
    for other in FORMATS.values():
        if one.name == other.name or one.suffix == other.suffix:
            raise UserError(
                f"format '{one.name}' ({one.suffix}): the names and suffixes of formats must differ, "
                f"got those of '{other.name}' ({other.suffix})"
            )
    FORMATS[one.name] = one


def detect(suffix: str, head: bytes, who: str = "the model") -> Format:
    """The format of a file by its suffix and its first bytes; ONNX, whose beginning tells nothing, if no other.

    UnsupportedError, `who` in front, for a format that is known not to be read.
    """
    found = next((f for f in reversed(FORMATS.values()) if f.detect(suffix, head)), None)
    if found is None:
        check_read(head, who)
    return found or FORMATS["onnx"]


def output_format(name: str) -> Format:
    """The format that can be written for a file name, a suffix or a format's name. Raise UserError if there is none."""
    known = [f for f in FORMATS.values() if f.writer is not None]
    found = [f for f in known if name == f.name or f".{name}".endswith(f.suffix)]
    if not found:
        listed = ", ".join(f"{f.name} ({f.suffix})" for f in known)
        raise UserError(f"'{name}' is not an output format; known are {listed}")
    return max(found, key=lambda f: (name == f.name, len(f.suffix)))


def write_text(
    output: Path, text: str, beside: Path | None = None, arrays: Mapping[str, Array] | None = None
) -> list[Path]:
    """A text file, and its arrays, if there are any, in the `.params` file `beside`; the paths. May raise UserError."""
    from .tvm.params import write_params

    files = [output]
    try:
        if beside is not None and arrays:
            files.append(beside)
            write_params(beside, arrays)
    except OSError as error:
        raise unwritable(output, error) from error
    write_file(output, text)
    return files


def _read_onnx(source: Any, how: Reading) -> Graph:
    from .onnx import load_onnx

    return load_onnx(source, how.inputs, how.constants, how.limits)


def _write_onnx(graph: Graph, output: Path) -> list[Path]:
    from .onnx import write_onnx

    return write_onnx(graph, output)


def _read_hlo(source: Any, how: Reading) -> Graph:
    from .hlo import load_hlo

    return load_hlo(source, how.inputs, how.constants, how.limits)


def _write_hlo(graph: Graph, output: Path) -> list[Path]:
    from .hlo import write_hlo

    return write_text(output, write_hlo(graph))


def _read_pnnx(source: Any, how: Reading) -> Graph:
    from .pnnx import Others, load_pnnx
    from .torch.aten_call import has_operator, read_call

    if not isinstance(source, Path):
        raise UserError(
            "a PNNX model must be given as the path of its .param file: its weights are in another"
        )
    return load_pnnx(source, how.inputs, how.limits, Others(has_operator, read_call))


def _write_pnnx(graph: Graph, output: Path) -> list[Path]:
    from .pnnx import write_pnnx

    write_pnnx(graph, output)
    return [output, output.with_suffix(".bin")]


def _read_tvm(source: Any, how: Reading) -> Graph:
    from .tvm.importer import load_tvm

    return load_tvm(source, how.inputs, how.constants, how.attrs, how.limits)


def _write_tvm(graph: Graph, output: Path) -> list[Path]:
    from .tvm.writer import write_tvm

    text, params = write_tvm(graph)
    return write_text(output, text, output.with_suffix(".params"), params)


def _read_ge(source: Any, how: Reading) -> Graph:
    from .ge import load_ge

    return load_ge(source, how.inputs, how.constants)


def _write_ge(graph: Graph, output: Path) -> list[Path]:
    from .ge import dump_constants, write_ge

    # Not the name that the parameters of a TVM graph would have.
    beside = output.with_name(f"{output.name}.params")
    return write_text(output, write_ge(graph), beside, dump_constants(graph))


def _ge_options(graph: Graph, files: list[Path]) -> tuple[str, ...]:
    """A dump holds neither the types of its inputs nor exact constants: both must be given to read it."""
    from .ge import written_names

    names = written_names(graph).inputs
    inputs = [("--input", f"{op.name}={op.outputs[0].details}") for op in names]
    constants = [("--constant", f"@{file}") for file in files[1:]]
    return tuple(word for pair in (*inputs, *constants) for word in pair)


def _read_torch(source: Any, how: Reading) -> Graph:
    from .torch.importer import load_exported
    from .torch.program import decomposed, open_program

    how.opened[:] = how.opened or [decomposed(open_program(source))]
    return load_exported(how.opened[0], how.inputs, how.limits)


def _read_gguf(source: Any, how: Reading) -> Graph:
    from .gguf.importer import load_gguf

    if not isinstance(source, Path):
        raise UserError("a GGUF model must be given as the path of its file, which stays mapped")
    return load_gguf(source, how.inputs)


def _read_graph(source: Any, how: Reading) -> Graph:
    from ..graph_ir.text.parser import parse_graph

    try:
        graph = parse_graph(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(source, error) from error
    check_inputs(graph, how.inputs)
    return graph


def _write_graph(graph: Graph, output: Path) -> list[Path]:
    from ..graph_ir.text.printer import print_graph

    return write_text(output, print_graph(graph, full=True))


def _is_hlo(suffix: str, head: bytes) -> bool:
    """HLO text, StableHLO, or an HLO proto, whose first field is a message or text."""
    is_proto = suffix == ".pb" and head[:1] == b"\n"
    return suffix == ".hlo" or bool(_HLO_BEGIN.match(head)) or is_stablehlo(head) or is_proto


HLO_VIEWS = ("dfg", "ast")
"""Formats that show an HLO text, whether or not the compiler supports it."""


def hlo_view(view: str, hlo: str, label: str) -> str:
    """The data-flow graph or the syntax tree of an HLO text, or of a fragment of one, as JSON."""
    from .hlo import parse_hlo, to_ast, to_dfg

    shown = {"dfg": to_dfg, "ast": to_ast}[view](parse_hlo(hlo, label, fragment=True))
    return json.dumps(shown, indent=1) + "\n"


def _view_writer(view: str) -> Callable[[Graph, Path], list[Path]]:
    def write(graph: Graph, output: Path) -> list[Path]:
        from .hlo import write_hlo

        return write_text(output, hlo_view(view, write_hlo(graph), graph.name))

    return write


def _write_dot(graph: Graph, output: Path) -> list[Path]:
    from ..graph_ir.inspect.dot import write_dot

    return write_text(output, write_dot(graph))


_BUILT_IN = (
    Format(
        "onnx", ".onnx", "ONNX, opsets 6 and up", "`.onnx`, maybe with data beside it",
        "symbolic sizes: `--input x=f32[8,13]`; inputs that decide shapes: `--constant`",
        reader=_read_onnx, writer=_write_onnx, takes=("constants",),
    ),
    Format(
        "tvm", ".json", "TVM graph JSON", "`.json` and `.params`, NNVM symbols too",
        "attributes of fused kernels: `--attr node.strides=2`",
        lambda suffix, head: bool(_JSON_BEGIN.match(head)), _read_tvm, _write_tvm,
        ("attrs",),
    ),
    Format(
        "hlo", ".hlo", "XLA HLO text", "`.hlo`, or any file that begins like one; StableHLO, jax.export, `.pb`",
        "elided constants: `--constant w=@w.npy`",
        _is_hlo,
        _read_hlo, _write_hlo, ("constants",),
    ),
    Format(
        "ge", ".txt", "GE readable dump", "`.txt`, also in a Markdown fence",
        "types of inputs: `--input`; elided constants: `--constant`",
        lambda suffix, head: bool(_GE_BEGIN.search(head)), _read_ge, _write_ge,
        ("constants",), _ge_options,
    ),
    Format(
        "pnnx", ".param", "PNNX", "`.param` and `.bin`", "types of inputs without annotation: `--input`",
        lambda suffix, head: suffix == ".param" or head.lstrip().startswith(_PNNX_MAGIC),
        _read_pnnx, _write_pnnx,
    ),
    Format(
        "torch", ".pt2", "PyTorch's exported programs", "`.pt2`, or a `torch.export.ExportedProgram`",
        "dynamic sizes: kept, or set by `--input`",
        lambda suffix, head: suffix == ".pt2" or head.startswith(_ZIP_MAGIC), _read_torch,
    ),
    Format(
        "gguf", ".gguf", "GGUF, the decoders of language models", "`.gguf`, or the first of a split model",
        "the largest numbers of tokens: `--input past_key_0=f32[1,8,P=0..4095,128]`",
        lambda suffix, head: head.startswith(_GGUF_MAGIC), _read_gguf,
    ),
    Format(
        "graph", ".graph", "graphc's own text", "`.graph`", "nothing",
        lambda suffix, head: suffix == ".graph", _read_graph, _write_graph,
    ),
    Format(
        "dfg", ".dfg.json", "data-flow graph of the HLO", "`.dfg.json`: `nodes` and `edges`",
        writer=_view_writer("dfg"),
    ),
    Format(
        "ast", ".ast.json", "syntax tree of the HLO", "`.ast.json`: functions and instructions",
        writer=_view_writer("ast"),
    ),
    Format("dot", ".dot", "picture for Graphviz", "`.dot`", writer=_write_dot),
)  # fmt: skip

FORMATS: dict[str, Format] = {one.name: one for one in _BUILT_IN}
"""Formats by name; a file is of the last one that recognizes it."""
