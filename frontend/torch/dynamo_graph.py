"""Dynamo's graph of Python's functions as one of ATen operators, where no call writes to memory that others see.

AOTAutograd makes such a graph of any, in as much time as Dynamo takes itself: it runs every call twice with examples.
Dynamo has run them already, so that most graphs need no more than the names of their operators.
"""

from __future__ import annotations

import operator
from typing import Any

from .dynamo_call import Call
from .fx_reader import unsupported

_WITHOUT_EFFECT = ("_log_api_usage_once", "_set_grad_enabled")
"""Functions that compute nothing."""


def as_aten(module: Any) -> Any:
    """The graph of a GraphModule of Dynamo's in ATen operators and functions of `torch.nn.functional`, with examples.

    Raise UnsupportedError if a call is neither, or where what it writes to may be seen elsewhere, in a view or an
    input.
    """
    import torch

    graph = _AtenGraph()
    for node in module.graph.nodes:
        graph.add(node)
    return torch.fx.GraphModule(graph.constants, graph.made)


class _AtenGraph:
    """`made` is the graph so far, `constants` has its attributes."""

    def __init__(self) -> None:
        import torch

        self.made, self.constants = torch.fx.Graph(), torch.nn.Module()
        self._now: dict[Any, Any] = {}  # the value of each node; none where it was overwritten
        self._given: set[int] = set()  # memory of inputs
        self._sharing: dict[int, list[Any]] = {}  # nodes by memory

    def add(self, node: Any) -> None:
        """Add what a node of Dynamo's does."""
        if node.op == "output":
            self._return(node)
            return
        example = node.meta.get("example_value")
        if node.op == "placeholder":
            self._given.add(_memory(example, node.name))
            made = self.made.placeholder(node.name)
            made.meta["val"] = example
        elif node.op in ("call_function", "call_method"):
            made = self._call(node, example)
        else:
            raise unsupported(f"{node.op} '{node.target}'")
        self._now[node] = made
        for tensor in example if isinstance(example, (tuple, list)) else (example,):
            if hasattr(tensor, "shape"):
                self._sharing.setdefault(_memory(tensor, node.name), []).append(node)

    def _return(self, node: Any) -> None:
        for x in node.args[0]:
            example = getattr(x, "meta", {}).get("example_value")
            if hasattr(example, "shape") and _memory(example, x.name) in self._given:
                raise unsupported(f"'{x.name}', a result that shares memory with an input,")
        self.made.output(self._present(node.args[0]))

    def _present(self, args: Any) -> Any:
        """Arguments with what nodes are now."""
        from torch.fx.node import map_arg

        def present(node: Any) -> Any:
            if node not in self._now:
                raise unsupported(f"'{node.name}', a view of what is written to,")
            return self._now[node]

        return map_arg(args, present)

    def _call(self, node: Any, example: Any) -> Any:
        name = getattr(node.target, "__name__", "")
        if name == "tensor":
            return self._constant(node, example)
        if name in _WITHOUT_EFFECT:
            if name == "_set_grad_enabled" and node.args != (False,):
                raise unsupported("a region with gradients")
            return None
        call = Call(node)
        args, kwargs = self._present(call.args), self._present(call.kwargs)
        whole = node.args[0].meta.get("example_value") if node.target is operator.getitem else ()
        if not isinstance(whole, (tuple, list)):
            made = self._index(*args)
        else:
            made = self.made.call_function(call.target, args, kwargs)
        made.meta.update(val=example, stack_trace=node.meta.get("stack_trace"))
        if call.writes:
            self._overwrite(call.first, made)
        return made

    def _constant(self, node: Any, example: Any) -> Any:
        """torch.tensor of numbers."""
        import torch

        if node.all_input_nodes or not isinstance(node.args[0], (bool, int, float, list, tuple)):
            raise unsupported("a tensor made of the model's data")
        value = torch.tensor(node.args[0], dtype=example.dtype)
        self.constants.register_buffer(node.name, value)
        made = self.made.create_node("get_attr", node.name, name=node.name)
        made.meta["val"] = example
        return made

    def _overwrite(self, node: Any, made: Any) -> None:
        """`made` is what `node` and its other names are from now on; views of it are no more."""
        memory = _memory(node.meta["example_value"], node.name)
        if memory in self._given:
            raise unsupported(f"a write to '{node.name}', which is memory of the caller's,")
        before = self._now[node]
        for other in self._sharing[memory]:
            if self._now.pop(other, None) is before:
                self._now[other] = made

    def _index(self, x: Any, items: Any) -> Any:
        """x[items]: an operator for each number, slice and None, then one for all tensors."""
        import torch

        aten, make = torch.ops.aten, self.made.call_function
        items = items if isinstance(items, tuple) else (items,)
        if not all(type(item) in _INDICES or _is_index(item) for item in items):
            raise unsupported("an index that is not a number, slice or tensor of integers")
        kept = x.meta["val"].dim() - sum(item is not None and item is not ... for item in items)
        axis, tensors = 0, list[Any]()
        for item in items:
            if item is ...:
                axis += kept
            elif item is None:
                x, axis = make(aten.unsqueeze.default, (x, axis)), axis + 1
            elif type(item) is int:
                x = make(aten.select.int, (x, axis, item))
            elif type(item) is not slice:
                tensors += [None] * (axis - len(tensors)) + [item]
                axis += 1
            else:
                ends = (item.start, item.stop, 1 if item.step is None else item.step)
                if not all(end is None or type(end) is int for end in ends):
                    raise unsupported("a slice that depends on the model's data")
                x, axis = make(aten.slice.Tensor, (x, axis, *ends)), axis + 1
        if tensors:
            return make(aten.index.Tensor, (x, tensors))
        return make(aten.alias.default, (x,))  # a separate node, also for x[...]


_INDICES = (int, slice, type(None), type(...))


def _is_index(node: Any) -> bool:
    """Return whether it is a tensor of integers: how many elements one of bools takes depends on its values."""
    example: Any = getattr(node, "meta", {}).get("val")
    return hasattr(example, "dtype") and str(example.dtype) in ("torch.int64", "torch.int32")


def _memory(example: Any, name: str) -> int:
    """Return an identifier of the memory of a tensor. Raise UnsupportedError for other values, tensor subclasses and
    dynamic sizes."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    is_plain = type(example) is FakeTensor and example.layout is torch.strided
    if not is_plain or example.device.type != "cpu":
        raise unsupported(f"'{name}', which is not a plain tensor,")
    if not all(type(size) is int for size in (*example.shape, *example.stride())):
        raise unsupported(f"the dynamic size of '{name}'")
    return int(example.untyped_storage()._cdata)
