"""Divides a graph of ATen operators into pieces that graphc compiles and calls that PyTorch runs itself."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.dims import Dim, evaluate, size, symbols_of
from ..base.errors import UnsupportedError
from ..base.records import dataclass
from ..base.size_limits import within_limits
from ..base.size_queries import factored
from ..frontend.torch.fx_graph import FxGraph, read_fx
from ..frontend.torch.fx_reader import source_line, type_of
from ..graph_ir.ir.graph import Graph
from ..runtime.executor import CompiledModel
from .torch_call import make_runner
from .torch_fallback import say

MAX_DYNAMIC = 1 << 14
"""Sizes beyond have code of their own: sums of more terms are added in another order."""

Compile = Callable[[Graph], CompiledModel]


@dataclass(frozen=True)
class Refusal:
    """A call that graphc does not compile: the operator, why, and where it is in the model's source."""

    op: str
    reason: str
    line: str

    def __str__(self) -> str:
        return f"{self.op} runs in eager: {self.reason}" + (f" ({self.line})" if self.line else "")


@dataclass(frozen=True)
class Pieces:
    """A graph ready to run: `call(args)` gives its results in a list.

    `ops` is how many calls were compiled; `sizes` returns the values of dynamic dimensions by name, from arguments:
    None if they are out of range.
    """

    call: Callable[[Sequence[Any]], list[Any]]
    ops: int
    refused: tuple[Refusal, ...] = ()
    sizes: Callable[[Sequence[Any]], Mapping[str, int] | None] = lambda args: {}


def left_to_pytorch(module: Any, reason: str) -> Pieces:
    """A GraphModule that PyTorch runs as a whole."""
    return Pieces(lambda args: list(module(*args)), 0, (Refusal("the graph", reason, ""),))


def read_dynamic(module: Any, frozen: Mapping[int, Any]) -> FxGraph:
    """Read a GraphModule whose symbolic sizes stay dynamic, as a whole. Raise UnsupportedError if that cannot be."""
    found = within_limits(lambda limits: read_fx(module, "torch", frozen, limits, MAX_DYNAMIC), {})
    if found.refused:
        raise UnsupportedError(next(iter(found.refused.values())))
    known = symbols_of(n for op in found.graph.inputs for n in op.outputs[0].details.plain_dims)
    if others := [s for s in symbols_of(value for _, value in found.dynamic) if s not in known]:
        what = (
            f"a dynamic number '{others[0].name}' that is not a size of an input is not supported"
        )
        raise UnsupportedError(what, "pass it as a tensor")
    return found


def compile_dynamic(module: Any, found: FxGraph, compile_graph: Compile) -> Pieces:
    """Compile what `read_dynamic` gave of a module. Raise UnsupportedError if that cannot be."""
    count = sum(node.op == "call_function" for node in module.graph.nodes)
    sizes = _reader_of_sizes(found)
    return Pieces(_runner(found, compile_graph, sizes), count, (), sizes)


def _reader_of_sizes(found: FxGraph) -> Callable[[Sequence[Any]], Mapping[str, int] | None]:
    """The values of symbols by name, from arguments that are symbols or multiples of them; see `Pieces.sizes`."""
    rows = []
    for position, value in found.dynamic:
        (symbol, *others) = symbols_of([value])
        factor, _ = factored(value)
        if others or value != size(symbol) * factor:
            what = f"argument {position} must be one dynamic dimension, got {value}"
            raise UnsupportedError(what, "pass sizes, not what is computed of them")
        rows.append((position, symbol.name, factor, symbol.least, symbol.most))

    def read(args: Sequence[Any]) -> Mapping[str, int] | None:
        values: dict[str, int] = {}
        for position, name, factor, least, most in rows:
            number, rest = divmod(args[position], factor)
            if rest or not least <= number <= most or values.setdefault(name, number) != number:
                return None
        return values

    return read


def compile_pieces(
    module: Any, frozen: Mapping[int, Any], compile_graph: Compile, strict: bool = False
) -> Pieces:
    """Compile a GraphModule with static examples. `frozen`: see `read_fx`. Raise UnsupportedError if `strict` and not
    all of it is supported."""
    calls = [n for n in module.graph.nodes if n.op == "call_function"]
    found = read_fx(module, "torch", frozen)
    if not found.refused:
        return Pieces(_runner(found, compile_graph), len(calls))
    refused = tuple(
        Refusal(type_of(node.target), reason, source_line(node))
        for node, reason in found.refused.items()
    )
    if strict:
        raise UnsupportedError("; ".join(dict.fromkeys(map(str, refused))))
    for text in dict.fromkeys(map(str, refused)):
        say(text)
    call = _divided(module, found.refused, frozen, compile_graph)
    return Pieces(call, len(calls) - len(refused), refused)


def _runner(
    found: FxGraph, compile_graph: Compile, sizes: Callable[[Sequence[Any]], Any] = lambda args: {}
) -> Callable[[Sequence[Any]], list[Any]]:
    """A function of all arguments; results that are not tensors are known, or follow from the values of `sizes`."""
    if not found.graph.outputs:
        return lambda args: [value[0] for value in found.results if isinstance(value, tuple)]
    run, inputs, results = make_runner(compile_graph(found.graph)), found.inputs, found.results
    is_dynamic = any(isinstance(r, tuple) and isinstance(r[0], Dim) for r in results)

    def call(args: Sequence[Any]) -> list[Any]:
        tensors = run([args[i] for i in inputs])
        return [tensors[r] if isinstance(r, int) else r[0] for r in results]

    def call_dynamic(args: Sequence[Any]) -> list[Any]:
        values = sizes(args)
        return [evaluate(y, values) if isinstance(y, Dim) else y for y in call(args)]

    if is_dynamic:
        return call_dynamic

    return call


def _divided(
    module: Any, refused: Mapping[Any, str], frozen: Mapping[int, Any], compile_graph: Compile
) -> Callable[[Sequence[Any]], list[Any]]:
    """The graph with every connected piece of supported calls in a submodule, which is replaced by its native code."""
    import copy

    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Supported(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.op == "call_function" and not _is_left(node, refused)

    divided = copy.copy(module)  # the graph itself is read again when parameters change
    divided.graph = copy.deepcopy(module.graph)
    refused = {
        copied: refused[node]
        for node, copied in zip(module.graph.nodes, divided.graph.nodes, strict=True)
        if node in refused
    }
    partitioner = CapabilityBasedPartitioner(
        divided, Supported(), allows_single_node_partition=True
    )
    fused = partitioner.partition_and_fuse()
    known = dict(zip((n for n in fused.graph.nodes if n.op == "placeholder"), range(1 << 30)))  # noqa: B905
    for node in fused.graph.nodes:
        if node.op == "call_module":
            constants = {
                i: frozen[known[x]]
                for i, x in enumerate(node.args)
                if known.get(x, -1) in frozen
            }  # fmt: skip
            found = read_fx(getattr(fused, node.target), str(node.target), constants)
            piece = _runner(found, compile_graph)
            delattr(fused, node.target)
            setattr(fused, node.target, _as_module(piece, len(found.results) == 1))
    fused.recompile()
    return lambda args: list(fused(*args))


def _is_left(node: Any, refused: Mapping[Any, str]) -> bool:
    """Return whether PyTorch runs a call: what is refused, what takes it apart, and what computes sizes."""
    if node in refused or not hasattr(node.meta.get("val"), "shape"):
        listed = isinstance(node.meta.get("val"), (list, tuple))
        return node in refused or not listed
    return node.target is operator.getitem and node.args[0] in refused


def _as_module(piece: Callable[[Sequence[Any]], list[Any]], is_single: bool) -> Any:
    import torch

    class Piece(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any) -> Any:
            results = piece(args)
            return results[0] if is_single else tuple(results)

    return Piece()
