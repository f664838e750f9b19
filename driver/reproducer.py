"""A reproducer file for an internal error: the error a user sees fits one screen and names that file."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.errors import GraphcError, InternalError
from ..graph_ir.ir.graph import Graph
from ..graph_ir.text.printer import print_graph
from .request import CompileRequest
from .versions import reader_versions, versions

_NOTE = "reproducer: "
_MAX_BYTES = 1 << 20
"""Maximum bytes of constants that are written in full, so that the graph can be compiled again from the file."""


@contextmanager
def reproducible(request: CompileRequest) -> Iterator[None]:
    """Have internal errors inside the block leave a reproducer, in the dump folder or that of temporary files."""
    try:
        yield
    except Exception as error:
        if is_bug(error):
            add_reproducer(error, request)
        raise


def is_bug(error: Exception) -> bool:
    """Return whether an error is a bug of graphc, and not of the user, the system, or a warning made an error."""
    mine = isinstance(error, InternalError) or not isinstance(error, GraphcError)
    return mine and not isinstance(error, (MemoryError, OSError, Warning))


def add_reproducer(error: Exception, request: CompileRequest | None = None) -> None:
    """Write the reproducer of an error that has none yet, and note where."""
    if any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
        return
    folder = request.options.dump_dir if request else None
    text = _text(error, request)
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="graphc-bug-", suffix=".txt", dir=folder, delete=False,
            encoding="utf-8", errors="backslashreplace",
        ) as file:  # fmt: skip
            file.write(text)
    except OSError as refused:
        error.add_note(f"{_NOTE}none could be written ({refused.strerror or refused})")
    else:
        error.add_note(f"{_NOTE}{Path(file.name)}")


def _text(error: Exception, request: CompileRequest | None) -> str:
    sections = {
        "error": getattr(error, "whole", "") or f"{type(error).__name__}: {error}",
        "versions": "\n".join(
            f"{name} {version}" for name, version in {**versions(), **reader_versions()}.items()
        ),
        "traceback": "".join(traceback.format_exception(error)),
    }
    if request is not None:
        sections["target"] = repr(request.target)
        sections["options"] = repr(request.options)
        with suppress(Exception):  # the bug may be in the reader, or in the printer
            sections["graph"] = _graph_text(request.source)
    return "\n".join(f"== {name}\n{text.rstrip()}\n" for name, text in sections.items())


def _graph_text(graph: Graph) -> str:
    constants = [op.outputs[0].details for op in graph.ops if op.is_constant]
    return print_graph(graph, full=sum(x.size_bytes for x in constants) <= _MAX_BYTES)
