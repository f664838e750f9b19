"""The inputs of the graph: the file's declarations, completed by the caller. Sizes that neither fixes are dynamic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from onnx import GraphProto, ValueInfoProto

from ...base.dims import Size, symbols_of
from ...base.errors import UnsupportedError, UserError
from ...base.size_limits import limited
from ...base.symbols import Limits
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..dynamic_names import DynamicNames, is_plain_name, sum_of
from ..refusals import WITHOUT
from ..shape_spec import DeclaredInput, InputSpec, InputSpecs, check_names, check_size
from .tensors import to_dtype


def resolve_inputs(
    infos: list[ValueInfoProto],
    specs: InputSpecs,
    label: str,
    limits: Limits = MappingProxyType({}),
) -> dict[str, LogicalTensor]:
    """dtype and shape of every input, in the file's order; dynamic sizes are within their `limits`.

    A symbol fixed for one input holds for all; one that is fixed for none stays dynamic. Raise UserError for specs that
    contradict the file or each other, and, naming all of them at once, for inputs whose number of axes is unknown.
    """
    declared = [_declaration(info, label) for info in infos]
    names = [d.name for d in declared]
    check_names(label, "input", specs, names)
    symbols: dict[str, tuple[Size, str]] = {}
    for d in declared:
        if d.name in specs:
            _match(d, specs[d.name], symbols, label)
    given = symbols_of(one for spec in specs.values() for one in spec.dims)
    dynamic_names = DynamicNames(symbol.name for symbol in given)
    alone = _named_alone(declared, symbols, dynamic_names)
    resolved = {d.name: _resolve(d, specs.get(d.name), alone, dynamic_names) for d in declared}
    unresolved = [d for d in declared if resolved[d.name] is None]
    if unresolved:
        shown = ", ".join(f"'{d.name}' is {d}" for d in unresolved)
        example = " ".join(f"--input '{d.example}'" for d in unresolved)
        raise UserError(
            f"{label}: the shape of every input must be given, but {shown}; say {example}"
        )
    return {
        name: replace(x, plain_dims=tuple(limited(size, limits) for size in x.plain_dims))
        for name, x in resolved.items()
        if x is not None
    }


def _declaration(info: ValueInfoProto, label: str) -> DeclaredInput:
    who = f"{label}: input '{info.name}'"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        if kind is None:
            raise UserError(f"{who} must have a type, but has none")
        raise UnsupportedError(
            f"{who}: only tensors are supported, got {kind.removesuffix('_type')}", WITHOUT
        )
    dtype = to_dtype(who, info.type.tensor_type.elem_type)
    if not info.type.tensor_type.HasField("shape"):
        return DeclaredInput(info.name, dtype, None)
    dims = tuple(
        int(d.dim_value) if d.HasField("dim_value") else str(d.dim_param)
        for d in info.type.tensor_type.shape.dim
    )
    check_size(who, dtype, [d for d in dims if isinstance(d, int)])
    return DeclaredInput(info.name, dtype, dims)


def _match(
    declared: DeclaredInput, spec: InputSpec, symbols: dict[str, tuple[Size, str]], label: str
) -> None:
    """Check a spec against the declaration and record the values of symbols."""
    who = f"{label}: input '{declared.name}'"
    given = f"{spec.dtype}[{','.join(map(str, spec.dims))}]"
    if spec.dtype != declared.dtype:
        raise UserError(f"{who}: the file declares {declared}, got {given}; the dtype must agree")
    if declared.dims is None:
        return
    if len(declared.dims) != len(spec.dims):
        raise UserError(
            f"{who}: the file declares {declared}, got {given}; the number of axes must agree"
        )
    for dim, wanted in zip(declared.dims, spec.dims, strict=True):
        if isinstance(dim, int) and dim != wanted:
            raise UserError(
                f"{who}: the file declares {declared}, got {given}; fixed sizes must agree"
            )
        if isinstance(dim, str) and dim:
            fixed, other = symbols.setdefault(dim, (wanted, declared.name))
            if fixed != wanted:
                raise UserError(
                    f"{who}: '{dim}' must have one size, got {wanted}, but {fixed} from input '{other}'"
                )


def _named_alone(
    declared: Iterable[DeclaredInput], symbols: Mapping[str, tuple[Size, str]], names: DynamicNames
) -> dict[str, Size]:
    """The sizes, by the file's names, that are an axis of some input by themselves, or that the caller fixed."""
    found = {name: size for name, (size, _) in symbols.items()}
    for d in declared:
        for axis, text in enumerate(d.dims or ()):
            if isinstance(text, str) and text and text not in found and is_plain_name(text):
                found[text] = names.size(text, d.name, axis)
    return found


def _resolve(
    declared: DeclaredInput, spec: InputSpec | None, alone: Mapping[str, Size], names: DynamicNames
) -> LogicalTensor | None:
    if spec is not None:
        return LogicalTensor(spec.dtype, spec.dims)
    if declared.dtype is None or declared.dims is None:
        return None
    dims: list[Size] = []
    for axis, d in enumerate(declared.dims):
        known = d if isinstance(d, int) else alone.get(d)
        if known is None:  # a mask of `past + new` is as long as both
            known = sum_of(str(d), alone)
        dims.append(names.size(str(d), declared.name, axis) if known is None else known)
    return LogicalTensor(declared.dtype, tuple(dims))


def declared_shapes(proto: GraphProto) -> dict[str, tuple[int, ...]]:
    """The shapes that a graph declares for its values, where they are all numbers."""
    found = {}
    for info in (*proto.value_info, *proto.output):
        kind = info.type.tensor_type
        numbers = all(d.HasField("dim_value") and d.dim_value >= 0 for d in kind.shape.dim)
        if kind.HasField("shape") and numbers:
            found[info.name] = tuple(int(d.dim_value) for d in kind.shape.dim)
    for node in reversed(proto.node):
        for x, y in zip(node.input[:1], node.output, strict=False):
            if node.op_type in _KEEPS_SHAPE and y in found:
                found.setdefault(x, found[y])
    return found


def written_shapes(proto: GraphProto) -> dict[str, tuple[int | str, ...]]:
    """The shapes of inputs and results as a graph writes them: numbers and names, "" for neither."""
    found: dict[str, tuple[int | str, ...]] = {}
    for info in (*proto.input, *proto.output):
        if info.type.tensor_type.HasField("shape"):
            dims = info.type.tensor_type.shape.dim
            found[info.name] = tuple(
                int(d.dim_value) if d.HasField("dim_value") else str(d.dim_param) for d in dims
            )
    return found


_KEEPS_SHAPE = ("Abs", "Cast", "CastLike", "Exp", "Identity", "Log", "Neg", "Sqrt")
"""Ops around the reductions in the bodies of ONNX's functions."""


def implied_values(proto: GraphProto) -> dict[str, tuple[int | None, ...]]:
    """The value that an input must have, by name, so that functions of it give shapes as declared; None: any number."""
    shapes, names = declared_shapes(proto), {info.name for info in proto.input}
    found: dict[str, tuple[int | None, ...]] = {}
    for node in proto.node:
        dims = shapes.get(node.output[0]) if node.output else None
        at = _SIZES.get(node.op_type, len(node.input))
        if dims is None or at >= len(node.input) or node.input[at] not in names:
            continue
        axes = next((tuple(a.ints) for a in node.attribute if a.name == "axes"), range(len(dims)))
        sizes: tuple[int | None, ...] = tuple(dims[axis] for axis in axes if axis < len(dims))
        if node.op_type == "AffineGrid":  # N, C, H, W of a result N, H, W, 2
            sizes = (dims[0], None, *dims[1:-1])
        found[node.input[at]] = sizes
    return found


_SIZES = {
    "AffineGrid": 1,
    "CenterCropPad": 1,
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), 0),
}
"""Functions of the standard that make shapes of an operand, by its position."""
