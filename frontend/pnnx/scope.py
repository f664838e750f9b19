"""The context of an operator's importer: the values known so far, and one operator with its arguments bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ...base.dtypes import DType
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..torch_calls.call import Call, Element, Handler, Results, Value
from ..torch_calls.promotion import Operand
from .param_value import parse_param_value
from .program import Operator
from .weights import Weights

__all__ = ["Element", "Handler", "Node", "Results", "Scope", "Value"]

IGNORED_PARAMS = frozenset(
    (
        *("inplace", "device", "layout", "requires_grad", "pin_memory", "non_blocking", "copy"),
        *("memory_format", "in_features", "out_features", "num_features", "num_parameters"),
        *("num_channels", "num_embeddings", "embedding_dim", "sparse", "scale_grad_by_freq"),
        *("in1_features", "in2_features"),
        *("padding_idx", "momentum", "generator", "max_norm", "norm_type"),
    )
)
"""Parameters that do not affect the result, or repeat the shapes of the weights."""


SAME_ARGUMENT = {
    "shape": ("sizes",), "sizes": ("shape",), "exponent": ("other",), "src": ("value",),
    "split_size_or_sections": ("split_size", "split_sizes"), "source": ("tensor",), "input": ("tensor",),
    "theta": ("input",), "query": ("input",),
}  # fmt: skip
"""Other names that arguments have in some operators or versions of the tool."""


_OVERLOADS = {
    **{(name, 4): ("input", "stable", "dim", "descending") for name in ("sort", "argsort")},
    **{(name, 2): ("input", "unbiased") for name in ("std_mean", "var_mean")},
}
"""Arguments of ATen's functions by their number, where not all of their overloads have them in one order."""


class Scope:
    """Values by operand name, the graph they are built into, the weights, and scale and zero point of bytes."""

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self.graph = graph
        self.weights = weights
        self.values: dict[str, Value] = {}
        self.scales: dict[GraphTensor, tuple[GraphTensor, GraphTensor]] = {}


class Node(Call):
    """One operator: arguments from inputs, named inputs and parameters alike."""

    def __init__(self, op: Operator, handler: Handler, scope: Scope) -> None:
        super().__init__(scope.graph, op.type, op.name)
        self.op = op
        self.scope = scope
        self._read = set(handler.ignored)
        self._attributes: dict[str, GraphTensor] = {}
        slots = _OVERLOADS.get((op.type.removeprefix("aten::"), len(op.inputs)), handler.slots)
        named, rest = _bind_keys(op, slots)
        self.values: list[Value] = [scope.values[operand] for operand in rest]
        if handler.slots == ("*",):
            self.values = [scope.values[operand] for operand in op.inputs]
            named = {}
        else:
            _bind_slots(self, slots, named, rest)
        self._inputs = named
        self.is_module = op.type.startswith("nn.")

    @property
    def count(self) -> int:
        """Number of outputs in the file."""
        return len(self.op.outputs)

    # Arguments.

    def argument(self, name: str, default: Value = None) -> Value:
        """An argument, from an input or a parameter; `default` where it is absent."""
        for word in (name, *SAME_ARGUMENT.get(name, ())):
            self._read.add(word)
            value: Any = None
            if word in self._inputs:
                value = self.scope.values[self._inputs[word]]
            elif word in self.op.params:
                value = parse_param_value(self.op.params[word])
            if value is not None:
                return cast(Value, value)
        return default

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """Read an attribute like every call; an empty list is kept, although the tool writes it for None too."""
        if kind in ("ints", "floats") and self.op.params.get(name) in ("()", "[]"):
            self._read.add(name)
            return ()
        return super().read_attribute(name, kind, default)

    def text(self, name: str) -> str | None:
        """A parameter exactly as it stands in the file."""
        self._read.add(name)
        return self.op.params.get(name)

    def operand(self, name: str = "input") -> Operand:
        """Return a tensor or number argument, or the module attribute that replaces it."""
        if name in self.op.attributes or (self.is_module and name in ("weight", "bias")):
            return self.weight(name)
        return super().operand(name)

    def has(self, name: str) -> bool:
        """Return whether an operand is given. Flags of a module say whether it has weights, or one of them."""
        if not self.is_module or name in self._inputs:
            return self.given(name)
        affine = self.attr_bool("affine", True) and self.attr_bool("elementwise_affine", True)
        return affine and self.attr_bool(name, name in self.op.attributes)

    def tensors(self) -> list[GraphTensor]:
        """All inputs, or the members of the only one."""
        values = self.values
        if len(values) == 1 and isinstance(values[0], list):
            values = [*values[0]]
        found = [x for x in values if isinstance(x, GraphTensor)]
        if not found or len(found) != len(values):
            raise self.rule("all inputs must be tensors", f"{len(found)} of {len(values)}")
        return found

    def weight(self, key: str, dtype: DType | None = None) -> GraphTensor:
        """Attribute `key`, read from the archive once, as a constant, converted to `dtype` if given."""
        if key not in self._attributes:
            if key not in self.op.attributes:
                known = ", ".join(f"@{name}" for name in self.op.attributes) or "none"
                raise self.rule(f"attribute '@{key}' must be given", known)
            declared = self.op.attributes[key]
            array = self.scope.weights.read(self.name, key, declared)
            self._attributes[key] = self.stored(array, key)
        constant = self._attributes[key]
        return constant if dtype is None else self.converted(constant, dtype)

    def check_all_read(self) -> None:
        """Raise UnsupportedError for parameters that were never read: they might affect the result."""
        left = [
            f"{name}={text}"
            for name, text in self.op.params.items()
            if name not in self._read and name not in IGNORED_PARAMS and text != "None"
        ]
        left += [
            f"${name}"
            for name, operand in self._inputs.items()
            if name not in self._read and self.scope.values[operand] is not None
        ]
        if left:
            raise UnsupportedError(
                f"{self.op}: these parameters are not supported: {', '.join(left)}",
                "export the model without them",
            )


def _bind_keys(op: Operator, slots: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Named inputs by key, and the operands that are left, in order.

    A key names every occurrence of its operand, unless several keys share it: then they take them in order. Keys of
    which none is an argument are notes: pnnx's own passes keep the key that an operand had in another operator.
    """
    left = list(op.inputs)
    if slots and not {key for key, _ in op.keys} & _argument_names(slots):
        return {}, left
    named: dict[str, str] = {}
    for position, (key, operand) in enumerate(op.keys):
        later = any(other == operand for _, other in op.keys[position + 1 :])
        named[key] = operand
        if later and operand in left:
            left.remove(operand)
        elif not later:
            left = [other for other in left if other != operand]
    return named, left


def _argument_names(slots: Sequence[str]) -> set[str]:
    """Return the names that the arguments of a handler go by."""
    return {"self", *slots, *(also for slot in slots for also in SAME_ARGUMENT.get(slot, ()))}


def _bind_slots(node: Node, slots: Sequence[str], named: dict[str, str], rest: list[str]) -> None:
    """Assign operands without a key to the remaining slots. `self` is an alias of the first slot."""
    if slots and "self" in named and "self" not in slots:
        named[slots[0]] = named.pop("self")
    free = [slot for slot in slots if slot not in named and slot not in node.op.params]
    if len(rest) > len(free):
        raise node.rule(
            f"inputs must be {', '.join(slots) or 'none'}", f"{len(node.op.inputs)} inputs"
        )
    named.update(zip(free, rest, strict=False))
