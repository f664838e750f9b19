"""Results of a program that are views of what it is called with: PyTorch's own calls make them, of what it is given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..base.errors import UnsupportedError
from ..base.records import dataclass
from ..frontend.torch.program import mutated_states
from .torch_layouts import memory_of


@dataclass(frozen=True)
class InputViews:
    """`results`: their positions among the results of a program. `of` gives them, from the tensors that the program
    takes, when these have their new values."""

    results: tuple[int, ...]
    of: Any


def views_of_inputs(program: Any) -> InputViews:
    """Return the results of an ExportedProgram that alias its inputs or the buffers that it changes.

    Raise UnsupportedError for a view that depends on what is computed.
    """
    import torch

    taken = taken_by(program)
    replay = torch.fx.Graph()
    made = {node: replay.placeholder(node.name) for node in taken.values()}
    signature, (output,) = program.graph_signature, program.graph.find_nodes(op="output")
    results = list(zip(signature.output_specs, output.args[0], strict=True))
    for i, name in written_by(program).items():  # what is written to it is then a name of it
        made.setdefault(results[i][1], made[taken[name]])
    found = [
        (i, node)
        for i, (spec, node) in enumerate(results)
        if spec.kind.name == "USER_OUTPUT"
        and _memory(node) is not None
        and _origin(node, made) in made
    ]
    for _, node in found:
        _replay(node, made, replay)
    replay.output(tuple(made[node] for _, node in found))
    return InputViews(tuple(i for i, _ in found), torch.fx.GraphModule({}, replay))


def taken_by(program: Any) -> Mapping[str, Any]:
    """The placeholders of tensors that a program is called with, then of states that it changes, by their names."""
    specs = program.graph_signature.input_specs
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    mutated = mutated_states(program)
    names = [s.arg.name for s in specs if s.kind.name == "USER_INPUT"]
    names += [s.arg.name for s in specs if s.kind.name != "USER_INPUT" and s.target in mutated]
    return {name: nodes[name] for name in names if hasattr(nodes[name].meta.get("val"), "stride")}


def written_by(program: Any) -> Mapping[int, str]:
    """The results of a program that are new values of what it is called with, and the names of these placeholders."""
    signature = program.graph_signature
    names = {s.target: s.arg.name for s in signature.input_specs if s.kind.name != "USER_INPUT"}
    return {
        i: spec.target if spec.kind.name == "USER_INPUT_MUTATION" else names[spec.target]
        for i, spec in enumerate(signature.output_specs)
        if "MUTATION" in spec.kind.name
    }


def _memory(node: Any) -> int | None:
    example: Any = getattr(node, "meta", {}).get("val")
    return memory_of(example) if hasattr(example, "stride") else None


def _viewed(node: Any) -> Any:
    """Return the node that a node is a view of; None if it has separate memory."""
    memory = _memory(node)
    same = (x for x in node.all_input_nodes if memory is not None and _memory(x) == memory)
    return next(same, None)


def _origin(node: Any, known: Collection[Any]) -> Any:
    """The first of `known` that a node is a view of, or what its memory was made by."""
    while node not in known and (before := _viewed(node)) is not None:
        node = before
    return node


def _replay(node: Any, made: dict[Any, Any], graph: Any) -> None:
    """Add the calls that make a view, or a number for one, to `graph`."""
    import torch

    if node in made:
        return
    if node.op != "call_function" or (_memory(node) is not None and _viewed(node) is None):
        what = f"a view of an input by '{node.name}', which is computed,"
        raise UnsupportedError(f"{what} is not supported", "return a copy of it")
    for x in node.all_input_nodes:
        _replay(x, made, graph)
    made[node] = graph.node_copy(node, made.__getitem__)
    # `reshape` was recorded as the view that it is for the strides of the example.
    if node.target is torch.ops.aten.view.default:
        made[node].target = torch.ops.aten.reshape.default
