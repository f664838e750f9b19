"""Models in GGUF files, one or several of a split model, each of which is read once."""

from __future__ import annotations

import re
from pathlib import Path
from weakref import WeakValueDictionary

from ...base.file_status import file_status, is_settled
from .container import GgufFile, read_one

_IN_USE: WeakValueDictionary[tuple[Path, str], GgufFile] = WeakValueDictionary()
"""Files by path and status."""


def read_gguf(path: Path) -> GgufFile:
    """Read a GGUF file, or all files of a split model of which `path` is the first. May raise UserError or
    UnsupportedError.

    A file that is in use and did not change is not read again: a vocabulary has a quarter of a million strings.
    """
    status = path, file_status(path)
    if (known := _IN_USE.get(status)) is not None:
        return known
    first = read_one(path)
    count = first.integer("split.count", 1)
    if count < 2:
        if is_settled(path):
            _IN_USE[status] = first
        return first
    name = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", path.name)
    if name is None or int(name[2]) != count:
        rule = f"the first file of a split model must be given, whose name ends in '-00001-of-{count:05}.gguf'"
        raise first.rule(rule, f"'{path.name}'")
    tensors = dict(first.tensors)
    _check_number(first, 0, count)
    for number in range(1, count):
        other = read_one(path.with_name(f"{name[1]}-{number + 1:05}-of-{count:05}.gguf"))
        _check_number(other, number, count)
        for key, tensor in other.tensors.items():
            if key in tensors:
                raise other.rule(
                    "files of a split model must have different tensors", f"'{key}' twice"
                )
            tensors[key] = tensor
    total = first.metadata.get("split.tensors.count")
    if total is not None and total != len(tensors):
        raise first.rule(f"the {count} files must hold {total} tensors in all", str(len(tensors)))
    return GgufFile(path, first.metadata, tensors)


def _check_number(file: GgufFile, number: int, count: int) -> None:
    """Raise UserError for a file whose metadata say another number or count than its name."""
    for key, wanted in (("split.no", number), ("split.count", count)):
        found = file.integer(key, wanted)
        if found != wanted:
            raise file.rule(f"'{key}' must be {wanted}, as its name says", str(found))
