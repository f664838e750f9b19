"""User code registered with the compiler besides ops: kernels, passes and patterns, by name.

Each is an object of the room `extension`, which checks it; its fingerprint is part of every key (`driver/extensions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...tensor_ir.nodes import Buffer, Function
from ..ir.graph import Graph
from ..ir.op import Op
from ..rewriting.rewrite import Rule
from .context import LowerContext


class UserKernel(Protocol):
    """A kernel that computes some ops of one name."""

    @property
    def name(self) -> str:
        """The kernel's name among the kernels of the op."""

    @property
    def op_name(self) -> str:
        """The ops it computes."""

    def accepts(self, op: Op, ctx: LowerContext) -> bool:
        """Return whether it can compute this op, all of whose tensors are plain."""

    def function(
        self, op: Op, inputs: Sequence[Buffer], output: Buffer, ctx: LowerContext
    ) -> Function:
        """The function for an op, a buffer for each of its inputs. Raise UserError if user code goes wrong."""


class UserPass(Protocol):
    """A pass over graphs, and its point in the pipeline."""

    @property
    def __name__(self) -> str:
        """The pass's name in dumps and logs."""

    @property
    def anchor(self) -> str:
        """The pass of graphc before whose first run, or after whose last, it runs."""

    @property
    def is_before(self) -> bool:
        """Return whether it runs before the anchor."""

    def __call__(self, graph: Graph, ctx: LowerContext) -> bool:
        """Change the graph in place; return whether it did. Raise UserError if user code goes wrong."""


class UserPattern(Protocol):
    """Ops that are recognized as another."""

    @property
    def name(self) -> str:
        """The pattern's name among the patterns."""

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rewriting rule, by each op that the pattern may end in."""


PASSES: dict[str, UserPass] = {}
"""Passes by name; passes at one point run in this order."""

PATTERNS: dict[str, UserPattern] = {}
"""Patterns by name; tried in this order."""

KERNELS: dict[tuple[str, str], UserKernel] = {}
"""Kernels by the name of the op and of the kernel."""


def kernels_for(op: Op, ctx: LowerContext) -> list[UserKernel]:
    """The kernels of user code that can compute an op, the one added last first."""
    own = [kernel for (op_name, _), kernel in KERNELS.items() if op_name == op.op_name]
    return [kernel for kernel in reversed(own) if kernel.accepts(op, ctx)]
