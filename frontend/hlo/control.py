"""Opcodes of tuples and computations: tuple, call, fusion, map, while, conditional, custom-call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import BOOL, S64, U32
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.control import While
from ...graph_ir.rewriting.trip_count import short_trip_count
from .reduction import top_k
from .scope import Handler, Step, flattened, restored
from .syntax import Called

_IDENTITY_TARGETS = (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
)


def _identity(step: Step) -> Any:
    return step.operands[0]


def _one_or_all(step: Step) -> Any:
    """Collectives of one replica are the identity."""
    return tuple(step.operands) if step.shape.is_tuple else step.operands[0]


def _tuple(step: Step) -> Any:
    return tuple(step.operands)


def _element(step: Step) -> Any:
    return step.operands[0][step.typed("index", int)]


def _token(step: Step) -> Any:
    return ()


def _zero(step: Step) -> GraphTensor:
    return step.constant(0, U32)


def _call(step: Step) -> Any:
    inline = step.owner.inline_mapped if step.is_mapped else step.owner.inline
    return inline(step.computation("to_apply"), step.operands)


def _fusion(step: Step) -> Any:
    inline = step.owner.inline_mapped if step.is_mapped else step.owner.inline
    return inline(step.computation("calls"), step.operands)


def _map(step: Step) -> Any:
    result = step.owner.inline_mapped(step.computation("to_apply"), step.operands)
    return step.broadcast(result, step.dims(0))


def _while(step: Step) -> Any:
    """A loop in the graph; a short one of known length is unrolled, so that more of its values are known."""
    condition, body = step.computation("condition"), step.computation("body")
    state = step.operands[0]
    flat = list(flattened(state))
    if not flat:
        raise step.unsupported("a loop without a state")
    attrs = {
        "condition": step.owner.subgraph(condition, [state]),
        "body": step.owner.subgraph(body, [state]),
    }
    loop = step.graph.make("while", flat, attrs, step.instruction.name)
    assert isinstance(loop, While)
    trips = short_trip_count(loop, step.known)
    if trips is None:
        return restored(state, loop.outputs)
    step.graph.remove([loop])
    for _ in range(trips):
        state = step.owner.inline(body, [state])
    return state


def _conditional(step: Step) -> Any:
    """A branch in the graph; one known at import is inlined."""
    names = step.attribute("branch_computations")
    if names is None:
        names = (step.typed("true_computation", Called), step.typed("false_computation", Called))
    branches = [step.owner.module.computations[called.name] for called in names]
    index = step.tensor(0)
    if index.details.dtype == BOOL:
        index = step.make("select", index, step.constant(0), step.constant(1))
    index = step.cast(index, S64)
    known = step.known(index)
    if known is not None:
        chosen = int(known) if 0 <= int(known) < len(branches) else len(branches) - 1
        return step.owner.inline(branches[chosen], [step.operands[1 + chosen]])
    operands = step.operands[1:]
    graphs = tuple(
        step.owner.subgraph(branch, operands, number) for number, branch in enumerate(branches)
    )
    inputs = [index, *flattened(tuple(operands))]
    choice = step.graph.make("case", inputs, {"branches": graphs}, step.instruction.name)
    return restored(step.shape, choice.outputs)


def _custom_call(step: Step) -> Any:
    target = step.attribute("custom_call_target", "")
    if target in _IDENTITY_TARGETS and len(step.operands) == 1:
        return step.operands[0]
    if target in ("TopK", "mhlo.topk") and step.shape.is_tuple:
        largest = "largest = false" not in str(step.attribute("frontend_attributes", ""))
        largest = largest and "largest = false" not in str(step.attribute("backend_config", ""))
        return top_k(step, step.tensor(0), step.shape.elements[0].dims[-1], largest)
    if target == "mhlo.erf":
        return step.make("erf", step.tensor(0))
    raise step.unsupported(f"target '{target}'")


def _dimension_size(step: Step) -> GraphTensor:
    (axis,) = step.attribute("dimensions")
    return step.constant(np.int32(step.dims(0)[axis]), step.dtype)


_IDENTITIES = (
    "copy opt-barrier domain add-dependency copy-start copy-done all-gather reduce-scatter collective-permute "
    "collective-broadcast"
)

CONTROL: dict[str, Handler] = {
    **dict.fromkeys(_IDENTITIES.split(), _identity),
    **dict.fromkeys(("all-reduce", "all-to-all"), _one_or_all),
    **dict.fromkeys(("partition-id", "replica-id"), _zero),
    "tuple": _tuple,
    "get-tuple-element": _element,
    "after-all": _token,
    "call": _call,
    "fusion": _fusion,
    "map": _map,
    "while": _while,
    "conditional": _conditional,
    "custom-call": _custom_call,
    "get-dimension-size": _dimension_size,
}
"""Opcode to handler."""
