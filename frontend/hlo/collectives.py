"""Operations between devices, read for one device, which is replica and partition 0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...base.dtypes import U32
from ...graph_ir.ir.graph import GraphTensor
from ..refusals import HOST
from .scope import Handler, Step
from .syntax import Computation, Instruction
from .values import fits


def _one_replica(step: Step) -> Any:
    """Collectives of one replica are the identity; an array that the others would change the size of is refused."""
    step.count(1, -1)
    value = tuple(step.operands) if step.gives_tuple else step.operands[0]
    if not fits(step.shape, value):
        raise step.unsupported("more than one replica", "compile the module for one")
    return value


def _permute(step: Step) -> Any:
    """Return what this device receives: its own values, or zeros if it receives none.

    With slice_sizes, slices of the first operand are written into the second, which is unchanged where none arrive.
    """
    pairs = re.findall(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}", step.word("source_target_pairs"))
    sources = {source for source, target in pairs if target == "0"}
    if sources - {"0"}:
        raise step.unsupported("more than one replica", "compile the module for one")
    if IN_PLACE in step.instruction.attributes:
        step.count(4)
        if sources:
            raise step.unsupported("slices that a device sends to itself", "copy them")
        return step.operands[1]
    step.count(1, -1)
    received = tuple(x if sources else _zeros_like(step, x) for x in step.tensors())
    return received if step.gives_tuple else received[0]


def _zeros_like(step: Step, x: GraphTensor) -> GraphTensor:
    return step.broadcast(step.constant(0, x.details.dtype), x.details.plain_dims)


def _zero(step: Step) -> GraphTensor:
    return step.constant(0, U32)


def _send(step: Step) -> Any:
    """The value waits for the `recv` of its channel."""
    step.count(1, 2)
    _one_device(step)
    x = step.tensor(0)
    step.owner.sent[id(step.graph), _channel(step)] = x
    return (x, step.constant(0, U32), ())


def _recv(step: Step) -> Any:
    """The value that was sent on the channel."""
    step.count(0, 1)
    _one_device(step)
    channel = _channel(step)
    sent = step.owner.sent.get((id(step.graph), channel))
    if sent is None:
        what = f"a recv that waits for no send of channel {channel} in its computation"
        raise step.unsupported(what)
    return (sent, step.constant(0, U32), ())


def _channel(step: Step) -> int:
    channel: int | None = step.attribute("channel_id", None)
    if channel is None:
        raise step.unsupported("a transfer without channel_id", "give send and recv one number")
    return channel


def _one_device(step: Step) -> None:
    if step.attribute("is_host_transfer", False):
        raise step.unsupported("a transfer to or from the host", HOST)


def _recv_done(step: Step) -> Any:
    """(the value, a token)."""
    step.count(1)
    (received,) = step.operands
    if not isinstance(received, tuple) or len(received) != 3:
        raise step.fail("its operand must be a recv")
    return (received[0], ())


def sends_first(computation: Computation) -> Sequence[Instruction]:
    """The instructions in an order that has each `send` before the `recv` of its channel."""
    if not any(i.opcode == "recv" for i in computation.instructions):
        return computation.instructions
    named = {i.name: i for i in computation.instructions}
    senders = {
        i.attributes.get("channel_id"): i.name
        for i in computation.instructions
        if i.opcode == "send"
    }
    order: dict[str, Instruction] = {}
    seen: set[str] = set()
    waiting = [(i.name, False) for i in reversed(computation.instructions)]
    while waiting:
        name, is_ready = waiting.pop()
        if is_ready:
            order.setdefault(name, named[name])
        elif name not in seen:
            seen.add(name)
            needed = [operand.name for operand in named[name].operands]
            if named[name].opcode == "recv":
                needed.append(senders.get(named[name].attributes.get("channel_id"), name))
            waiting += [(name, True), *((other, False) for other in reversed(needed))]
    return tuple(order.values())


IN_PLACE = "slice_sizes"
"""The attribute of a collective-permute that writes slices into an operand."""

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-broadcast", "reduce-scatter")
"""Collectives that are the identity on one device."""

HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(COLLECTIVES, _one_replica), "collective-permute": _permute,
    **dict.fromkeys(("partition-id", "replica-id"), _zero), "send": _send, "recv": _recv,
    "send-done": lambda step: (), "recv-done": _recv_done,
}  # fmt: skip
