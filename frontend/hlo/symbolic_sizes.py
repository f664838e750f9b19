"""StableHLO of symbolic sizes, whose parameters get the sizes that the caller gives: jaxlib computes all others."""

from __future__ import annotations

import re
from typing import Any

from ...base.dims import is_known
from ...base.errors import UnsupportedError, UserError
from ..shape_spec import InputSpec

_NAMES = re.compile(r"(?:arg|Arg_)(\d+)(?:\.\d+)?")
"""Parameter names in StableHLO and in the HLO text made of it."""


def with_sizes(module: bytes, specs: dict[str, InputSpec]) -> bytes | None:
    """Return a StableHLO module with all sizes known; None where its main function has no symbolic sizes.

    The specs of its parameters are taken out: the HLO text has other names. UnsupportedError, naming them, for sizes
    that no spec fixes; raise UserError for specs that contradict the module.
    """
    from jax.interpreters import mlir
    from jaxlib import _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context() as context, ir.Location.unknown():
        main = _main_function(ir, context, module)
        if main is None:
            return None
        types = [argument.type for argument in main.arguments]
        if all(_is_static(ir, kind) for kind in types):
            return None
        found = {match[1]: match[0] for match in map(_NAMES.fullmatch, specs) if match}
        given = {number: specs.pop(name) for number, name in found.items()}
        fixed = [_fixed(ir, kind, i, given.get(str(i))) for i, kind in enumerate(types)]
        open_ = [f"'arg{i}' is {kind}" for i, kind in enumerate(fixed) if not _is_static(ir, kind)]
        if open_:
            raise UnsupportedError(
                f"StableHLO of symbolic sizes is not supported without their numbers: {', '.join(open_)}",
                "give them, like inputs={'arg0': 'f32[4,8]'}",
            )
        with ir.InsertionPoint.at_block_begin(main.entry_block):
            for argument, old, kind in zip(main.arguments, types, fixed, strict=True):
                if kind != old:  # what reads it has the symbolic type until sizes are computed
                    argument.set_type(kind)
                    symbolic = stablehlo.ConvertOp(old, argument)
                    argument.replace_all_uses_except(symbolic.result, symbolic.operation)
        results = main.type.results
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(fixed, results))
        text = str(main.operation.parent)
        return bytes(_jax.mlir.refine_polymorphic_shapes(text.encode()))


def _main_function(ir: Any, context: Any, module: bytes) -> Any:
    """The operation of the main function; None where there is none, or the module is not one of MLIR."""
    from jaxlib import _jax

    try:
        parsed = ir.Module.parse(module)
    except ir.MLIRError:
        return None
    if "main" not in (
        names := ir.SymbolTable(parsed.operation)
    ):  # in what versions of StableHLO share
        parsed = _jax.mlir.deserialize_portable_artifact(module, context)
        names = ir.SymbolTable(parsed.operation)
    if "main" not in names:
        return None
    return names["main"]


def _is_static(ir: Any, kind: Any) -> bool:
    return not isinstance(kind, ir.RankedTensorType) or bool(kind.has_static_shape)


def _fixed(ir: Any, kind: Any, number: int, spec: InputSpec | None) -> Any:
    """The type of a parameter with the sizes of its spec."""
    if spec is None or _is_static(ir, kind):
        return kind
    axes = range(kind.rank)
    dims = [None if kind.is_dynamic_dim(axis) else kind.get_dim_size(axis) for axis in axes]
    if len(spec.dims) != len(dims) or any(
        known not in (None, size) for known, size in zip(dims, spec.dims, strict=True)
    ):
        shown = ",".join("?" if size is None else str(size) for size in dims)
        raise UserError(f"input 'arg{number}' must be [{shown}], as in the module, got {spec}")
    return ir.RankedTensorType.get(spec.dims, kind.element_type) if is_known(*spec.dims) else kind
