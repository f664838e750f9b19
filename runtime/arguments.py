"""Checks of what a caller passes to a model: every mistake is one sentence that says what was expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dims import is_known
from ..base.dtypes import BF16, from_numpy
from ..base.errors import UserError
from .dlpack import shared_array
from .metadata import TensorSpec

DENSE = 0x101
"""Bits of `array.flags.num`: C-contiguous and aligned to the element. Native code needs both."""


def arrange_inputs(
    model: str, specs: Sequence[TensorSpec], positional: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Return one value per input, in the model's order. UserError listing every missing and unknown name."""
    if not isinstance(named, Mapping):
        raise UserError(
            f"model '{model}': inputs must be a mapping of names to arrays, got {type(named).__name__}; "
            f"it takes {_listed(specs)}"
        )
    if len(positional) > len(specs):
        raise UserError(
            f"model '{model}' takes {_listed(specs)}, got {len(positional)} positional arguments"
        )
    values = {spec.name: value for spec, value in zip(specs, positional, strict=False)}
    twice = [name for name in named if name in values]
    if twice:
        raise UserError(
            f"model '{model}': input '{twice[0]}' must be given once, got it by position and by name"
        )
    values.update(named)
    names = [spec.name for spec in specs]
    missing = [f"'{name}'" for name in names if name not in values]
    unknown = [f"'{name}'" for name in values if name not in names]
    if missing or unknown:
        problems = [f"missing {', '.join(missing)}"] if missing else []
        problems += [f"unknown {', '.join(unknown)}"] if unknown else []
        raise UserError(f"model '{model}' takes {_listed(specs)}; {'; '.join(problems)}")
    return [values[name] for name in names]


def select_outputs(model: str, specs: Sequence[TensorSpec], names: Sequence[str]) -> list[int]:
    """Return the positions of the outputs called `names`. UserError listing unknown names."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        got = type(names).__name__
        raise UserError(f"model '{model}': output names must be a sequence of names, got {got}")
    positions = {spec.name: i for i, spec in enumerate(specs)}
    unknown = [f"'{name}'" for name in names if name not in positions]
    if unknown:
        raise UserError(
            f"model '{model}' has the outputs {', '.join(positions)}; unknown {', '.join(unknown)}"
        )
    return [positions[name] for name in names]


def accept_input(spec: TensorSpec, value: Any) -> np.ndarray:
    """Return `value` as a dense array of the input's type: itself, or a copy if its memory layout differs.

    Accepts arrays, and objects with DLPack or `__array__`. Values are never cast. UserError saying what was expected.
    """
    array = _as_array("input", spec, value)
    # NumPy's own layout change keeps values: byte order, strides and alignment only.
    return np.require(array, dtype=spec.dtype.numpy, requirements=("C", "A"))


def check_buffer(role: str, spec: TensorSpec, value: Any) -> np.ndarray:
    """Return `value` as an array that native code may use in place on every call. `role` is `input` or `output`.

    Raise UserError if its type is wrong, or when its memory would need a copy.
    """
    shared = value if isinstance(value, np.ndarray) else shared_array(value)
    if shared is None:
        raise _not_an_array(role, spec, value)
    array = _as_array(role, spec, shared)
    problems = []
    if not array.dtype.isnative:
        problems.append("byte-swapped")
    if not array.flags.c_contiguous:
        problems.append("not C-contiguous")
    if not array.flags.aligned:
        problems.append("misaligned")
    if role == "output" and not array.flags.writeable:
        problems.append("read-only")
    if problems:
        raise UserError(
            f"{role} '{spec.name}' is {' and '.join(problems)}, a bound buffer must be used in place; "
            f"bind a fresh np.empty({spec.shape}, {_dtype_code(spec)})"
        )
    return array


def check_apart(
    specs: Sequence[TensorSpec], inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> None:
    """Raise UserError if an output buffer shares memory with an input or another output."""
    for i, output in enumerate(outputs):
        for other in (*inputs, *outputs[:i]):
            if np.may_share_memory(output, other):
                raise UserError(
                    f"output '{specs[i].name}' shares memory with another bound buffer; bind separate arrays"
                )


def _as_array(role: str, spec: TensorSpec, value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        shared = shared_array(value)
        if shared is None and not hasattr(value, "__array__"):
            raise _not_an_array(role, spec, value)
        try:
            value = np.asarray(value) if shared is None else shared
        except (RuntimeError, TypeError, ValueError) as error:  # a tensor with gradients, for one
            raise UserError(
                f"{role} '{spec.name}' must be an array {spec.type_text}, got {type(value).__name__}: {error}"
            ) from error
    array: np.ndarray = value
    if array.dtype.newbyteorder("=") != spec.dtype.numpy:
        name = spec.name if spec.name.isidentifier() else "array"
        raise UserError(
            _expected(role, spec, array) + f"; convert with {name}.astype({_dtype_code(spec)})"
        )
    if array.shape != spec.shape and is_known(*spec.shape):  # dynamic sizes: `sizes.values_of`
        raise UserError(_expected(role, spec, array) + f"; {_shape_remedy(spec, array)}")
    return array


def _shape_remedy(spec: TensorSpec, array: np.ndarray) -> str:
    if array.size == math.prod(spec.shape):
        name = spec.name if spec.name.isidentifier() else "array"
        return f"if the order of the values is right, use {name}.reshape({spec.shape})"
    return "shapes are fixed when a model is compiled"


def _expected(role: str, spec: TensorSpec, array: np.ndarray) -> str:
    dims = ",".join(map(str, array.shape))
    try:
        got = from_numpy(array.dtype).name
    except UserError:
        got = str(array.dtype)
    return f"{role} '{spec.name}' must be {spec.type_text}, got {got}[{dims}]"


def _not_an_array(role: str, spec: TensorSpec, value: Any) -> UserError:
    return UserError(
        f"{role} '{spec.name}' must be an array {spec.type_text}, got {type(value).__name__}; "
        f"use np.array(..., {_dtype_code(spec)})"
    )


def _dtype_code(spec: TensorSpec) -> str:
    """The dtype as a caller writes it in Python."""
    return "ml_dtypes.bfloat16" if spec.dtype is BF16 else f"'{spec.dtype.numpy.name}'"


def _listed(specs: Sequence[TensorSpec]) -> str:
    if not specs:
        return "no inputs"
    return f"input{'s' * (len(specs) > 1)} " + ", ".join(f"{s.name} {s.type_text}" for s in specs)
