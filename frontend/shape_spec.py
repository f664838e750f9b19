"""Type specs for dynamic shapes of a model file: `f32[8,13]`, or with a name `x=f32[8,13]`.

A size may stay dynamic: `f32[N,13]` names it, `f32[N=1..64,13]` bounds it as well, `f32[1..64,13]` and `f32[?,13]` do
without a name. Sizes of one name are equal in all inputs. The command line (`--input`) and Python (`inputs=`) take the
same text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..base.dims import MOST, Size, Symbol, bounds, size, substitute, symbols_of
from ..base.dtypes import DType, by_any_name
from ..base.errors import UserError
from ..base.records import dataclass
from ..base.size_text import parse_range
from ..base.symbols import symbol_name
from ..graph_ir.ir.graph import Graph

MAX_TENSOR_BYTES = 1 << 40
"""Size limit of tensors: a larger one means a corrupt file or a typing mistake."""

_MAX_DIGITS = 18  # digits of one dimension, so that a text of a million digits is never converted
_MAX_NAMES = 20  # in a message
_EXAMPLE_SIZE = 8  # of a dynamic dimension
_EXAMPLE = "like f32[8,13] or x=f32[8,13]"
_DYNAMIC = re.compile(r"[A-Za-z_]\w*(=[0-9]*\.\.[0-9]*)?|[0-9]*\.\.[0-9]*", re.ASCII)


@dataclass(frozen=True)
class InputSpec:
    """dtype and shape of one input; `name` is "" where the text gives none."""

    name: str
    dtype: DType
    dims: tuple[Size, ...]

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.dims))}]"
        return f"{self.name}={text}" if self.name else text


@dataclass(frozen=True)
class DeclaredInput:
    """An input as a file has it: a text for a dynamic size, None for a dtype or dims that are not declared."""

    name: str
    dtype: DType | None
    dims: tuple[int | str, ...] | None

    def __str__(self) -> str:
        dims = "..." if self.dims is None else ",".join(str(d) or "?" for d in self.dims)
        return f"{self.dtype or '?'}[{dims}]"

    @property
    def example(self) -> str:
        """A spec that would complete it."""
        dims = (1, "?") if self.dims is None else self.dims
        sizes = ",".join(str(_EXAMPLE_SIZE if isinstance(d, str) else d) for d in dims)
        return f"{self.name}={self.dtype or 'f32'}[{sizes}]"


InputSpecs = Mapping[str, InputSpec]
"""Input specs by the names of inputs."""


def parse_spec(text: str, own: str = "") -> InputSpec:
    """Parse `[name=]dtype[dim,dim,...]`; `f32[]` is a scalar. Types may have the names NumPy and ONNX use.

    `own`: the name of the input, after which dynamic sizes without a name are called. Raise UserError for any other
    text.
    """
    if not isinstance(text, str):
        raise UserError(f"input spec must be a text {_EXAMPLE}, got {text!r}")
    head, bracket, rest = text.strip().rpartition("[")
    name, equals, dtype_text = head.rpartition("=")
    if equals and not name.strip():
        raise UserError(f"input spec '{text}' must have a name before '=', {_EXAMPLE}")
    if not bracket or not rest.endswith("]"):
        raise UserError(f"input spec '{text}' must end with the shape in brackets, {_EXAMPLE}")
    if not dtype_text.strip():
        raise UserError(f"input spec '{text}' must name a dtype before '[', {_EXAMPLE}")
    try:
        dtype = by_any_name(dtype_text.strip())
    except UserError as error:
        raise UserError(f"input spec '{text}': {error}") from error
    dims = _parse_dims(text, rest[:-1], own or name.strip())
    check_size(f"input spec '{text}'", dtype, dims)
    return InputSpec(name.strip(), dtype, dims)


def _parse_dims(text: str, dims: str, own: str) -> tuple[Size, ...]:
    if not dims.strip():
        return ()
    values: list[Size] = []
    for axis, part in enumerate(dims.split(",")):
        digits = part.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS:
            values.append(int(digits))
        elif digits == "?" or not digits.isdigit() and _DYNAMIC.fullmatch(digits):
            values.append(_dynamic_size(text, digits, own, axis))
        else:
            raise UserError(
                f"input spec '{text}': every dimension must be a number from 0 to 10^{_MAX_DIGITS}, "
                f"or dynamic, like N, N=1..64 or 1..64, got '{digits}'; write it {_EXAMPLE}"
            )
    return tuple(values)


def _dynamic_size(text: str, part: str, own: str, axis: int) -> Size:
    """The size that `N`, `N=1..64`, `1..64` or `?` stands for."""
    name, equals, range_ = part.partition("=")
    if ".." in name or name == "?":
        name, range_ = dynamic_name(own, axis), "" if part == "?" else part
    try:
        return size(parse_range(range_, name) if range_ or equals else Symbol(name))
    except UserError as error:
        raise UserError(f"input spec '{text}': {error}") from error


def dynamic_name(name: str, axis: int) -> str:
    """Return the name of an unnamed dynamic size: from its input and axis."""
    return f"{symbol_name(name or 'input')}_{axis}"


def parse_inputs(inputs: Mapping[str, str] | None) -> dict[str, InputSpec]:
    """Parse the `inputs=` argument: input name to spec text. UserError names the input."""
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping) or not all(isinstance(name, str) for name in inputs):
        raise UserError(f"inputs must map input names to texts like 'f32[8,13]', got {inputs!r}")
    specs = {}
    for name, text in inputs.items():
        if not isinstance(text, str):
            raise UserError(f"input '{name}': spec must be a text like 'f32[8,13]', got {text!r}")
        spec = parse_spec(text, str(name))
        if spec.name not in ("", name):
            raise UserError(
                f"input '{name}': its spec must name the same input or none, got '{spec.name}'"
            )
        specs[name] = InputSpec(name, spec.dtype, spec.dims)
    return _agreed(specs)


def _agreed(specs: dict[str, InputSpec]) -> dict[str, InputSpec]:
    """The same with one range for each name: that which is given. Raise UserError for two."""
    found: dict[str, Symbol] = {}
    for symbol in symbols_of(one for spec in specs.values() for one in spec.dims):
        known = found.get(symbol.name)
        if known and known.has_range and symbol.has_range and known != symbol:
            raise UserError(
                f"size '{symbol.name}' must have one range, got {known.range_text} and {symbol.range_text}"
            )
        if known is None or symbol.has_range:
            found[symbol.name] = symbol
    by_name = {name: size(symbol) for name, symbol in found.items()}
    return {
        name: replace(spec, dims=tuple(substitute(one, by_name) for one in spec.dims))
        for name, spec in specs.items()
    }


def check_names(
    who: str, what: str, given: Iterable[str], known: Collection[str], called: str = ""
) -> None:
    """Raise UserError for a given name that is not known: "there is no input 'z'; its inputs are 'x'"."""
    for name in given:
        if name not in known:
            shown = ", ".join(f"'{n}'" for n in [*known][:_MAX_NAMES]) or "none"
            text = f"there is no {what} '{name}'; its {called or f'{what}s'} are {shown}"
            raise UserError(f"{who}: {text}")


def check_size(who: str, dtype: DType, dims: Sequence[Size]) -> None:
    """Raise UserError if a dimension is negative or the tensor exceeds `MAX_TENSOR_BYTES`; nothing is allocated.

    Of dynamic sizes the least counts.
    """
    shape = ",".join(map(str, dims))
    if any(dim < 0 for dim in dims):
        raise UserError(f"{who}: dimensions must not be negative, got {dtype}[{shape}]")
    # A zero dimension must not hide absurd sizes of other dimensions.
    if math.prod(max(bounds(dim)[0], 1) for dim in dims) * dtype.size > MAX_TENSOR_BYTES:
        raise UserError(
            f"{who}: a tensor must not exceed {MAX_TENSOR_BYTES >> 40} TiB, got {dtype}[{shape}]"
        )


def check_inputs(graph: Graph, specs: InputSpecs) -> None:
    """Raise UserError if specs do not agree with the inputs of a graph, all of which are static."""
    details = {op.name: op.outputs[0].details for op in graph.inputs}
    check_names(f"graph '{graph.name}'", "input", specs, details)
    for name, spec in specs.items():
        if (spec.dtype, spec.dims) != (details[name].dtype, details[name].plain_dims):
            raise UserError(f"input '{name}' must be as in the graph, {details[name]}, got {spec}")


def check_ranges(graph: Graph, specs: InputSpecs) -> None:
    """Raise UserError for a range of a spec that ends above the largest size that an op of the model takes."""
    for op in graph.inputs:
        dims = specs[op.name].dims if op.name in specs else ()
        kept = map(bounds, op.outputs[0].details.plain_dims)
        for axis, (wanted, (low, high)) in enumerate(zip(dims, kept, strict=False)):
            ranges = [f"{s.name}={s.range_text}" for s in symbols_of([wanted]) if s.most < MOST]
            if ranges and high < bounds(wanted)[1]:
                sizes = f"{low}..{high}" if low < high else f"{low}"
                raise UserError(
                    f"input '{op.name}': an op of the model limits axis {axis} to {sizes}, got {ranges[0]}; "
                    "give that, or no range"
                )
