"""Exact text of tensor elements: the shortest decimals that read back as the same bits, or the bits in hexadecimal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import DType, from_numpy
from ...base.errors import UserError

_BOOLS = {"false": False, "true": True}


def print_elements(value: np.ndarray[Any, Any]) -> list[str]:
    """One string per element, row-major. `read_elements` gives the same bits back (NaN payloads included)."""
    flat = np.asarray(value, dtype=value.dtype.newbyteorder("=")).reshape(-1)
    dtype = from_numpy(flat.dtype)
    if dtype.kind == "bool":
        return ["true" if item else "false" for item in flat.tolist()]
    if not dtype.is_float:
        return [str(item) for item in flat.tolist()]
    wide = flat.astype(np.float32) if dtype.name == "bf16" else flat
    texts = [str(item) for item in wide]
    bits = flat.view(f"u{dtype.size}")
    back = read_elements(texts, dtype).view(f"u{dtype.size}")
    for i in np.flatnonzero(bits != back):
        texts[i] = hex(bits[i])
    return texts


def read_elements(texts: Sequence[str], dtype: DType) -> np.ndarray[Any, Any]:
    """Inverse of `print_elements`: a flat array. Raise UserError for a text that is not an element of `dtype`."""
    try:
        if dtype.kind == "bool":
            return np.array([_BOOLS[text] for text in texts], dtype.numpy)
        if not dtype.is_float:
            return np.array([int(text) for text in texts], dtype.numpy)
        with np.errstate(all="ignore"):
            values = np.array([0.0 if text[:2] == "0x" else float(text) for text in texts]).astype(
                dtype.numpy
            )
        bits = values.view(f"u{dtype.size}")
        for i, text in enumerate(texts):
            if text[:2] == "0x":
                bits[i] = int(text, 16)
    except (ValueError, KeyError, OverflowError) as error:
        raise UserError(f"elements of tensor text must be {dtype}: {error}") from error
    return values
