"""Modules that are not HLO text, which jaxlib turns into it: StableHLO as text or bytecode, what jax.export saves, and
XLA's HLO protos."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from ...base.errors import UserError
from ..model_text import BYTECODE, decoded, is_stablehlo, read_bytes
from ..shape_spec import InputSpec
from .symbolic_sizes import with_sizes

Specs = dict[str, InputSpec] | None
Convert = Callable[[bytes, dict[str, InputSpec]], str]

_WHAT = "file of HLO"
_HLO_TEXT = re.compile(rb"[\t\r\n -~\x80-\xff]*+\Z")  # a proto has other control characters
_SHOWN = 300  # characters of jaxlib's message


def read_module(
    source: str | os.PathLike[str] | bytes | Any, specs: Specs = None
) -> tuple[str, str]:
    """(HLO text, what messages call it) of a file, its bytes or a `jax.export.Exported`.

    Parameters of symbolic sizes get those of their `specs`, which are taken out.

    Raise UserError if it cannot be read, is not of these kinds, or needs jaxlib where that is missing.
    """
    exported = getattr(source, "mlir_module_serialized", None)
    if exported is not None:
        return _by_jaxlib(exported, "module", _of_mlir, specs), "module (as HLO)"
    data, label = read_bytes(source, "model", _WHAT)
    if is_stablehlo(data):
        at = data.find(BYTECODE)
        convert: Convert = _of_exported if at > 0 else _of_mlir
    elif data[:1] == b"\n" and not _HLO_TEXT.match(data):
        convert = _of_proto
    else:
        return decoded(data, label, _WHAT), label
    return _by_jaxlib(data, label, convert, specs), f"{label} (as HLO)"


def _by_jaxlib(data: bytes, label: str, convert: Convert, specs: Specs) -> str:
    try:
        return convert(data, {} if specs is None else specs)
    except ImportError as error:
        raise UserError(
            f"{label}: StableHLO and HLO protos are read with the package jaxlib, which is missing here ({error}); "
            "pip install jax, or give the model as HLO text"
        ) from error
    except (RuntimeError, ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        raise UserError(
            f"{label}: jaxlib cannot read it as StableHLO or HLO ({shown}); "
            "write it again, or with the release of JAX that is installed here"
        ) from error


_ONCE_DENSE = re.compile(
    rb"\b((?:slice_sizes|start_indices|limit_indices|strides|window_dimensions|window_strides|base_dilations"
    rb"|window_dilations|window_reversal|lhs_dilation|rhs_dilation|dimensions|permutation|broadcast_dimensions"
    rb"|broadcast_sizes|edge_padding_low|edge_padding_high|interior_padding|fft_length) *= *)"
    rb"dense<\[?([^][<>]*)\]?> : tensor<(\d+)x(i64|i1)>"
)
"""Attributes that texts of StableHLO of 2023 have as tensors; today's parser takes arrays only."""


def _as_array(match: re.Match[bytes]) -> bytes:
    name, values, count, kind = match.groups()
    values = values if b"," in values else b", ".join([values] * int(count))
    return b"%barray<%b%b>" % (name, kind, b": " + values if int(count) else b"")


def _of_mlir(module: bytes, specs: dict[str, InputSpec]) -> str:
    from jaxlib import _jax

    module = bytes(module) if BYTECODE in module[:64] else _ONCE_DENSE.sub(_as_array, module)

    def converted(data: bytes) -> str:
        return _text(_jax.mlir.mlir_module_to_xla_computation(data, False, False))

    known = with_sizes(module, specs) if specs else None
    try:
        return converted(known or module)
    except RuntimeError:
        known = None if known else with_sizes(module, specs)
        if known is None:
            raise
        return converted(known)


def _of_exported(file: bytes, specs: dict[str, InputSpec]) -> str:
    """A file of jax.export, which is a flatbuffer around bytecode."""
    from jax import export

    return _of_mlir(export.deserialize(bytearray(file)).mlir_module_serialized, specs)


def _of_proto(proto: bytes, specs: dict[str, InputSpec]) -> str:
    """An HloModuleProto, or one inside HloProto or HloSnapshot, whose first field it is."""
    from jaxlib import _hlo

    inner = _first_field(proto)
    while inner[:1] == b"\n":  # the name of a module does not begin with a new line
        proto, inner = inner, _first_field(inner)
    return _text(_hlo.XlaComputation(proto))


def _first_field(message: bytes) -> bytes:
    """The contents of the first field, of number 1; empty where it is another."""
    if message[:1] != b"\n":
        return b""
    size = shift = 0
    for at, byte in enumerate(message[1:11], 2):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return message[at : at + size]
    return b""


def _text(computation: Any) -> str:
    text: str = computation.as_hlo_text(True)  # with all elements of constants
    return text
