"""Opcodes of tuples and computations: tuple, call, fusion, map, while, conditional."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import BOOL, S32, S64
from ...graph_ir.ir.graph import Graph, Op
from ...graph_ir.ops.control import Case, While
from ...graph_ir.rewriting.trip_count import short_trip_count
from ..correspondence.reading import Pair
from ..correspondence.writing import Write
from .frame import Value, Writer
from .frame import shape_of as shape_text
from .scope import Handler, Step
from .shapes import HLO_NAMES, Shape, tuple_shape
from .values import flattened, restored, shape_of


def _identity(step: Step, _: str = "") -> Any:
    step.count(1, -1)
    return step.operands[0]


def _element(step: Step) -> Any:
    step.count(1)
    value, index = step.operands[0], step.attribute("index")
    if not isinstance(value, tuple) or not 0 <= index < len(value):
        raise step.fail(
            f"index must be that of an element of {shape_of(value).logical()}, got {index}"
        )
    return value[index]


def _token(step: Step) -> Any:
    return ()


def _calling(name: str) -> Handler:
    def call(step: Step) -> Any:
        if step.is_mapped:
            return step.owner.inline_mapped(step.computation(name), step.operands)
        return step.owner.inline(step.called(name, step.operands), step.operands)

    return call


def _map(step: Step) -> Any:
    step.count(1, -1)
    tensors, body = step.alike(step.tensors()), step.computation("to_apply")
    step.takes("to_apply", body, [Shape(HLO_NAMES[x.details.dtype]) for x in tensors])
    mapped = step.owner.inline_mapped(body, tensors)
    return step.broadcast(mapped, tensors[0].details.plain_dims)


def _while(step: Step) -> Any:
    """A loop in the graph; a short one of known length is unrolled, so that more of its values are known."""
    step.count(1)
    state = step.operands[0]
    condition, body = (step.called(name, [state]) for name in ("condition", "body"))
    flat = list(flattened(state))
    if not flat:
        raise step.unsupported("a loop without a state")
    attrs = {
        "condition": step.owner.subgraph(condition, [state]),
        "body": step.owner.subgraph(body, [state]),
    }
    for name, called, wanted in (
        ("condition", condition, Shape("pred")),
        ("body", body, shape_of(state)),
    ):
        given = step.result(called)
        if not given.matches(wanted):
            raise step.rule(f"{name} must give {wanted.logical()}", given.logical())
    loop = step.graph.make("while", flat, attrs, step.name)
    assert isinstance(loop, While)
    trips = short_trip_count(loop, step.known)
    if trips is None:
        return restored(shape_of(state), loop.outputs)
    step.graph.remove([loop])
    for _ in range(trips):
        state = step.owner.inline(body, [state])
    return state


def _conditional(step: Step) -> Any:
    """A branch in the graph; one known at import is inlined."""
    names = step.attribute("branch_computations", None)
    if names is None:
        names = (step.attribute("true_computation"), step.attribute("false_computation"))
    branches = [step.named(called) for called in names]
    step.count(1 + len(branches))
    index, *operands = step.tensor(0), *step.operands[1:]
    if shape_of(index) not in (Shape("pred"), Shape("s32")):
        raise step.rule("operand 0 must be pred[] or s32[]", step.shown(index))
    for branch, operand in zip(branches, operands, strict=True):
        step.takes(f"branch '{branch.name}'", branch, [operand])
    first, *others = (step.result(branch) for branch in branches)
    for other in others:
        if not other.matches(first):
            rule = "branches must give one shape"
            raise step.rule(rule, f"{first.logical()} and {other.logical()}")
    if index.details.dtype == BOOL:
        index = step.make("select", index, step.constant(0), step.constant(1))
    index = step.converted(index, S64)
    known = step.known(index)
    if known is not None:
        chosen = int(known) if 0 <= int(known) < len(branches) else len(branches) - 1
        return step.owner.inline(branches[chosen], [operands[chosen]])
    graphs = tuple(
        step.owner.subgraph(branch, operands, number) for number, branch in enumerate(branches)
    )
    inputs = [index, *flattened(tuple(operands))]
    choice = step.graph.make("case", inputs, {"branches": graphs}, step.name)
    return restored(first, choice.outputs)


_IDENTITIES = ("opt-barrier", "domain", "add-dependency")


def _write_identity(writer: Writer, op: Op, _: str = "") -> Value:
    return writer.operand(op.inputs[0])


PAIRS = {"copy": Pair(_identity, _write_identity)}
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_IDENTITIES, _identity), "tuple": lambda step: tuple(step.operands),
    "get-tuple-element": _element, "after-all": _token, "call": _calling("to_apply"),
    "fusion": _calling("calls"), "map": _map, "while": _while, "conditional": _conditional,
}  # fmt: skip
MAPPED = {
    name: HANDLERS[name] for name in ("tuple", "get-tuple-element", "call", "fusion", "opt-barrier")
}
"""Opcodes that scalar computations may hold."""


def _write_case(writer: Writer, op: Case) -> None:
    """The index is clamped before it is narrowed, so that one outside stays outside."""
    index, *inputs = writer.operands(op)
    low, high = (writer.constant(number, S64) for number in (-1, len(op.branches)))
    number = writer.cast(writer.apply("clamp", [low, index, high], S64, ()), S32)
    names = [_write_computation(writer, branch) for branch in op.branches]
    details = [y.details for y in op.outputs]
    results = tuple_shape(tuple(shape_text(x.dtype, x.plain_dims) for x in details))
    state = writer.tuple(inputs)
    operation = writer.operation(
        "conditional", [number, *[state] * len(names)], branch_computations=names
    )
    writer.bind(op, writer.elements(writer.add(operation, results, op.name)))


def _write_while(writer: Writer, op: While) -> None:
    """Loop-invariant values are carried with the state."""
    state = writer.tuple(writer.operands(op))
    condition = _write_computation(writer, op.condition, is_condition=True)
    body = _write_computation(writer, op.body, op.carried)
    operation = writer.operation("while", [state], condition=condition, body=body)
    writer.bind(op, writer.elements(writer.add(operation, state.shape, op.name)))


def _write_computation(
    writer: Writer, graph: Graph, passed_on: int | None = None, is_condition: bool = False
) -> str:
    """The name of a subgraph's computation; `passed_on`: inputs from that one on follow its results."""
    inner = writer.inner(graph)
    details = [op.outputs[0].details for op in graph.inputs]
    shape = tuple_shape(tuple(shape_text(x.dtype, x.plain_dims) for x in details))
    state = inner.add("parameter(0)", shape, "state")
    given = inner.elements(state)
    results = inner.results(given) + ([] if passed_on is None else given[passed_on:])
    root = results[0] if is_condition else inner.tuple(results, "result")
    return writer.define(inner, [state], root)


EXPORTERS: dict[str, Write] = {
    "case": _write_case,
    "while": _write_while,
    "reorder": _write_identity,  # layouts in memory change no value
}
