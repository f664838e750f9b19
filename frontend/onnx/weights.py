"""Separates a model's weights from its structure: large ones stay in the file or the bytes given.

Protobuf copies all it decodes. So the raw data of large initializers is removed from its input and kept as views by
tensor name. Only the layout that ONNX writers produce is handled; anything else is left to protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator

from .tensors import DTYPES

MIN_BYTES = 4096
"""Smaller weights are decoded with everything else."""

_GRAPH, _INITIALIZER = 7, 5  # fields of ModelProto and GraphProto
_DATA_TYPE, _NAME, _RAW_DATA, _EXTERNAL, _LOCATION = 2, 8, 9, 13, 14  # of TensorProto
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CONTINUES, _LONGEST = 0x80, 10

Field = tuple[int, int, int, int]
"""Number of a field; the offsets of its start, of its value and of its end."""


class _UnusualError(Exception):
    """The bytes are not laid out as ONNX writers do."""


def split_weights(data: memoryview) -> tuple[bytes | memoryview, dict[str, memoryview]]:
    """(the model without the data of its large weights, those by name). All of `data` where it is unusual."""
    try:
        graphs = [field for field in _fields(data, 0, len(data)) if field[0] == _GRAPH]
        if len(graphs) != 1:
            return data, {}
        _, begin, inside, end = graphs[0]
        kept, weights = _split_graph(data, inside, end)
    except _UnusualError:
        return data, {}
    if not weights:
        return data, {}
    graph = b"".join(kept)
    head = _tag(_GRAPH) + _varint(len(graph))
    return b"".join([data[:begin], head, graph, data[end:]]), weights


def _split_graph(
    data: memoryview, begin: int, end: int
) -> tuple[list[bytes | memoryview], dict[str, memoryview]]:
    """(the fields of a graph, without large data; that data by the tensor's name)."""
    kept: list[bytes | memoryview] = []
    weights: dict[str, memoryview] = {}
    for number, start, inside, stop in _fields(data, begin, end):
        found = _large_data(data, inside, stop) if number == _INITIALIZER else None
        if found is None or found[0] in weights:
            kept.append(data[start:stop])
            continue
        name, (_, raw_begin, raw_inside, raw_end) = found
        weights[name] = data[raw_inside:raw_end]
        size = stop - inside - (raw_end - raw_begin)
        kept += [_tag(_INITIALIZER) + _varint(size), data[inside:raw_begin], data[raw_end:stop]]
    return kept, weights


def _large_data(data: memoryview, begin: int, end: int) -> tuple[str, Field] | None:
    """Name and raw data of an initializer that is large and of an ordinary type; None for any other."""
    if end - begin < MIN_BYTES:
        return None
    found: dict[int, Field] = {}
    for field in _fields(data, begin, end):
        if field[0] in (_DATA_TYPE, _NAME, _RAW_DATA) and field[0] in found:
            return None
        found[field[0]] = field
    if not found.keys() >= {_DATA_TYPE, _NAME, _RAW_DATA} or found.keys() & {_EXTERNAL, _LOCATION}:
        return None
    raw, kind = found[_RAW_DATA], _read_varint(data, found[_DATA_TYPE][2], end)[0]
    if raw[3] - raw[2] < MIN_BYTES or kind not in DTYPES:
        return None
    try:
        name = str(data[found[_NAME][2] : found[_NAME][3]], "utf-8")
    except UnicodeDecodeError:
        return None
    return name, raw


def _fields(data: memoryview, begin: int, end: int) -> Iterator[Field]:
    """The fields of a message."""
    position = begin
    while position < end:
        tag, inside = _read_varint(data, position, end)
        kind = tag & 7
        if kind == _BYTES:
            size, inside = _read_varint(data, inside, end)
            stop = inside + size
        elif kind == _VARINT:
            stop = _read_varint(data, inside, end)[1]
        elif kind in (_FIXED32, _FIXED64):
            stop = inside + (4 if kind == _FIXED32 else 8)
        else:
            raise _UnusualError
        if stop > end:
            raise _UnusualError
        yield tag >> 3, position, inside, stop
        position = stop


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """(a number of 7 bits per byte, where it ends)."""
    value = 0
    for count, byte in enumerate(data[position : min(position + _LONGEST, end)]):
        value |= (byte & ~_CONTINUES) << 7 * count
        if byte < _CONTINUES:
            return value, position + count + 1
    raise _UnusualError


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)


def _varint(value: int) -> bytes:
    result = bytearray()
    while value >= _CONTINUES:
        result.append(value & ~_CONTINUES & 0xFF | _CONTINUES)
        value >>= 7
    result.append(value)
    return bytes(result)
