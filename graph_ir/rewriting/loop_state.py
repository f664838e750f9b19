"""Uses of a loop's state in its body."""

from __future__ import annotations

from ..ops.control import While


def in_place_state(op: While) -> frozenset[int]:
    """The parts of a loop's state that its body updates in place."""
    last = [output.inputs[0].producer_owner for output in op.body.outputs]
    return frozenset(i for i, made in enumerate(last) if made.op_name == "update_in_place")
