"""Writes a compiled model as a native library with its header."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..base.errors import UserError
from ..base.file_errors import unreadable, unwritable
from ..base.mapped_file import map_file
from ..base.whole_file import make_folder, write_file
from ..codegen.elf.writer import Chunk
from ..runtime.artifact import Artifact
from ..targets.isa import ISAS
from ..targets.systems import SYSTEMS, system_of
from .folder import folder_texts
from .header import header_text
from .library import LIBRARIES, has_pool, library_file, library_of, system_object
from .names import checked_prefix, header_name, prefix_of
from .weights import WeightsFile, weights_file


def is_library(path: str | os.PathLike[str]) -> bool:
    """Return whether the name of a file or folder stands for a native library: `m.so`, `m.a`, `m.o`, `m.obj`, `m/`."""
    return Path(path).suffix in (*LIBRARIES, *_OBJECTS) or is_folder(path)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path stands for a folder: it ends with a slash, or there is one."""
    return os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir()


def export_library(
    artifacts: Sequence[Artifact], path: str | os.PathLike[str], name: str, prefix: str = ""
) -> list[Path]:
    """Write a model as a library of the kind that the path's ending says, and its header; return the files.

    Args:
        artifacts: of one model, for different CPUs of one machine.
        path: `m.so`, `m.a`, `m.o`, or a folder (`m/`), which also gets the weights as a file, examples, and files
            for CMake and pkg-config. For another system than Linux, `m.o` or `m.obj`, and weights as a file.
        name: of the model; becomes the prefix of its functions.
        prefix: another.

    Raises:
        UserError: The artifacts do not fit together, or the system refuses a file.
        UnsupportedError: The code calls functions of other libraries.
    """
    target = Path(path)
    chosen = checked_prefix(prefix) if prefix else prefix_of(name)
    ordered = _ordered(artifacts)
    system = system_of(ordered[0].metadata.triple)
    _check_ending(path, system)
    if system:
        return _export_object(ordered, target, chosen)
    if is_folder(path):
        return _export_folder(ordered, target, chosen)
    stem = target.stem.removeprefix("lib") or target.stem
    header = target.with_name(header_name(stem))
    library = library_of(ordered, chosen)
    _check_ours(header)
    write_file(target, library_file(library, target.stem, target.suffix))
    write_file(header, header_text(chosen, ordered, pool=has_pool(ordered[0])))
    return [target, header]


_OBJECTS = tuple(row.suffix for row in SYSTEMS.values())


def _check_ending(path: str | os.PathLike[str], system: str) -> None:
    """Raise UserError if a system has no libraries with the ending of this name."""
    ending = "a folder" if is_folder(path) else Path(path).suffix
    known = (SYSTEMS[system].suffix,) if system else (*LIBRARIES, "a folder")
    if ending not in known:
        raise UserError(
            f"code for {system or 'Linux'} must be written as {' or '.join(known)}, got '{os.fspath(path)}'"
        )


def _export_object(artifacts: Sequence[Artifact], path: Path, prefix: str) -> list[Path]:
    """Write an object that is not ELF, its header and its weights."""
    files, parts = _weights_files(artifacts, path.stem)
    parts[path.name] = [system_object(artifacts, prefix, files)]
    parts[header_name(path.stem)] = header_text(prefix, artifacts, [x.name for x in files])
    return _write_all(parts, path.parent, path.stem, path.name)


def _weights_files(
    artifacts: Sequence[Artifact], stem: str
) -> tuple[list[WeightsFile], dict[str, str | Iterable[Chunk]]]:
    """The weights of each artifact as a file, and the parts of these files by their names."""
    files, parts = [], dict[str, str | Iterable[Chunk]]()
    for artifact in artifacts:
        isa = f".{artifact.metadata.isa}" if len(artifacts) > 1 else ""
        file, parts[f"{stem}{isa}.weights"] = weights_file(artifact, f"{stem}{isa}.weights")
        files.append(file)
    return files, parts


def _write_all(
    parts: Mapping[str, str | Iterable[Chunk]], folder: Path, stem: str, named: str = ""
) -> list[Path]:
    """Write files, of which the user named at most one, and remove the weights of earlier ones for other targets."""
    for name in parts:
        if name != named:
            _check_ours(folder / name)
    for name, chunks in parts.items():
        write_file(folder / name, chunks)
    for name in (f"{stem}.weights", *(f"{stem}.{isa}.weights" for isa in ISAS)):
        stale = folder / name
        if name not in parts and stale.is_file() and _is_ours(stale):
            try:
                stale.unlink()
            except OSError as error:
                raise unwritable(stale, error) from error
    return [folder / name for name in sorted(parts)]


_OURS = re.compile(rb'(?:[Ww]ritten|compiled) by graphc|"format": "graphc"|\0graphc_')
"""A comment of texts, metadata of weights, and symbols of libraries."""


def _is_ours(path: Path) -> bool:
    """Return whether a file was written here. Raise UserError if it cannot be read."""
    try:
        return bool(_OURS.search(map_file(path)))
    except OSError as error:
        raise unreadable(path, error) from error


def _check_ours(path: Path) -> None:
    """Raise UserError if another program wrote the file that is to be replaced, and the user did not name it."""
    if path.is_file() and path.stat().st_size and not _is_ours(path):
        raise UserError(
            f"the output '{path}' must not replace a file that graphc did not write; "
            "give another path, or move the file away"
        )


def _export_folder(artifacts: Sequence[Artifact], folder: Path, prefix: str) -> list[Path]:
    """Write a library whose weights are files, and all that programs need to use it."""
    make_folder(folder)
    files, parts = _weights_files(artifacts, prefix)
    pool = has_pool(artifacts[0])
    library = library_of(artifacts, prefix, files)
    for suffix in (".a", ".so"):  # the last fills its addresses into the code
        parts[f"{prefix}{suffix}"] = library_file(library, prefix, suffix)
    names = [file.name for file in files]
    parts[f"{prefix}.h"] = header_text(prefix, artifacts, names, pool)
    parts |= folder_texts(prefix, artifacts, pool)
    return _write_all(parts, folder, prefix)


def _ordered(artifacts: Sequence[Artifact]) -> list[Artifact]:
    """The artifacts, the widest first. Raise UserError if they cannot be one library."""
    kinds = list(ISAS)
    ordered = sorted(artifacts, key=lambda artifact: kinds.index(artifact.metadata.isa))
    isas = [artifact.metadata.isa for artifact in ordered]
    first = ordered[0].metadata
    if len(set(isas)) < len(isas):
        raise UserError(f"targets of a library must differ, got {', '.join(isas)}")
    for artifact in ordered[1:]:
        meta = artifact.metadata
        if meta.triple != first.triple:
            raise UserError(
                f"targets of a library must be of one machine, got {first.isa} and {meta.isa}; write two libraries"
            )
        same = (meta.inputs, meta.outputs, meta.sizes, meta.counts, meta.checks, meta.aliases)
        if same != (
            first.inputs, first.outputs, first.sizes, first.counts, first.checks, first.aliases,
        ):  # fmt: skip
            raise UserError(
                f"targets of a library must be compiled from one model, got '{first.model}' and '{meta.model}'"
            )
    return ordered
