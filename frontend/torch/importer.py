"""Imports an exported program: parameters as constants, its inputs, its calls, its outputs and what it mutates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...base.errors import UnsupportedError, UserError
from ...base.size_limits import limited
from ...base.symbols import Limits
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.compositions.complex_numbers import Complex
from ..refusals import DEFINED
from ..shape_spec import InputSpecs, check_names, dynamic_name
from ..torch_calls.call import make_checks
from .complex_numbers import constant_of
from .fx_reader import MISSING, Values, read_nodes, source_line
from .guards import require_guards
from .program import decomposed, guards_of, mutated_states, open_program
from .sizes import Sizes
from .subgraph import attributes_of
from .tensors import details_of, dtype_of

_MAX_REASONS = 20  # in a message
_WHO = "exported program"


def load_exported(
    source: Any, specs: InputSpecs | None = None, limits: Limits | None = None
) -> Graph:
    """Read an ExportedProgram, or a `.pt2` file of one. Sizes that were exported as dynamic stay dynamic, named after
    their input and axis, unless `specs` fixes or names them; `limits` are what ops need of those.

    Outputs are those of the program, then the new values of mutated buffers and inputs; mutated buffers are inputs,
    after those of the program. Raise UserError or UnsupportedError for everything not handled, in one message.
    """
    program = decomposed(open_program(source))
    sizes = Sizes(limits, ranges=program.range_constraints)
    graph, values = Graph("exported"), _inputs(program, specs or {}, sizes)
    for node, value in values.items():
        if isinstance(value, LogicalTensor):
            values[node] = graph.make_input(value, node.name)
        elif not isinstance(value, (int, float, str, type(None))):
            values[node] = constant_of(graph, *value)
    values |= attributes_of(graph, program.graph_module, sizes, pairs=True)
    refused = read_nodes(graph, _calls(program), values, sizes, pairs=True)
    if (
        refused
    ):  # what reads such a call without a tensor to stand in for it follows from that refusal
        missing = {node for node in refused if values[node] is MISSING}
        told = {n: r for n, r in refused.items() if missing.isdisjoint(n.all_input_nodes)}
        raise UnsupportedError(f"{_WHO}: {_listed(told or refused)}", DEFINED)
    for name, value in _results(program, values):
        graph.make_output(value, name)
    if not graph.outputs:
        raise UserError(f"{_WHO}: a model must have an output, but none of its results is a tensor")
    placed = ((node.name, value) for node, value in values.items() if node.op == "placeholder")
    dims = {n: x.details.plain_dims if isinstance(x, GraphTensor) else None for n, x in placed}
    require_guards(graph, guards_of(program), dims)
    make_checks(graph)
    return graph


def _listed(refused: Mapping[Any, str]) -> str:
    """Every reason once, with its number of calls and the first line of the model's source where it is met."""
    lines: dict[str, list[str]] = {}
    for node, reason in refused.items():
        lines.setdefault(reason.replace(f" '{node.name}'", "", 1), []).append(source_line(node))
    told = []
    for reason, lines_of in [*lines.items()][:_MAX_REASONS]:
        first = f", first at {lines_of[0]}" if lines_of[0] else ""
        told.append(f"{reason} ({len(lines_of)}x{first})")
    left = len(lines) - len(told)
    return "; ".join(told) + (f"; and {left} more" if left else "")


def _calls(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "call_function"]


# Inputs.


def _inputs(program: Any, specs: InputSpecs, sizes: Sizes) -> Values:
    """Return the values of placeholders: types of inputs, (tensor, name) of constants, Python values; inputs first."""
    signature = program.graph_signature
    kinds = {spec.arg.name: spec for spec in signature.input_specs}
    mutated = mutated_states(program)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    users = [node for node in nodes if kinds[node.name].kind.name == "USER_INPUT"]
    states = [node for node in nodes if kinds[node.name].target in mutated]
    check_names(_WHO, "input", specs, [node.name for node in (*users, *states)])
    tensors = [node for node in (*users, *states) if hasattr(node.meta.get("val"), "shape")]
    _name_sizes([node for node in tensors if node.name in specs], specs, sizes)
    _name_sizes(tensors, {}, sizes)
    values: Values = {
        node: _input(node, kinds[node.name], specs, sizes) for node in (*users, *states)
    }
    for node in nodes:
        if kinds[node.name].kind.name == "TOKEN":  # orders effects, of which none is kept
            values[node] = None
        elif node not in values:
            target = kinds[node.name].target
            values[node] = (_held(program, target), target)
    return values


def _name_sizes(nodes: Iterable[Any], specs: InputSpecs, sizes: Sizes) -> None:
    """Dynamic sizes are what the specs of their inputs say, or are called after the first input that has them."""
    for node in nodes:
        given = specs[node.name].dims if node.name in specs else ()
        for axis, dim in enumerate(node.meta["val"].shape):
            value = given[axis] if axis < len(given) else None
            sizes.bind(dim, dynamic_name(node.name, axis), value)


def _input(node: Any, spec: Any, specs: InputSpecs, sizes: Sizes) -> Any:
    """The type of an input, the value of one that is not a tensor."""
    tensor = node.meta.get("val")
    if not hasattr(tensor, "shape"):
        return getattr(spec.arg, "value", tensor)
    details = details_of(tensor, f"input '{node.name}'", sizes)
    if details is None:
        raise UnsupportedError(
            f"{_WHO}: the sizes of input '{node.name}' are not supported", "export them as numbers"
        )
    given = specs.get(node.name)
    if given is None:
        return details
    dims = tuple(limited(dim, sizes.limits) for dim in given.dims)
    if (details.dtype, details.plain_dims) != (given.dtype, dims):
        raise UserError(
            f"{_WHO}: input '{node.name}' is {_declared(node)} in it, got {given}; "
            "fixed and equal sizes must agree"
        )
    return details


def _declared(node: Any) -> str:
    tensor = node.meta["val"]
    return f"{dtype_of(tensor, node.name)}[{','.join(map(str, tensor.shape))}]"


def _held(program: Any, target: str) -> Any:
    """A parameter, a buffer or a constant of the program."""
    for known in (program.state_dict, program.constants):
        if target in known:
            return known[target]
    raise UnsupportedError(
        f"{_WHO}: '{target}' that is not a tensor is not supported",
        "make it an attribute of the module",
    )


# Outputs.


def _results(program: Any, values: Values) -> Iterator[tuple[str, GraphTensor]]:
    """The tensors of the program's result, by their keys in it, then the new values of what it mutates, by its name."""
    specs = program.graph_signature.output_specs
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    pairs = list(zip(specs, output.args[0], strict=True))
    users = [(spec, node) for spec, node in pairs if spec.kind.name == "USER_OUTPUT"]
    names = _keys(program, len(users))
    found = [(name, node) for name, (_, node) in zip(names, users, strict=True)]
    found += [(spec.target, node) for spec, node in pairs if "MUTATION" in spec.kind.name]
    for name, node in found:
        value = values.get(node) if hasattr(node, "op") else None
        if isinstance(value, Complex):
            what = f"{_WHO}: '{name}', a result of complex numbers, is not supported"
            raise UnsupportedError(what, "return torch.view_as_real of it")
        if isinstance(value, GraphTensor):
            yield name, value


def _keys(program: Any, count: int) -> list[str]:
    """Return the names of the results: their keys in a dictionary or a data class, else `output`, `output.0`."""
    import torch
    from torch.utils import _pytree as pytree

    # Of tensors, as some classes have no other leaves.
    some = [torch.empty(0, device="meta") for _ in range(count)]
    tree = pytree.tree_unflatten(some, program.call_spec.out_spec)
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return [_joined(path) for path, _ in leaves] if count else []


def _joined(path: Any) -> str:
    """`logits`, `caches.0.key`; `output` in front where there is no name to begin with."""
    keys = [getattr(part, "key", getattr(part, "name", getattr(part, "idx", ""))) for part in path]
    named = keys if keys and isinstance(keys[0], str) else ["output", *keys]
    return ".".join(map(str, named))
