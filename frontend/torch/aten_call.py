"""One call of an operator of ATen that another format has: PyTorch expresses it by operators that are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dims import Dim, evaluate, symbols_of
from ...base.dtypes import F32
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.rewriting.subgraph import inline
from ..shape_spec import InputSpec
from .importer import load_exported
from .tensors import torch_dtype


def has_operator(name: str) -> bool:
    """Return whether PyTorch is installed and has an operator `aten::name`."""
    try:
        import torch
    except ImportError:
        return False
    return hasattr(torch.ops.aten, name)


def read_call(name: str, call: Any) -> tuple[GraphTensor, ...]:
    """The results of `aten::name` of the values of a call: tensors of its graph, numbers and lists. May raise
    UnsupportedError."""
    import torch
    from torch.utils import _pytree as pytree

    overload, arguments = _bound(getattr(torch.ops.aten, name), call)
    leaves, tree = pytree.tree_flatten(arguments)
    tensors = [x for x in leaves if isinstance(x, GraphTensor)]
    keys = [one.name if one.kwarg_only else "" for one in overload._schema.arguments]

    class Operator(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *given: Any) -> Any:
            left = iter(given)
            values = [next(left) if isinstance(x, GraphTensor) else x for x in leaves]
            pairs = list(zip(keys, pytree.tree_unflatten(values, tree), strict=True))
            named = {key: value for key, value in pairs if key}
            return overload(*(value for key, value in pairs if not key), **named)

    program = _exported(call, Operator(), [x.details for x in tensors])
    specs = {
        name: InputSpec("", x.details.dtype, x.details.plain_dims)
        for name, x in zip(program.graph_signature.user_inputs, tensors, strict=True)
    }
    inner = load_exported(program, specs)
    values = inline(call.graph, inner, dict(enumerate(tensors)))
    for message, holds in zip(reversed(inner.checks), reversed(values), strict=False):
        call.require(holds, message)
    return tuple(values[: len(inner.results)])


def _exported(call: Any, module: Any, inputs: Sequence[LogicalTensor]) -> Any:
    """The program of a module, whose dynamic sizes may all be different, or else must be equal."""
    import torch

    known = symbols_of(size for x in inputs for size in x.plain_dims)
    auto, reason = torch.export.Dim.AUTO, ""
    shapes = tuple(
        {i: auto for i, n in enumerate(x.plain_dims) if isinstance(n, Dim)} for x in inputs
    )
    for step in (2, 0):
        sizes = {symbol.name: 5 + step * i for i, symbol in enumerate(known)}
        examples = tuple(
            torch.zeros([evaluate(n, sizes) for n in x.plain_dims], dtype=torch_dtype(x.dtype))
            for x in inputs
        )
        try:
            program = torch.export.export(module, examples, dynamic_shapes=(shapes,))
        except Exception as error:  # noqa: BLE001 - of any kind
            reason = str(error).partition("\n")[0]
            continue
        made = [n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder"]
        if all(
            not str(x[i]).isdigit() for x, axes in zip(made, shapes, strict=False) for i in axes
        ):
            return program
        reason = "it fixes dynamic sizes"
    raise call.unsupported(f"a call that torch.export does not take apart ({reason})")


def _bound(packet: Any, call: Any) -> tuple[Any, list[Any]]:
    """Return the overload of an operator that takes the values of a call by position and others by name, and all of
    its arguments."""
    count = len(call.values)
    for name in packet.overloads():
        formals = getattr(packet, name)._schema.arguments
        left = [call.argument(one.name, one.default_value) for one in formals[count:]]
        found, kinds = [*call.values, *left], [str(one.type) for one in formals]
        for i, (value, kind) in enumerate(zip(found, kinds, strict=False)):
            if kind == "Tensor" and isinstance(value, list):  # numbers in the file
                found[i] = call.constant(value, F32)
            elif kind.startswith("List") and value is None:  # as the tool writes an empty one
                found[i] = []
        is_plain = len(found) == len(kinds) and not any(one.is_out for one in formals)
        if is_plain and all(map(_fits, found, kinds)):
            return getattr(packet, name), found
    raise call.rule("the arguments must be those of an operator of PyTorch", str(count))


def _fits(value: Any, kind: str) -> bool:
    """Return whether a value can be an argument of a type of PyTorch's schemas."""
    if value is None:
        return kind.startswith("Optional")
    is_tensor = isinstance(value, GraphTensor)
    return is_tensor == ("Tensor" in kind) if not isinstance(value, list) else "List" in kind
