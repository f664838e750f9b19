"""User code registered with the compiler besides ops: kernels, passes and patterns, by name.

Each is an object of the room `extension`, which checks it; its fingerprint is part of every key (`driver/extensions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..ir.graph import Graph
from ..ir.op import Op
from ..rewriting.rewrite import Rule
from .context import LowerContext, UserKernel


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
    """The kernels of user code that can compute an op: that of the compilation, then the one added last first."""
    return [kernel for kernel in _known(op, ctx) if kernel.accepts(op, ctx)]


def kernel_of(op: Op, name: str, ctx: LowerContext) -> UserKernel | None:
    """Return a kernel of an op by its name."""
    return next((kernel for kernel in _known(op, ctx) if kernel.name == name), None)


def _known(op: Op, ctx: LowerContext) -> list[UserKernel]:
    requested = [ctx.lowerings[key] for key in (op.name, op.op_name) if key in ctx.lowerings]
    found = [*requested, *reversed(KERNELS.values())]
    return [kernel for kernel in found if kernel.op_name == op.op_name]
