"""The inputs of a PNNX model: the file's annotations, completed by the caller. Sizes that neither fixes are dynamic."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from ...base.dims import symbols_of
from ...base.errors import UserError
from ...base.size_limits import limited
from ...base.symbols import Limits
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..dynamic_names import DynamicNames
from ..shape_spec import DeclaredInput, InputSpec, InputSpecs, check_names
from .program import Operator, Program, TensorType


def _details(declared: DeclaredInput, names: DynamicNames) -> LogicalTensor | None:
    """Return the input's type, with symbols for dynamic sizes; None if dtype or rank are not known."""
    if declared.dtype is None or declared.dims is None:
        return None
    sizes = (
        dim if isinstance(dim, int) else names.size(dim.strip("?%"), declared.name, axis)
        for axis, dim in enumerate(declared.dims)
    )
    return LogicalTensor(declared.dtype, tuple(sizes))


def resolve_inputs(
    program: Program, specs: InputSpecs, limits: Limits = MappingProxyType({})
) -> dict[str, LogicalTensor]:
    """dtype and shape of every pnnx.Input by operator name, in the file's order; dynamic sizes within their `limits`.

    Sizes written `?` are dynamic, each for itself; those of one `%name` are equal. Raise UserError for specs that
    contradict the file, and, naming all of them at once, for inputs whose dtype or number of axes is unknown.
    """
    label = program.label
    declared = [_declaration(op, program) for op in program.operators if op.type == "pnnx.Input"]
    check_names(label, "input", specs, [d.name for d in declared])
    given = symbols_of(size for spec in specs.values() for size in spec.dims)
    names = DynamicNames(symbol.name for symbol in given)
    resolved: dict[str, LogicalTensor] = {}
    unresolved = []
    for d in declared:
        spec = specs.get(d.name)
        details = _details(d, names) if spec is None else _match(d, spec, label)
        if details is None:
            unresolved.append(d)
        else:
            dims = tuple(limited(size, limits) for size in details.plain_dims)
            resolved[d.name] = replace(details, plain_dims=dims)
    if unresolved:
        shown = ", ".join(f"'{d.name}' is {d}" for d in unresolved)
        example = " ".join(f"--input '{d.example}'" for d in unresolved)
        raise UserError(
            f"{label}: the type of every input must be given, but {shown} in the file; give it, like {example}"
        )
    return resolved


def _declaration(op: Operator, program: Program) -> DeclaredInput:
    annotation = _annotation(op, program)
    if annotation is None:
        return DeclaredInput(op.name, None, None)
    return DeclaredInput(op.name, annotation.dtype or annotation.part, annotation.dims)


def is_complex_input(op: Operator, program: Program) -> bool:
    """Return whether an input is of complex numbers, which are two inputs of their parts."""
    annotation = _annotation(op, program)
    return annotation is not None and annotation.part is not None


def _annotation(op: Operator, program: Program) -> TensorType | None:
    """The annotation of the operand, on its own line or on that of a consumer."""
    if len(op.outputs) != 1:
        raise UserError(
            f"{program.label} line {op.line}: {op} must have one output, got {len(op.outputs)}"
        )
    (operand,) = op.outputs
    for other in (op, *program.operators):
        if operand in other.types:
            return other.types[operand]
    return None


def _match(declared: DeclaredInput, spec: InputSpec, label: str) -> LogicalTensor:
    who = f"{label}: input '{declared.name}'"
    given = f"{spec.dtype}[{','.join(map(str, spec.dims))}]"
    if declared.dtype not in (None, spec.dtype):
        raise UserError(f"{who}: the file declares {declared}, got {given}; the dtype must agree")
    if declared.dims is not None:
        if len(declared.dims) != len(spec.dims):
            raise UserError(
                f"{who}: the file declares {declared}, got {given}; the number of axes must agree"
            )
        pairs = zip(declared.dims, spec.dims, strict=True)
        if any(isinstance(dim, int) and dim != size for dim, size in pairs):
            raise UserError(
                f"{who}: the file declares {declared}, got {given}; fixed sizes must agree"
            )
    return LogicalTensor(spec.dtype, spec.dims)
