"""Parameter values: their text in a `.param` file and the Python values it stands for."""

from __future__ import annotations

import re

import numpy as np

from ...base.errors import UserError

Scalar = int | float | bool | str | None
ParamValue = Scalar | list[Scalar]

_MAX_DIGITS = 18
_INT = re.compile(r"[-+]?\d+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_NOT_FINITE = {f"{word}.0": word for word in ("nan", "inf", "-inf")}  # of Python's numbers
_WORDS: dict[str, Scalar] = {"None": None, "True": True, "False": False}


def parse_param_value(text: str) -> ParamValue:
    """The value of a text: None, bool, int, float (exact in f32), text, or a list of these.

    A list with a float holds floats. Raise UserError for an integer of absurd length.
    """
    if "%" in text:
        return text
    if text in ("()", "[]"):
        return None
    if text[:1] in ("(", "["):
        items = [parse_scalar(item) for item in text[1:].rstrip(")]").split(",")]
        if any(isinstance(item, float) for item in items):
            return [float(i) if type(i) is int else i for i in items]
        return items
    return parse_scalar(text)


def parameter_type(value: ParamValue) -> int:
    """PNNX's number of a value's type: 0 none, 1 bool, 2 int, 3 float, 4 text, 5, 6, 7 lists of int, float, text."""
    if isinstance(value, list):
        kinds = [parameter_type(item) for item in value]
        return {2: 5, 3: 6}.get(max(kinds, default=0), 7)
    if value is None:
        return 0
    return {bool: 1, int: 2, float: 3, str: 4}[type(value)]


def parse_scalar(text: str) -> Scalar:
    """None, bool, int, float or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        if len(text) > _MAX_DIGITS + 1:
            raise UserError(f"an integer must have at most {_MAX_DIGITS} digits, got {len(text)}")
        return int(text)
    return to_f32(float(text)) if _FLOAT.fullmatch(text) else _NOT_FINITE.get(text, text)


def to_f32(value: float) -> float:
    """The nearest f32: PNNX stores floats in 32 bits."""
    with np.errstate(all="ignore"):
        return float(np.float32(value))


def print_param_value(value: ParamValue | tuple[Scalar, ...]) -> str:
    """The text of a value, as PNNX writes it."""
    if isinstance(value, (list, tuple)):
        return f"({','.join(print_param_value(item) for item in value)})"
    return print_float(value) if isinstance(value, float) else str(value)


def print_float(value: float) -> str:
    """`%g`, or `%e` for the very small and large, with as many digits as f32 needs, and always a dot."""
    exact = to_f32(value)
    if exact == 0:
        return "-0.0" if np.signbit(exact) else "0.0"
    if not np.isfinite(exact):
        return str(exact)
    style = "e" if abs(exact) < 1e-4 or abs(exact) >= 1e6 else "g"
    text = f"{exact:.6{style}}"
    if to_f32(float(text)) != exact:
        text = f"{exact:.9{style}}"
    return text if "." in text or "e" in text else f"{text}.0"
