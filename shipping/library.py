"""Links a model's code, its weights and its C functions into one program, and writes it as a library or an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from ..base.errors import UnsupportedError, UserError
from ..base.records import dataclass
from ..codegen.aot import compile_to_part
from ..codegen.elf.archive import archive
from ..codegen.elf.combine import Program, combine
from ..codegen.elf.object_file import CONSTANTS, ObjectFile, Piece, Symbol, read_object
from ..codegen.elf.relocatable import linkable_object
from ..codegen.elf.shared_library import shared_library
from ..codegen.elf.writer import Chunk
from ..codegen.host import target_for
from ..codegen.linked_modules import linked_object
from ..codegen.support import thread_pool_module
from ..runtime.abi import ALIGNMENT, ARENA_NAME, ENTRY_NAME
from ..runtime.artifact import Artifact
from ..targets.isa import ISAS, Target
from ..targets.systems import system_of
from .interface import FUNCTIONS, POOL_FUNCTIONS, code_name, interface_text, weights_name
from .variants import Variant, variants_of
from .weights import WeightsFile

MAX_BYTES = 1 << 31
"""Bytes of a program that code can address by distances of 32 bits, with weights."""

LIBRARIES = (".so", ".a", ".o")
"""Endings of the files that `library_file` writes."""


@dataclass(frozen=True, eq=False)
class Library:
    """A model as a program: `exports` are the names that others may use."""

    program: Program
    exports: tuple[bytes, ...]


def library_of(
    artifacts: Sequence[Artifact], prefix: str, files: Sequence[WeightsFile] = ()
) -> Library:
    """Link a model.

    Args:
        artifacts: of one model, for different CPUs of one machine, the widest first.
        prefix: begins the names of its functions.
        files: the weights of each artifact, if they are in files and not in the library.

    Raises:
        UserError: The model is too large for one library, or its artifacts do not fit together.
        UnsupportedError: The code calls functions of other libraries.
    """
    variants = variants_of(artifacts)
    target = any_cpu(artifacts[0])
    text = interface_text(prefix, variants, files, target)
    objects = [read_object(compile_to_part(text, target))]
    objects += [_code(number, variant) for number, variant in enumerate(variants)]
    if not files:
        objects += [
            _weights(objects[0], number, artifact.constants)
            for number, artifact in enumerate(artifacts)
        ]
    exports = [f"{prefix}_{name}" for name in FUNCTIONS]
    if has_pool(artifacts[0]):
        pool = {f"graphc_{name}": f"{prefix}_{name}" for name in POOL_FUNCTIONS}
        objects.append(
            _renamed(read_object(_pool_code(artifacts[0].metadata.triple, target)), pool)
        )
        exports += pool.values()
    program = combine(objects)
    _check_calls(sorted({symbol.name.decode() for symbol in program.undefined}), artifacts[0])
    _check_size(program, artifacts[0])
    return Library(program, tuple(name.encode() for name in exports))


def library_file(library: Library, stem: str, suffix: str) -> list[Chunk]:
    """Return the parts of a library's file; `suffix` is one of `LIBRARIES`."""
    if suffix == ".so":
        return shared_library(library.program, library.exports, f"{stem}.so")
    code = linkable_object(library.program, library.exports)
    return [code if suffix == ".o" else archive(f"{stem}.o", code, library.exports)]


def any_cpu(artifact: Artifact) -> Target:
    """Return the target of code that every CPU of an artifact's machine can run."""
    meta = artifact.metadata
    machine = meta.isa if ISAS[meta.isa].triple else "generic"
    system = system_of(meta.triple)
    return target_for(f"{machine}@{system}" if system else machine)


def system_object(
    artifacts: Sequence[Artifact], prefix: str, files: Sequence[WeightsFile]
) -> bytes:
    """Link a model for a system of `SYSTEMS` into one object, as `library_of` does for Linux."""
    variants = variants_of(artifacts)
    target = any_cpu(artifacts[0])
    programs = [
        (one.code, {name: code_name(number, name) for name in (ENTRY_NAME, ARENA_NAME)})
        for number, one in enumerate(variants)
    ]
    exports = [f"{prefix}_{name}" for name in FUNCTIONS]
    text = interface_text(prefix, variants, files, target)
    code, missing = linked_object(text, programs, exports, target)
    _check_calls(missing, artifacts[0])
    return code


def _check_calls(missing: Sequence[str], artifact: Artifact) -> None:
    if missing:
        raise UnsupportedError(
            f"model '{artifact.metadata.model}': its code calls {', '.join(missing)} of other libraries, "
            "which a native library does not; save it as .gcm"
        )


def _code(number: int, variant: Variant) -> ObjectFile:
    """The code of a variant, of which two functions can be used."""
    names = {name: code_name(number, name) for name in (ENTRY_NAME, ARENA_NAME)}
    return _renamed(read_object(variant.code), names, code_name(number, "program"))


def _renamed(found: ObjectFile, names: Mapping[str, str], program: str = "main") -> ObjectFile:
    """An object whose definitions are local, except for `names`, which get others.

    `program`: the name of the function called `main`, which debuggers would take for that of the program.
    """
    for symbol in found.symbols:
        name = symbol.name.decode(errors="replace")
        if name in names:
            symbol.name = names[name].encode()
        elif symbol.piece is not None:
            symbol.is_local = True
            if name == "main":
                symbol.name = program.encode()
    return found


def has_pool(artifact: Artifact) -> bool:
    """Return whether a library for the machine of an artifact has a thread pool."""
    return bool(thread_pool_module(artifact.metadata.triple, freestanding=True))


@cache
def _pool_code(triple: str, target: Target) -> bytes:
    return compile_to_part(thread_pool_module(triple, freestanding=True), target)


def _weights(like: ObjectFile, number: int, constants: np.ndarray) -> ObjectFile:
    """The weights of an artifact as an object; the array itself, not a copy."""
    piece = Piece(CONSTANTS, constants.data, ALIGNMENT)
    name = weights_name(number).encode()
    symbol = Symbol(name, type=_DATA, is_hidden=True, piece=piece, size=constants.nbytes)
    empty = not constants.nbytes
    return ObjectFile(like.machine, [] if empty else [piece], [] if empty else [symbol])


_DATA = 1


def _check_size(program: Program, artifact: Artifact) -> None:
    size = sum(len(piece.data) for piece in program.pieces)
    if size >= MAX_BYTES:
        raise UserError(
            f"model '{artifact.metadata.model}': a library must have less than {MAX_BYTES} bytes, got {size}; "
            "write a folder, in which weights are a file"
        )
