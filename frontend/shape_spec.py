"""Type specs that fix the shapes a model file leaves open: `f32[8,13]`, or with a name `x=f32[8,13]`.

The command line (`--input`) and Python (`inputs=`) take the same text.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..base.dtypes import DType, by_any_name
from ..base.errors import UserError
from ..graph_ir.ir.graph import Graph

MAX_TENSOR_BYTES = 1 << 40
"""Size limit of tensors: a larger one means a damaged file or a typing mistake."""

_MAX_DIGITS = 18  # digits of one dimension, so that a text of a million digits is never converted
_MOST_NAMES = 20  # in a message
_EXAMPLE = "like f32[8,13] or x=f32[8,13]"


@dataclass(frozen=True)
class InputSpec:
    """dtype and static shape of one input; `name` is "" where the text gives none."""

    name: str
    dtype: DType
    dims: tuple[int, ...]

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.dims))}]"
        return f"{self.name}={text}" if self.name else text


def parse_spec(text: str) -> InputSpec:
    """Parse `[name=]dtype[dim,dim,...]`; `f32[]` is a scalar. Types may have the names NumPy and ONNX use.

    UserError for any other text.
    """
    if not isinstance(text, str):
        raise UserError(f"input spec must be a text {_EXAMPLE}, got {text!r}")
    name, equals, shape = text.strip().rpartition("=")
    if equals and not name.strip():
        raise UserError(f"input spec '{text}' must have a name before '=', {_EXAMPLE}")
    dtype_text, bracket, rest = shape.strip().partition("[")
    if not bracket or not rest.endswith("]"):
        raise UserError(f"input spec '{text}' must end with the shape in brackets, {_EXAMPLE}")
    if not dtype_text.strip():
        raise UserError(f"input spec '{text}' must name a dtype before '[', {_EXAMPLE}")
    try:
        dtype = by_any_name(dtype_text.strip())
    except UserError as error:
        raise UserError(f"input spec '{text}': {error}") from error
    dims = _parse_dims(text, rest[:-1])
    check_size(f"input spec '{text}'", dtype, dims)
    return InputSpec(name.strip(), dtype, dims)


def _parse_dims(text: str, dims: str) -> tuple[int, ...]:
    if not dims.strip():
        return ()
    values = []
    for part in dims.split(","):
        digits = part.strip()
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_DIGITS:
            raise UserError(
                f"input spec '{text}': every dimension must be a number from 0 to 10^{_MAX_DIGITS}, "
                f"got '{digits}'; write it {_EXAMPLE}"
            )
        values.append(int(digits))
    return tuple(values)


def parse_inputs(inputs: Mapping[str, str] | None) -> dict[str, InputSpec]:
    """Parse the `inputs=` argument: input name to spec text. UserError names the input."""
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        raise UserError(f"inputs must map input names to texts like 'f32[8,13]', got {inputs!r}")
    specs = {}
    for name, text in inputs.items():
        if not isinstance(text, str):
            raise UserError(f"input '{name}': spec must be a text like 'f32[8,13]', got {text!r}")
        spec = parse_spec(text)
        if spec.name not in ("", name):
            raise UserError(f"input '{name}': its spec names another input, '{spec.name}'")
        specs[name] = InputSpec(name, spec.dtype, spec.dims)
    return specs


def check_names(
    who: str, what: str, given: Iterable[str], known: Collection[str], called: str = ""
) -> None:
    """UserError for a given name that is not known: "there is no input 'z'; its inputs are 'x'"."""
    for name in given:
        if name not in known:
            shown = ", ".join(f"'{n}'" for n in [*known][:_MOST_NAMES]) or "none"
            text = f"there is no {what} '{name}'; its {called or f'{what}s'} are {shown}"
            raise UserError(f"{who}: {text}")


def check_size(who: str, dtype: DType, dims: Sequence[int]) -> None:
    """UserError if a dimension is negative or the tensor exceeds `MAX_TENSOR_BYTES`; nothing is allocated."""
    shape = ",".join(map(str, dims))
    if any(dim < 0 for dim in dims):
        raise UserError(f"{who}: dimensions must not be negative, got {dtype}[{shape}]")
    # A zero dimension must not hide absurd sizes of other dimensions.
    if math.prod(max(dim, 1) for dim in dims) * dtype.size > MAX_TENSOR_BYTES:
        raise UserError(
            f"{who}: a tensor must not exceed {MAX_TENSOR_BYTES >> 40} TiB, got {dtype}[{shape}]"
        )


def check_inputs(graph: Graph, specs: Mapping[str, InputSpec]) -> None:
    """UserError where specs do not agree with the inputs of a graph, which leaves none open."""
    details = {op.name: op.outputs[0].details for op in graph.inputs}
    check_names(f"graph '{graph.name}'", "input", specs, details)
    for name, spec in specs.items():
        if (spec.dtype, spec.dims) != (details[name].dtype, details[name].plain_dims):
            raise UserError(f"input '{name}' is {details[name]} in the graph, got {spec}")
