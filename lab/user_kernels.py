"""`graphc.kernel`: kernels of user code, called on arrays, and checked at sizes around a vector and within bounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..base.dims import evaluate, symbols_of
from ..base.dtypes import F32, from_numpy
from ..base.errors import GraphcError, UserError
from ..base.html_table import html_table
from ..base.options import CompileOptions
from ..base.records import dataclass
from ..base.size_text import listed
from ..codegen.host import target_for
from ..driver.compiler import compile_request
from ..driver.request import CompileRequest
from ..extension.kernels import UserKernel, add_kernel, check_functions, check_op
from ..frontend.shape_spec import parse_spec
from ..graph_ir.inspect.compare import difference
from ..graph_ir.ir.graph import Graph
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ir.registry import schema_of
from ..graph_ir.schedule.context import LowerContext
from ..runtime.executor import CompiledModel
from ..targets.isa import Target

Array = np.ndarray[Any, Any]

MAX_LINES = 8
"""Wrong results that a text lists."""

MAX_CHECKS = 40
"""Combinations of sizes that a check takes, of all that boundary sizes of its names make."""


class Kernel(UserKernel):
    """A kernel of user code.

    Call it on the arrays of the op's operands, with the op's attributes by name: it is compiled for their shapes once.
    """

    def __call__(
        self, *arrays: Array, target: str = "native", threads: int = 1, **attrs: Any
    ) -> Array:
        """Return the result of the kernel alone. Raise UserError if it does not accept the op."""
        operands = tuple(LogicalTensor(from_numpy(a.dtype), a.shape) for a in arrays)
        model = _model(self, operands, _frozen(attrs), target_for(target), threads)
        result: Array = model(*arrays)
        return result

    def check(
        self, *operands: str, target: str = "native", threads: int = 2, **attrs: Any
    ) -> Checks:
        """Compare the kernel with the op's NumPy reference on integers, at many sizes.

        Every access is checked against the bounds of its buffer in one run, and another runs the code as models do.

        Args:
            operands: the type of each operand, whose names stand for sizes: "f32[N,M]", "f32[M]".
            target: as for `compile`.
            threads: as for `compile`.
            **attrs: the attributes of the op.

        Raises:
            UserError: A text names no type, or the kernel accepts none of the ops.
        """
        resolved = target_for(target)
        specs = [parse_spec(text) for text in operands]
        names = [symbol.name for symbol in symbols_of(d for spec in specs for d in spec.dims)]
        rows = []
        for sizes in _boundary_sizes(list(dict.fromkeys(names)), resolved):
            tensors = tuple(
                LogicalTensor(spec.dtype, tuple(evaluate(d, sizes) for d in spec.dims))
                for spec in specs
            )
            rows.append(Check(sizes, self._verdict(tensors, attrs, resolved, threads)))
        if all(row.verdict == REFUSED for row in rows):
            raise UserError(
                f"kernel '{self.name}' of {self.op_name}: it must accept one of the ops; see its `when`"
            )
        return Checks(self.name, tuple(rows))

    def _verdict(
        self,
        operands: tuple[LogicalTensor, ...],
        attrs: Mapping[str, Any],
        target: Target,
        threads: int,
    ) -> str:
        graph = _graph(self.op_name, operands, attrs)
        if not _is_accepted(self, graph, target):
            return REFUSED
        arrays = [_integers(x) for x in operands]
        (expected,) = graph.evaluate(arrays)
        for options in (CompileOptions(1, check_bounds=True), CompileOptions(threads)):
            try:
                found = _compiled(self, graph, target, options)(*arrays)
            except GraphcError as error:
                return str(error)
            off = difference(found, expected)
            if not off.ok:
                return f"differs by {off.relative:.1e} of the largest value"
        return RIGHT


RIGHT, REFUSED = "right", "not accepted"


@dataclass(frozen=True)
class Check:
    """The sizes of one comparison, and its verdict: `RIGHT`, `REFUSED` or the error."""

    sizes: Mapping[str, int]
    verdict: str


@dataclass(frozen=True)
class Checks:
    """The comparisons of a kernel with the definition of its op."""

    kernel: str
    rows: Sequence[Check]

    @property
    def ok(self) -> bool:
        """Return whether all sizes that the kernel accepts are right."""
        return all(row.verdict in (RIGHT, REFUSED) for row in self.rows)

    def __str__(self) -> str:
        wrong = [row for row in self.rows if row.verdict not in (RIGHT, REFUSED)]
        right = sum(row.verdict == RIGHT for row in self.rows)
        lines = [f"{listed(row.sizes)}: {row.verdict}" for row in wrong[:MAX_LINES]]
        if len(wrong) > MAX_LINES:
            lines.append(f"and {len(wrong) - MAX_LINES} more")
        return "\n".join([f"{self.kernel}: right at {right} of {len(self.rows)} sizes", *lines])

    def _repr_html_(self) -> str:
        rows = [(listed(row.sizes), row.verdict) for row in self.rows]
        return html_table(f"Checks of {self.kernel}", ("sizes", "verdict"), rows)


def kernel(
    op_name: str,
    *,
    when: Callable[[Any, Target], bool] | None = None,
    name: str = "",
    everywhere: bool = True,
) -> Callable[[Callable[..., Any]], Kernel]:
    """Add a kernel for ops named `op_name` (decorator); it replaces a kernel of the same name.

    The function `build(b, op, *operands, result)` writes the loops: `b` is a `KernelBuilder`, `op` the op with its
    attributes and types, then one Tensor IR buffer per operand (None for an absent one, a tuple for a variadic one)
    and that of the result, all in plain layouts. It may instead return a `Function` with these parameters.

    Args:
        op_name: The op.
        when: `when(op, target)` returns whether the kernel can compute an op. The last kernel added that can is
            called.
        name: The name of the kernel; default: that of the function.
        everywhere: Whether all models compiled from now on call it, or only those compiled with it as one of their
            `lowerings`.

    Returns:
        The kernel: call it on arrays to run it alone, and its `check` at many sizes.

    Raises:
        UserError: There is no such op.
    """
    check_op(op_name)

    def add(build: Callable[..., Any]) -> Kernel:
        made = Kernel(name or getattr(build, "__name__", "kernel"), op_name, build, when)
        check_functions(made)
        if everywhere:
            add_kernel(made)
        return made

    return add


@lru_cache(maxsize=64)
def _model(
    kernel: Kernel,
    operands: tuple[LogicalTensor, ...],
    attrs: tuple[tuple[str, Any], ...],
    target: Target,
    threads: int,
) -> CompiledModel:
    """The kernel alone, compiled once for these operands. Raise UserError if it does not accept the op."""
    graph = _graph(kernel.op_name, operands, dict(attrs))
    if not _is_accepted(kernel, graph, target):
        raise UserError(
            f"kernel '{kernel.name}' of {kernel.op_name}: it must accept the op; see its `when`"
        )
    return _compiled(kernel, graph, target, CompileOptions(threads))


def _compiled(
    kernel: Kernel, graph: Graph, target: Target, options: CompileOptions
) -> CompiledModel:
    request = CompileRequest(graph, target, options, lowerings={kernel.op_name: kernel})
    return CompiledModel(compile_request(request).artifact, options.threads)


def _graph(op_name: str, operands: Sequence[LogicalTensor], attrs: Mapping[str, Any]) -> Graph:
    """The op alone."""
    graph = Graph(op_name)
    names = [operand.name for operand in schema_of(op_name).operands]
    inputs = [
        graph.make_input(x, f"{names[min(i, len(names) - 1)]}{i}") for i, x in enumerate(operands)
    ]
    graph.make_output(graph.make(op_name, inputs, dict(attrs), "op").outputs[0], "y")
    return graph


def _is_accepted(kernel: Kernel, graph: Graph, target: Target) -> bool:
    (op,) = (op for op in graph.ops if op.op_name == kernel.op_name)
    return kernel.accepts(op, LowerContext(target))


def _boundary_sizes(names: Sequence[str], target: Target) -> list[dict[str, int]]:
    """Sizes around a vector of f32, and a prime beyond two: all combinations, or a sample with fixed seed."""
    lanes = target.lanes(F32)
    choices = sorted({1, 2, lanes - 1, lanes, lanes + 1, 2 * lanes + 5})
    found = list(itertools.product(choices, repeat=len(names)))
    if len(found) > MAX_CHECKS:
        kept = np.random.default_rng(0).choice(len(found), MAX_CHECKS - 2, replace=False)
        found = [found[0], *(found[i] for i in sorted(kept)), found[-1]]
    return [dict(zip(names, sizes, strict=True)) for sizes in found]


def _integers(x: LogicalTensor) -> Array:
    rng = np.random.default_rng(0)
    return rng.integers(-4, 5, x.plain_dims).astype(x.dtype.numpy)


def _frozen(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, tuple(v) if isinstance(v, list) else v) for name, v in sorted(attrs.items())
    )
