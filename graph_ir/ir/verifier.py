"""The rules of a legal graph: a flat list, run after every pass under `options.verify`.

A rule yields (op, what is wrong with it); op is None where no single op is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ...base.errors import InternalError, UserError
from .format import Format
from .graph import Graph, Op, subgraphs_of
from .logical_tensor import LogicalTensor

Violation = tuple[Op | None, str]
Rule = Callable[[Graph], Iterator[Violation]]


def verify(graph: Graph, show: Callable[[Op], str] = repr) -> None:
    """Check every rule on a graph and its subgraphs. InternalError at the first violation, with an excerpt of ops
    by `show`."""
    pending, seen = [graph], {id(graph)}
    while pending:
        current = pending.pop()
        for rule in RULES:
            for op, violation in rule(current):
                who = f"op '{op.name}'" if op is not None else "it"
                raise InternalError(
                    f"graph '{current.name}': {who} {violation}", _excerpt(op, show)
                )
        for op in current.ops:
            for inner in subgraphs_of(op):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    pending.append(inner)


def _ids_are_dense(graph: Graph) -> Iterator[Violation]:
    for position, op in enumerate(graph.ops):
        if op.logical_op_id != position:
            yield op, f"must have logical_op_id {position}, got {op.logical_op_id}"


def _names_are_unique(graph: Graph) -> Iterator[Violation]:
    names = Counter(op.name for op in graph.ops)
    for op in graph.ops:
        if names[op.name] > 1:
            yield op, "shares its name with another op"


def _outputs_belong_to_their_op(graph: Graph) -> Iterator[Violation]:
    for op in graph.ops:
        if any(tensor.producer_owner is not op for tensor in op.outputs):
            yield op, "has an output that says another op produces it"


def _inputs_are_defined_above(graph: Graph) -> Iterator[Violation]:
    above: set[int] = set()
    for op in graph.ops:
        for index, tensor in enumerate(op.inputs):
            if id(tensor) not in above:
                yield (
                    op,
                    f"reads '{tensor.producer_owner.name}' (input {index}), not produced above it",
                )
        above.update(id(tensor) for tensor in op.outputs)


def _uses_mirror_inputs(graph: Graph) -> Iterator[Violation]:
    reads = Counter((id(x), i, id(op)) for op in graph.ops for i, x in enumerate(op.inputs))
    listed = Counter((id(y), i, id(u)) for op in graph.ops for y in op.outputs for i, u in y.uses)
    for op in graph.ops:
        for index, tensor in enumerate(op.inputs):
            if listed[id(tensor), index, id(op)] != 1:
                yield op, f"reads input {index}, but is not among the uses of '{tensor.name}' once"
        for tensor in op.outputs:
            for index, user in tensor.uses:
                if not reads[id(tensor), index, id(user)]:
                    yield op, f"lists a use by '{user.name}' (input {index}) that does not exist"


def _outputs_come_last(graph: Graph) -> Iterator[Violation]:
    seen_output = False
    for op in graph.ops:
        if seen_output and not op.is_output:
            yield op, "must come before the outputs"
        seen_output |= op.is_output


def _formats_have_the_rank(graph: Graph) -> Iterator[Violation]:
    for op in graph.ops:
        for tensor in op.outputs:
            details = tensor.details
            if not isinstance(details.format, Format) or details.format.rank != details.rank:
                yield op, f"has a tensor of rank {details.rank} in the format {details.format}"


def _inference_agrees(graph: Graph) -> Iterator[Violation]:
    for op in graph.ops:
        try:
            inferred = op.infer([x.details for x in op.inputs])
        except UserError as error:
            yield op, f"does not accept its inputs: {error}"
            continue
        if [_shape(y.details) for y in op.outputs] != [_shape(details) for details in inferred]:
            got = ", ".join(str(y.details) for y in op.outputs)
            yield op, f"must produce ({', '.join(map(str, inferred))}), got ({got})"


RULES: tuple[Rule, ...] = (
    _ids_are_dense,
    _names_are_unique,
    _outputs_belong_to_their_op,
    _inputs_are_defined_above,
    _uses_mirror_inputs,
    _outputs_come_last,
    _formats_have_the_rank,
    _inference_agrees,
)


def _shape(details: LogicalTensor) -> tuple[str, tuple[int, ...]]:
    return details.dtype.name, details.plain_dims


def _excerpt(op: Op | None, show: Callable[[Op], str]) -> str:
    """The op with the ops it reads from and those that read it."""
    if op is None:
        return ""
    producers = [tensor.producer_owner for tensor in op.inputs]
    users = [user for tensor in op.outputs for _, user in tensor.uses]
    unique = {id(neighbor): neighbor for neighbor in (*producers, op, *users)}
    return "\n".join(f"{'>' if o is op else ' '} {show(o)}" for o in unique.values())
