"""Data of tensors that an ONNX model keeps in other files, and which of those files are believed.

A model may come from anyone, and names its data files itself. So that it cannot read others, a data file must be

- in the folder of the model or below it, wherever `..`, an absolute name or symbolic links lead;
- a regular file of one name: of a file with several (hard links), nobody can tell whether all lie in that folder;
- as long as the model says.

All of it is checked on the file that is open, not on its name, which may refer to another a moment later.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx import TensorProto

from ...base.errors import UserError
from ...base.mapped_file import map_handle
from ...base.source_files import note_source

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def external_data(proto: TensorProto, who: str, folder: Path | None, needed: int) -> memoryview:
    """The `needed` bytes of a tensor from an external file. Raise UserError if they are missing or must not be read."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    if folder is None:
        raise UserError(
            f"{who}: its data is in another file, so the model must be given as a path, not as bytes"
        )
    location = entries.get("location", "")
    offset = _file_position(entries, "offset", 0, who)
    length = _file_position(entries, "length", needed, who)
    with _opened(folder, location, who) as handle:
        if length != needed:
            raise UserError(
                f"{who}: its shape takes {needed} bytes, but the entry for '{location}' says {length}"
            )
        size = os.fstat(handle).st_size
        if offset + needed > size:
            raise UserError(
                f"{who}: bytes {offset} to {offset + needed} of '{location}' are needed, but it has {size}; "
                "the file is truncated or belongs to another model"
            )
        return map_handle(handle)[offset : offset + needed]


@contextmanager
def _opened(folder: Path, location: str, who: str) -> Iterator[int]:
    """The data file at `location`, open, if it may be read."""
    if not location or "\0" in location:
        raise UserError(f"{who}: the name of its data file must be given, got {location!r}")
    try:
        root = folder.resolve()
        path = (root / location).resolve()
        if not path.is_relative_to(root):
            raise UserError(
                f"{who}: its data file must lie in the model's folder, got '{_shortened(location)}'"
            )
        handle = os.open(path, _FLAGS)
        note_source(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(location, who) from error
    except (OSError, RuntimeError, ValueError) as error:  # too long a name, a loop of links
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{who}: its data file '{_shortened(location)}' cannot be opened: {reason}; check its permissions"
        ) from error
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise _missing(location, who)
        if info.st_nlink > 1:
            raise UserError(
                f"{who}: its data file '{_shortened(location)}' must have one name, "
                f"but has {info.st_nlink} (hard links), "
                "of which some may lie outside the model's folder; replace it by a copy"
            )
        yield handle
    finally:
        os.close(handle)


def _missing(location: str, who: str) -> UserError:
    return UserError(
        f"{who}: its data file '{_shortened(location)}' must lie beside the model, but it is missing; copy it there"
    )


def _shortened(name: str) -> str:
    return name if len(name) <= 60 else name[:57] + "..."


def _file_position(entries: dict[str, str], key: str, default: int, who: str) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise UserError(f"{who}: {key} of its data file must be a number of bytes, got '{text}'")
    return int(text)
