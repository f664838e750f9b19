"""User code registered with the compiler in this process, and its fingerprint.

Ops, kernels, passes, patterns, lowerings and layouts that come from outside graphc are covered neither by the hash of
a graph nor by that of the compiler's sources. All of them are part of the key of a model, since a pass or an op may
create any other op; only a model of graphc's own ops, where user code defines ops and nothing else, has a key without
them. Where one has no digest (`extension.fingerprint`), the model is compiled anew; kernels are cached all the same,
because their Tensor IR is all that they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from ..base.records import dataclass
from ..extension.fingerprint import UnknownFingerprintError, fingerprint
from ..extension.trusted import is_trusted
from ..graph_ir.ir.class_table import ClassTable
from ..graph_ir.ir.graph import Graph, Op, all_ops
from ..graph_ir.ir.registry import is_own, lookup, names
from ..graph_ir.lowering.lower_group import TEMPLATES
from ..graph_ir.lowering.registry import LOWERINGS
from ..graph_ir.passes.pipeline import PIPELINE
from ..graph_ir.schedule.context import UserKernel
from ..graph_ir.schedule.query_format import RULES
from ..graph_ir.schedule.spaces import SPACES
from ..graph_ir.schedule.user_code import KERNELS, PASSES, PATTERNS
from ..tensor_ir import pipeline as loop_pipeline

Found = tuple[str, object]
"""(what it is, for messages; what is hashed)."""


@dataclass(frozen=True)
class UserCode:
    """`key`: a digest of all that user code adds, "" if that is nothing. `unknown`: why there is no digest, if so."""

    key: str = ""
    unknown: str = ""


def user_code(
    graph: Graph | None = None, lowerings: Mapping[str, UserKernel] = MappingProxyType({})
) -> UserCode:
    """Return the user code registered at present, and the kernels of one compilation; nothing for a graph that depends
    on none of it."""
    found = list(_rules())
    for name, kernel in lowerings.items():
        found.append((f"lowering '{kernel.name}' of {name}", (name, kernel.meaning)))
    if graph is None or found or any(map(_is_added, all_ops(graph))):
        found += _ops()
    digests = []
    for what, value in found:
        try:
            digests += [what, fingerprint(value)]
        except UnknownFingerprintError as error:
            return UserCode(unknown=f"{what}: {error}")
    return UserCode(fingerprint(digests)) if found else UserCode()


def loops_are_extended() -> bool:
    """Return whether a pass over Tensor IR comes from user code: kernels then depend on more than their Tensor IR as
    lowered, and other processes do not know it."""
    return any(map(_is_foreign, loop_pipeline.PASSES))


def _ops() -> Iterator[Found]:
    """Ops; any op may decompose into others."""
    for name in names():
        if not is_own(name) or is_foreign_op(lookup(name)):
            yield f"op '{name}'", lookup(name)


def _rules() -> Iterator[Found]:
    """Rules that apply to the ops of any graph."""
    for number, (step, switch) in enumerate(PIPELINE):
        if _is_foreign(step):
            yield f"graph pass '{step.__name__}'", (number, step, switch)
    for number, loop_pass in enumerate(loop_pipeline.PASSES):
        if _is_foreign(loop_pass):
            yield f"Tensor IR pass '{loop_pass.__name__}'", (number, loop_pass)
    yield from _added()
    tables: dict[str, ClassTable[Any]] = {
        "lowering": LOWERINGS, "template": TEMPLATES, "layouts": RULES, "schedules": SPACES,
    }  # fmt: skip
    for kind, table in tables.items():
        for cls, value in table.items():
            if _is_foreign(value):
                yield f"{kind} of {cls.__name__}", (kind, cls, value)


def _added() -> Iterator[Found]:
    """Passes, patterns and kernels."""
    for name, added in PASSES.items():
        yield f"graph pass '{name}'", added
    for name, pattern in PATTERNS.items():
        yield f"pattern '{name}'", pattern
    for kernel in KERNELS.values():
        yield f"kernel '{kernel.name}' of {kernel.op_name}", kernel.meaning


def _is_added(op: Op) -> bool:
    return not is_own(op.op_name) or is_foreign_op(type(op))


def is_foreign_op(cls: type[Op]) -> bool:
    """Return whether an op, or a function it is made of, is defined outside graphc."""
    row = getattr(cls, "row", None)  # elementwise ops are classes made of a row's functions
    functions = () if row is None else (row.element, row.reference)
    return any(map(_is_foreign, (cls, *functions)))


def _is_foreign(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return not is_trusted(module, getattr(function, "__qualname__", ""))
