"""Results that are written into the memory of an input: caches that grow, and buffers that keep their size.

before   %present = concat(%past[1,h,P,d], %new[1,h,1,d], axis=2), an output
after    %past[1,h,P+1+P_free,d]; %present = update_in_place(%past, %new, P), an output; who read the former %present
         reads the first P+1 of its rows, who read %past the first P
An input of a dynamic length on one axis becomes a buffer with room for more: only new rows are written. An input whose
result has its own type is updated in place without changes.
Requires: the graph as read. Ensures: the note `ALIASES` names each such pair, `graph.attrs["lengths"]` the sizes that
no input has any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base.aliases import Alias, free_name
from ...base.dims import Size, Symbol, size
from ...base.errors import UserError
from ...base.size_queries import lone_symbol
from ..ir.graph import Graph, GraphTensor, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.note import Note
from ..rewriting.rewrite import replace_ops

ALIASES: Note[tuple[Alias, ...]] = Note("aliases", tuple)


AUTO = "auto"
"""Stands for the names of all outputs that can lie in the memory of an input."""


def find_aliases(graph: Graph) -> dict[str, str]:
    """The input in whose memory each output can lie: which it extends along a dynamic axis, or replaces a part of.

    Raise UserError if there is none.
    """
    found: dict[str, str] = {}
    for output in graph.results:
        made = output.inputs[0].producer_owner
        given = made.inputs[0].producer_owner if made.inputs else made
        if not given.is_input or given.name in found.values():
            continue
        if _grows(made) or _is_replaced(made):
            found[str(output.attr("temp.result"))] = given.name
    if not found:
        raise UserError(
            f"graph '{graph.name}': no output is an input with new rows behind its own along a dynamic axis, "
            "or with a part replaced; leave the alias out to have all outputs in memory of their own"
        )
    return found


def _grows(op: Op) -> bool:
    """Return whether an op appends to its first operand along an axis of one dynamic size."""
    if op.op_name != "concat" or len(op.inputs) != 2:
        return False
    return lone_symbol(op.inputs[0].details.plain_dims[int(op.attr("axis"))]) is not None


def _is_replaced(op: Op) -> bool:
    """Return whether an op replaces a part of its first operand, which nothing else reads."""
    return op.op_name == "update_slice" and len(op.inputs[0].uses) == 1


def alias_outputs(graph: Graph, aliases: Mapping[str, str]) -> None:
    """Write each output of `aliases` into the memory of the input it is mapped to. Raise UserError if that cannot
    be."""
    found, lengths = [], dict[Size, None]()
    for number, (name, source) in enumerate(aliases.items()):
        output, given = _named(graph, name, source)
        if source in list(aliases.values())[:number]:
            raise UserError(
                f"input '{source}' can hold one output, got two; '{name}' is the second"
            )
        pair = graph.inputs.index(given), graph.outputs.index(output)
        if output.inputs[0].details == given.outputs[0].details:
            _update(graph, given, output)
            found.append(Alias(*pair))
            continue
        axis, before, after = _grow(graph, given, output)
        found.append(Alias(*pair, axis, before, after))
        lengths[before] = None
    _attend_in_place(graph)
    graph.attrs["lengths"] = tuple(lengths)
    graph.sort()
    ALIASES.set(graph, tuple(found))


def _named(graph: Graph, name: str, source: str) -> tuple[Op, Op]:
    outputs = {str(op.attr("temp.result")): op for op in graph.results}
    inputs = {op.name: op for op in graph.inputs}
    for what, wanted, known in (("output", name, outputs), ("input", source, inputs)):
        if wanted not in known:
            some = ", ".join(f"'{one}'" for one in [*known][:20])
            raise UserError(
                f"alias {name}={source}: there is no {what} '{wanted}'; known are {some}"
            )
    return outputs[name], inputs[source]


def _update(graph: Graph, given: Op, output: Op) -> None:
    """Turn the update of an input of the same type into one in place."""
    update = output.inputs[0].producer_owner
    x = given.outputs[0]
    if not _is_replaced(update) or update.inputs[0] is not x:
        raise _refused(
            given, output, "be the input with a part replaced, and nothing else may read it"
        )
    made = graph.make("update_in_place", update.inputs, update.attrs, f"{update.name}.kept")
    update.outputs[0].replace_uses(made.outputs[0])
    graph.remove([update])


def _grow(graph: Graph, given: Op, output: Op) -> tuple[int, Size, Size]:
    """Write rows behind those of an input, in its memory. The axis, and its sizes before and after."""
    joined, past = output.inputs[0].producer_owner, given.outputs[0]
    first = joined.op_name == "concat" and joined.inputs[0] is past
    if not first or len(joined.inputs) != 2:
        raise _refused(
            given, output, "be the input with new rows behind its own (a Concat of both)"
        )
    axis, new = int(joined.attr("axis")), joined.inputs[1]
    before, after = past.details.plain_dims[axis], joined.outputs[0].details.plain_dims[axis]
    length = lone_symbol(before)
    if length is None:
        raise _refused(given, output, f"grow along an axis of one dynamic size, not {before}")
    room = after + size(Symbol(free_name(length), 0))
    dims = past.details.plain_dims
    readers = [(i, user) for i, user in past.uses if user is not joined]
    past.details = LogicalTensor(past.details.dtype, (*dims[:axis], room, *dims[axis + 1 :]))
    given.attrs["details"] = past.details
    if readers:
        old = _first(graph, past, axis, before)
        for number, user in readers:
            user.set_input(number, old)
    start = graph.make("dynamic_sizes", [], {"values": (before,)}, f"{joined.name}.length").outputs[
        0
    ]
    scalar = graph.make("reshape", [start], {"shape": ()}, f"{joined.name}.start").outputs[0]
    attrs = {"axes": (axis,)}
    made = graph.make("update_in_place", [past, new, scalar], attrs, f"{joined.name}.grown")
    whole = made.outputs[0]
    users = [(i, user) for i, user in joined.outputs[0].uses if user is not output]
    if users:
        shown = _first(graph, whole, axis, after)
        for number, user in users:
            user.set_input(number, shown)
    output.set_input(0, whole)
    graph.remove([joined])
    return axis, before, after


def _attend_in_place(graph: Graph) -> None:
    """Give attention to a cache all rows of buffers of which it reads the first ones: it knows how many count."""

    def in_place(graph: Graph, op: Op) -> list[GraphTensor] | None:
        if op.op_name != "cached_attention":
            return None
        q, keys, values, lengths, *scales = op.inputs
        rows = [x.producer_owner for x in (keys, values, *scales)]
        if any(
            one.op_name != "slice" or one.inputs[0].producer_owner.op_name != "update_in_place"
            for one in rows
        ):
            return None
        keys, values, *scales = (one.inputs[0] for one in rows)
        operands = [q, keys, values, lengths, *scales]
        return graph.make(op.op_name, operands, op.attrs, f"{op.name}.in_place").outputs

    replace_ops(graph, in_place)


def _first(graph: Graph, x: GraphTensor, axis: int, count: Size) -> GraphTensor:
    """The first rows of a tensor along an axis."""
    dims = x.details.plain_dims
    sizes = (*dims[:axis], count, *dims[axis + 1 :])
    attrs = {"starts": (0,) * len(dims), "sizes": sizes}
    return graph.make("slice", [x], attrs, f"{x.producer_owner.name}.rows").outputs[0]


def _refused(given: Op, output: Op, rule: str) -> UserError:
    x, y = given.outputs[0].details, output.inputs[0].details
    name = output.attr("temp.result")
    return UserError(
        f"alias {name}={given.name}: output '{name}' must {rule}, got {y} by "
        f"{output.inputs[0].producer_owner.op_name} for {x}; leave the alias out to have it copied"
    )
