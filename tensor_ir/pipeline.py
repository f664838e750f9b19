"""The passes over Tensor IR, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..targets.isa import Target
from .nodes import Module
from .passes.expand_brgemm import expand_brgemm
from .passes.flatten_index import flatten_index
from .passes.outline_parallel import outline_parallel
from .passes.simplify import simplify
from .passes.unroll import unroll
from .passes.vectorize import vectorize

_LOG = logging.getLogger("graphc.loops")

Pass = Callable[[Module, Target], Module]
OnStage = Callable[[int, str, Module, bool], None]
"""(position, name of the pass, module after it, whether it changed anything)."""

PASSES: tuple[Pass, ...] = (
    simplify,  # first, so that vectorize sees constant extents and unique names
    expand_brgemm,
    flatten_index,  # before vectorize, which asks how the offset in memory moves from lane to lane
    vectorize,
    unroll,  # after vectorize: fewer statements to vectorize
    simplify,
    outline_parallel,  # last: a task no longer knows the ranges of the loops around it
)


def run(module: Module, target: Target, on_stage: OnStage | None = None) -> Module:
    """Run all passes: the form that code generation takes."""
    for position, one in enumerate(PASSES):
        before = module
        module = one(module, target)
        _LOG.debug("%s %s", one.__name__, "left it" if module is before else "changed it")
        if on_stage:
            on_stage(position, one.__name__, module, module is not before)
    return module
