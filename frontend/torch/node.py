"""One node of an FX graph: a call of an ATen operator, its arguments bound to the names of its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.records import dataclass
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..torch_calls.call import Call, Value
from .tensors import dtype_of

SAME_ARGUMENT = {
    "input": ("self", "x"), "sizes": ("size", "repeats"), "shape": ("size",), "exponent": ("other",),
    "src": ("value", "values"), "source": ("tensor", "value"), "training": ("train",),
    "split_size_or_sections": ("split_size", "split_sizes"),
    "dim": ("dimension",), "dim0": ("axis0",), "dim1": ("axis1",),
}  # fmt: skip
"""Names that operators use for arguments that Python functions call otherwise."""

IGNORED = frozenset((
    "device", "layout", "pin_memory", "non_blocking", "copy", "memory_format", "implicit", "padding_idx",
    "scale_grad_by_freq", "sparse", "sparse_grad", "momentum", "generator", "cudnn_enabled", "cudnn_enable",
    "deterministic", "stable", "sorted", "output_size", "unused", "_stacklevel",
))  # fmt: skip
"""Arguments that do not affect the result, if it is defined, or only its shape, which is checked."""

_SAME = object()


@dataclass(frozen=True)
class Examples:
    """PyTorch's metadata of a call's tensors: arguments by name, and results."""

    inputs: Mapping[str, Any]
    outputs: Sequence[Any]


class Node(Call):
    """A call with bound arguments: values of the graph, numbers, lists; element types as `torch.float32`."""

    def __init__(
        self, graph: Graph, type_name: str, name: str, bound: Mapping[str, Any], examples: Examples
    ) -> None:
        super().__init__(graph, type_name, name)
        self.bound = bound
        self.examples = examples
        self._read: set[str] = set()

    @property
    def count(self) -> int:
        """The number of outputs."""
        return len(self.examples.outputs) or 1

    def strides(self, name: str) -> tuple[int, ...]:
        """Return the strides of a tensor argument in PyTorch's memory."""
        found = self.examples.inputs.get(name)
        if found is None or not all(type(step) is int for step in found.stride()):
            raise self.unsupported(f"'{name}' whose memory layout is not known")
        return tuple(found.stride())

    def first_element(self, name: str) -> int:
        """Return the offset of an argument in its memory, in elements."""
        begin = self.examples.inputs[name].storage_offset()
        if type(begin) is not int:
            raise self.unsupported(f"'{name}' whose memory layout is not known")
        return begin

    def example_dims(self, output: int) -> tuple[int, ...]:
        """The shape of an output as PyTorch infers it."""
        return tuple(self.examples.outputs[output].shape)

    def as_output(self, x: GraphTensor, output: int) -> GraphTensor:
        """x in the type that PyTorch infers of an output."""
        return self.converted(x, dtype_of(self.examples.outputs[output], self.type))

    def argument(self, name: str, default: Value = None) -> Value:
        """An argument by the name of the schema, or by that of PyTorch's function; `default` where it is None."""
        for known in (name, *SAME_ARGUMENT.get(name, ())):
            if known in self.bound:
                self._read.add(known)
                value: Value = self.bound[known]
                return default if value is None else value
        return default

    def tensors(self) -> list[GraphTensor]:
        """The members of the first argument that is a list, or the first one."""
        lists = (name for name, value in self.bound.items() if isinstance(value, list))
        name = next(lists, next(iter(self.bound)))
        value = self.argument(name)
        items = value if isinstance(value, list) else [value]
        found = [x for x in items if isinstance(x, GraphTensor)]
        if not found or len(found) != len(items):
            raise self.rule("all inputs must be tensors", f"{len(found)} of {len(items)}")
        return found

    def check_all_read(self, defaults: Mapping[str, Any]) -> None:
        """Raise UnsupportedError for arguments that were never read and are not their defaults: they might matter."""
        left = [
            f"{name}={value}"
            for name, value in self.bound.items()
            if name not in self._read and name not in IGNORED and value is not None
            and not _equal(value, defaults.get(name, _SAME))
        ]  # fmt: skip
        if left:
            raise self.unsupported(", ".join(left)[:200])


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


Read = Callable[[Node], Any]
"""Imports one kind of node: its output, or a list of several."""
