"""Graphs of Dynamo's that PyTorch can save compiled: another process runs them without capturing them again.

`torch.compile(...).forward.aot_compile(...)` and PyTorch's `caching_precompile` ask for it. What is saved is the graph,
not its code, which comes from graphc's compile cache when the graph is first called; parameters are the caller's.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any


class SavableGraph:
    """A compiled graph as a function of its arguments: PyTorch's `SerializableCallable`, where PyTorch has it."""

    def __init__(self, graph: Callable[[list[Any]], list[Any]]) -> None:
        self._graph = graph

    def __call__(self, *args: Any) -> list[Any]:
        """Run. What the graph's own call raises."""
        return self._graph([*args])

    @classmethod
    def serialize_compile_artifacts(cls, fn: SavableGraph) -> bytes:
        """Return the bytes that PyTorch stores in its file."""
        return pickle.dumps(fn._graph)

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> SavableGraph:
        """The same graph in another process, or in this one."""
        return cls(pickle.loads(data))


def savable(graph: Callable[[list[Any]], list[Any]], module: Any) -> SavableGraph:
    """A graph that can be pickled, in a form that PyTorch knows how to save. `module` is what Dynamo gave of it."""
    try:
        from torch._dynamo import config as dynamo_config
        from torch._dynamo.aot_compile_types import SerializableCallable
        from torch._dynamo.package import DynamoCache
    except ImportError:  # of an older PyTorch, which saves no graphs
        return SavableGraph(graph)
    SerializableCallable.register(SavableGraph)
    found, name = SavableGraph(graph), getattr(module, "_backend_id", None)
    if name is not None and dynamo_config.caching_precompile:
        DynamoCache.record_eager_backend(name, found)  # "eager" is whatever can be pickled
    return found


def graph_bytes(module: Any) -> bytes:
    """A GraphModule with its examples."""
    import torch
    from torch.fx._graph_pickler import GraphPickler, Options
    from torch.utils._pytree import tree_map_only

    # A view drags its base along, which PyTorch cannot pickle; memory stays shared without it.
    detach = partial(tree_map_only, torch.Tensor, torch.Tensor.detach)
    with torch.no_grad():
        for node in module.graph.nodes:
            node.meta["val"] = detach(node.meta.get("val"))
    return bytes(GraphPickler.dumps(module, Options(ops_filter=None)))


def graph_of(data: bytes) -> Any:
    """The GraphModule of `graph_bytes`."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx._graph_pickler import GraphPickler
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return GraphPickler.loads(data, FakeTensorMode(shape_env=ShapeEnv()))
