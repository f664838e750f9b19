"""The tensors in the constants of a compiled model, as safetensors files describe them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..base.dtypes import by_name
from ..base.errors import UserError

_CONSTANT = re.compile(
    r"%(\S+) : .* = Node\[type=constant\] \(attrs = \{value: \[@(\d+)\]\}\) -> (\w+)\[([\d,]*)\](\{\S+\})?"
)
_TYPES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "bool": "BOOL",
    **{f"s{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Names of element types in safetensors; all others are bytes there."""


class StoredTensor(NamedTuple):
    """A tensor at bytes `begin` to `end` of the constants; `layout`: type and layout of one that is stored as bytes."""

    name: str
    dtype: str
    shape: list[int]
    begin: int
    end: int
    layout: str = ""


def stored_tensors(graph: str, total: int) -> Iterator[StoredTensor]:
    """Yield everything in `total` bytes of constants, in order and without gaps; `graph`: the text of an artifact."""
    found: dict[int, tuple[str, str, list[int], str]] = {}
    for name, offset, dtype, dims, layout in _CONSTANT.findall(graph):
        shape = [int(dim) for dim in dims.split(",") if dim]
        found.setdefault(int(offset), (name, dtype, shape, layout))
    begins = sorted(offset for offset in found if offset < total)
    if total and begins[:1] != [0]:
        found[0] = ("constants", "u8", [begins[0] if begins else total], "")
        begins.insert(0, 0)
    taken: set[str] = set()
    for begin, end in zip(begins, [*begins, total][1:], strict=True):
        name, dtype, shape, layout = found[begin]
        unique = name if name not in taken else f"{name}@{begin}"
        taken.add(unique)
        size = _size(dtype, shape) if dtype in _TYPES and not layout else -1
        if not 0 <= size <= end - begin:
            text = f"{dtype}[{','.join(map(str, shape))}]{layout}"
            yield StoredTensor(unique, "U8", [end - begin], begin, end, text)
            continue
        yield StoredTensor(unique, _TYPES[dtype], shape, begin, begin + size)
        if begin + size < end:
            padding = [end - begin - size]
            yield StoredTensor(f"padding@{begin + size}", "U8", padding, begin + size, end)


def _size(dtype: str, shape: list[int]) -> int:
    try:
        return math.prod(shape) * by_name(dtype).size
    except UserError:
        return -1
