"""The keys of the compile cache: everything the output depends on, and nothing else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from mmap import ACCESS_READ, mmap
from pathlib import Path

from ..base.errors import UserError
from ..base.file_status import file_status, is_settled
from ..extension.trusted import ROOMS
from ..frontend import format_of
from ..frontend.formats import HEAD_BYTES, detect
from ..graph_ir.schedule.context import LowerContext
from ..runtime.abi import ABI_VERSION
from ..runtime.container import FORMAT_VERSION
from ..targets.isa import Target
from ..tensor_ir.fingerprint import fingerprint
from ..tensor_ir.instructions import instructions_in
from ..tensor_ir.nodes import Function
from .request import CompileRequest
from .versions import reader_versions, versions

FILE_LIMIT = 1 << 31
"""Bytes of a model file above which its contents are not looked at twice; protobuf ends there too."""

NOT_IN_KEY = ("dump_dir", "verify", "max_memory")
"""Options that affect what is written or checked on the way, but not the output."""


def cache_key(request: CompileRequest, code: str = "") -> str:
    """SHA-256 of a graph as read, its names, the options, target and schedules, the compiler itself, and what user code
    adds to it: the key `code` of that."""
    source = request.source
    results = (op.attr("temp.result") for op in source.outputs)
    names = (source.name, *(op.name for op in source.ops), *results)
    return _digest("graph", *_circumstances(request.context), code, *names, request.contents)


def file_key(request: CompileRequest, code: str = "", limit: int = FILE_LIMIT) -> str | None:
    """Return a cache key from the bytes of a model (or of the ONNX file at a path) and the shapes fixed in it.

    None where those bytes do not determine the model: other formats, models with constants or attributes from
    elsewhere, and models with tensors in other files, which `_ELSEWHERE` tells. Raises no UserError: the frontend
    reports files that cannot be read.
    """
    if request.constants or request.attrs:
        return None
    contents = _hash_of_model(request.model, limit)
    # None before `reader_versions`, which a graph would pay for without need
    return None if contents is None else _file_digest(request, code, contents)


def status_key(request: CompileRequest, code: str = "") -> str | None:
    """Return a cache key from the status of a model's file instead of its bytes, for files that have a `file_key`.

    None for other models, and for a file that was changed just now.
    """
    model = request.model
    if request.constants or request.attrs or not isinstance(model, (str, os.PathLike)):
        return None
    try:
        if format_of(Path(model)) not in _ELSEWHERE or not is_settled(model):
            return None
        return _file_digest(request, code, f"status {file_status(model)}")
    except (OSError, UserError):
        return None


def _file_digest(request: CompileRequest, code: str, contents: str) -> str:
    specs = repr((sorted(request.inputs.items()), request.alias))
    readers = repr(sorted(reader_versions().items()))
    return _digest("file", *_circumstances(request.context), readers, code, specs, contents)


_ELSEWHERE = {"onnx": (b"location", FILE_LIMIT), "gguf": (b"split.count", 1 << 26)}
"""Format -> bytes that its files contain where some tensors are in other files, within a number of bytes: in GGUF files
the metadata come first, and take a few megabytes."""


def _hash_of_model(model: object, limit: int) -> str | None:
    """SHA-256 of a model that its bytes alone tell; None for all others."""
    if isinstance(model, bytes):
        is_whole = (
            detect("", model[:HEAD_BYTES]).name == "onnx" and _ELSEWHERE["onnx"][0] not in model
        )
        return hashlib.sha256(model).hexdigest() if is_whole else None
    if not isinstance(model, (str, os.PathLike)):
        return None
    try:
        path = Path(model)
        mark, end = _ELSEWHERE.get(format_of(path), (b"", 0))
        if not mark or not 0 < path.stat().st_size <= limit:
            return None
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as view:
            return None if view.find(mark, 0, end) >= 0 else hashlib.sha256(view).hexdigest()
    except (OSError, ValueError, UserError):
        return None


def kernel_key(function: Function, target: Target) -> str:
    """SHA-256 of a function as lowered, names aside, and of all that decides which object code it becomes."""
    instructions = map(repr, instructions_in(function))
    return _digest("kernel", *_compiler(), repr(target), fingerprint(function), *instructions)


def support_key(llvm_text: str) -> str:
    """SHA-256 of the thread pool's LLVM IR and of all that decides which object code it becomes."""
    return _digest("support", *_compiler(), llvm_text)


def _circumstances(ctx: LowerContext) -> list[str]:
    """Return the inputs of a compilation besides the model: target, options and versions."""
    options = {
        f.name: getattr(ctx.options, f.name)
        for f in fields(ctx.options)
        if f.name not in NOT_IN_KEY
    }
    return [
        *_compiler(),
        repr(sorted((name, _stable(value)) for name, value in options.items())),
        repr(ctx.target),
        *(
            repr(sorted((name, str(schedule)) for name, schedule in wanted.items()))
            for wanted in (ctx.tuned, ctx.requested)
        ),
    ]


def _compiler() -> list[str]:
    """Return a fingerprint of the compiler."""
    return [
        f"format {FORMAT_VERSION} abi {ABI_VERSION}",
        repr(sorted(versions().items())),
        source_fingerprint(),
    ]


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _stable(value: object) -> str:
    """The same text in every process, although sets are unordered."""
    return repr(sorted(value) if isinstance(value, (set, frozenset)) else value)


@cache
def source_fingerprint() -> str:
    """SHA-256 of the names, sizes and times of all source files that take part in compiling.

    The version number does not change during development; these do.
    """
    root = os.fspath(Path(__file__).parents[1])
    lines = sorted(line for room in ROOMS for line in _source_lines(os.path.join(root, room)))
    return _digest(*(line.removeprefix(root) for line in lines))


def _source_lines(folder: str) -> Iterator[str]:
    """A line for each source file below a folder; `Path.rglob` takes three times as long."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _source_lines(entry.path)
            elif entry.name.endswith(".py"):
                info = entry.stat()
                yield f"{entry.path} {info.st_size} {info.st_mtime_ns}"
