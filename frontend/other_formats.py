"""Files of models that graphc does not read, by their first bytes, so that they are called what they are."""

from __future__ import annotations

import json
from collections.abc import Callable

from ..base.errors import UnsupportedError
from ..base.records import dataclass


@dataclass(frozen=True)
class OtherFormat:
    """A foreign file format: its name, its first bytes, and advice for its users."""

    name: str
    begins: Callable[[bytes], bool]
    remedy: str


_EXPORT = "export the model that uses them to ONNX or with torch.export"


def _magic(magic: bytes, offset: int = 0) -> Callable[[bytes], bool]:
    return lambda head: head[offset : offset + len(magic)] == magic


def _is_safetensors(head: bytes) -> bool:
    """A length of 8 bytes, then a JSON object of that length, which may go beyond what is given of the file."""
    length, text = int.from_bytes(head[:8], "little"), head[8:]
    if not 2 <= length <= 100 << 20 or not text.startswith(b'{"'):
        return False
    try:
        return length > len(text) or isinstance(json.loads(text[:length]), dict)
    except (ValueError, RecursionError):  # no JSON, or nested beyond what Python reads
        return False


OTHER_FORMATS = (
    OtherFormat("a safetensors file, weights without a graph", _is_safetensors, _EXPORT),
    OtherFormat("an HDF5 file, as Keras saves weights", _magic(b"\x89HDF\r\n"), _EXPORT),
    OtherFormat(
        "a TensorFlow Lite model",
        _magic(b"TFL3", 4),
        "convert it to ONNX, for example with tf2onnx",
    ),
    OtherFormat(
        "an ONNX Runtime model (.ort)", _magic(b"ORTM", 4), "give the ONNX file it was made of"
    ),
    OtherFormat("a pickle of PyTorch", _magic(b"\x80\x02\x8a\nl\xfc"), _EXPORT),
    OtherFormat(
        "an XML file, as OpenVINO writes", _magic(b"<?xml"), "give the ONNX file it was made of"
    ),
    OtherFormat(
        "a NumPy array",
        _magic(b"\x93NUMPY"),
        "give the model as the file and the array with --constant",
    ),
)


def other_format(head: bytes) -> OtherFormat | None:
    """Return the format, known but not read, of a file with these first bytes."""
    return next((one for one in OTHER_FORMATS if one.begins(head)), None)


def check_read(head: bytes, who: str) -> None:
    """Raise UnsupportedError for the first bytes of a file that is known not to be read, `who` in front."""
    if one := other_format(head):
        raise UnsupportedError(f"{who} is {one.name}, which is not supported", one.remedy)
