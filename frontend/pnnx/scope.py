"""The context of an operator's importer: the values known so far, and one operator with its arguments bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.dtypes import DType
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..correspondence.row import Row
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN
from .builder import Builder
from .param_value import ParamValue, parse_param_value
from .program import WORD_DTYPES, Operator
from .promotion import Operand
from .weights import Weights

Element = GraphTensor | int | float | bool | str | None
Value = Element | list[Element]
"""The value of an operand: a tensor of the graph, or a Python value (sizes, lists, tuples)."""

Results = Value | tuple[Value, ...]
"""The output of an operator, or a tuple of several."""

_FLOAT_WORDS = ("inf", "-inf", "nan")

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
    "shape": ("sizes",),
    "sizes": ("shape",),
    "exponent": ("other",),
    "src": ("value",),
    "split_size_or_sections": ("split_size", "split_sizes"),
    "source": ("tensor",),
}
"""Other names that arguments have in some operators or versions of the tool."""

_WANTED = {
    "int": "hold integers",
    "ints": "hold integers",
    "bool": "be True or False",
    "float": "be a number",
    "floats": "hold numbers",
    "text": "be a word",
}


@dataclass(frozen=True)
class Handler:
    """The importer of one kind of operator: `run(node)` returns its output, or a tuple of several.

    `slots` name the inputs that may be given by position; `*` takes any number. `ignored` do not affect the result.
    """

    run: Callable[[Node], Results]
    slots: tuple[str, ...] = ("input",)
    ignored: tuple[str, ...] = ()


class Scope:
    """Values by operand name, the graph they are built into, and the weights."""

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self.graph = graph
        self.weights = weights
        self.values: dict[str, Value] = {}


class Node(Builder):
    """One operator: arguments from inputs, named inputs and parameters alike, with their types checked."""

    def __init__(self, op: Operator, handler: Handler, scope: Scope) -> None:
        super().__init__(scope.graph, op.type, op.name)
        self.op = op
        self.scope = scope
        self._read = set(handler.ignored)
        self._attributes: dict[str, GraphTensor] = {}
        named, rest = _bind_keys(op)
        self.values: list[Value] = [scope.values[operand] for operand in rest]
        if handler.slots == ("*",):
            self.values = [scope.values[operand] for operand in op.inputs]
            named = {}
        else:
            _bind_slots(self, handler.slots, named, rest)
        self._inputs = named

    @property
    def count(self) -> int:
        """Number of outputs in the file."""
        return len(self.op.outputs)

    @property
    def is_module(self) -> bool:
        """Whether the operator is a module, which owns its weights, rather than a function of them."""
        return self.type.startswith("nn.")

    # Arguments.

    def given(self, name: str) -> bool:
        """Whether an argument is given and not None."""
        return self.argument(name) is not None

    def argument(self, name: str, default: Value = None) -> Value:
        """An argument, from an input or a parameter; `default` where it is absent."""
        self._read.add(name)
        value: Value = None
        if name in self._inputs:
            value = self.scope.values[self._inputs[name]]
        elif name in self.op.params:
            parsed: ParamValue = parse_param_value(self.op.params[name])
            value = parsed  # type: ignore[assignment]
        for other in SAME_ARGUMENT.get(name, ()) if value is None else ():
            if other in self._inputs or other in self.op.params:
                return self.argument(other, default)
        return default if value is None else value

    def text(self, name: str) -> str | None:
        """A parameter exactly as it stands in the file."""
        self._read.add(name)
        return self.op.params.get(name)

    def operand(self, name: str = "input") -> Operand:
        """An argument that is a tensor or a number, or the attribute that a module has in its place."""
        if name in self.op.attributes or (self.is_module and name in ("weight", "bias")):
            return self.weight(name)
        value = self.argument(name)
        if isinstance(value, str) and value in _FLOAT_WORDS:
            return float(value)
        if value is None or isinstance(value, (list, str)):
            raise self.rule(f"'{name}' must be a tensor or a number", _shown(value))
        return value

    def tensor_of(self, name: str = "input", dtype: DType | None = None) -> GraphTensor:
        """An operand as a tensor, converted to `dtype` if given; a number becomes a scalar tensor."""
        return self.tensor(self.operand(name), dtype)

    def optional(self, name: str, dtype: DType | None = None) -> GraphTensor | None:
        """`tensor_of`, or None where the operand is not given."""
        return self.tensor_of(name, dtype) if self.has(name) else None

    def has(self, name: str) -> bool:
        """Whether an operand is given. Flags of a module say whether it has weights, or one of them."""
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

    def number(self, name: str, default: float) -> float:
        """A number as it is given: whether it is an integer matters to the type of a result."""
        value: float = self.read_attribute(name, "float", default)
        return value

    def dtype(self, name: str = "dtype") -> DType | None:
        """A parameter that names an element type; None where it is not given."""
        found: DType | None = self.read_attribute(name, "dtype", None)
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

    # The interface used by rows.

    def read_operand(self, formal: Formal) -> GraphTensor:
        """The operand of that name."""
        return self.tensor_of(formal.name)

    def is_given(self, formal: Formal) -> bool:
        """Whether the argument or attribute of that name is there."""
        return self.has(formal.name)

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An argument understood as `kind`; one integer counts as a list of one, and floats may be words."""
        value = self.argument(name)
        is_list = kind in ("ints", "floats")
        if value is None and is_list and self.op.params.get(name) in ("()", "[]"):
            value = []
        if value is None:
            if default is MUST_BE_GIVEN:
                raise self.rule(f"'{name}' must be given", "nothing")
            return default
        if kind == "dtype":
            if not isinstance(value, str) or value not in WORD_DTYPES:
                raise self.unsupported(f"{name}={_shown(value)}")
            return WORD_DTYPES[value]
        items = value if isinstance(value, list) and is_list else [value]
        if any(isinstance(item, GraphTensor) for item in items):
            raise self.unsupported(f"'{name}' that depends on the model's data")
        found = [_understood(kind.removesuffix("s"), item) for item in items]
        if None in found:
            raise self.rule(
                f"'{name}' must {_WANTED[kind]}", _shown(items if "int" in kind else value)
            )
        return tuple(found) if is_list else found[0]

    def read_held(self, formal: Formal, kind: str, default: Any) -> Any:
        """An argument like any other: PyTorch takes attributes by position too."""
        plain = {"axis": "int", "axes": "ints"}.get(kind, kind)
        return self.read_attribute(formal.name, plain, default)

    def read_operands(self, row: Row, formals: Sequence[Formal]) -> list[GraphTensor]:
        """In the type PyTorch computes them in."""
        args: list[Operand] = []
        for formal in formals:
            if formal.variadic:
                args += self.tensors()
            elif not formal.optional or self.is_given(formal):
                args.append(self.operand(formal.name))
        return self.unified(args, row.common, row.conditions)

    def check_all_read(self) -> None:
        """UnsupportedError for parameters that were never read: they might affect the result."""
        left = [
            f"{name}={text}"
            for name, text in self.op.params.items()
            if name not in self._read and name not in IGNORED_PARAMS and text != "None"
        ]
        left += [f"${name}" for name in self._inputs if name not in self._read]
        if left:
            raise UnsupportedError(
                f"{self.op}: these parameters are not supported: {', '.join(left)}"
            )


def _bind_keys(op: Operator) -> tuple[dict[str, str], list[str]]:
    """Named inputs by key, and the operands that are left, in order.

    A key names every occurrence of its operand, unless several keys share it: then they take them in order.
    """
    left = list(op.inputs)
    named: dict[str, str] = {}
    for position, (key, operand) in enumerate(op.keys):
        later = any(other == operand for _, other in op.keys[position + 1 :])
        named[key] = operand
        if later and operand in left:
            left.remove(operand)
        elif not later:
            left = [other for other in left if other != operand]
    return named, left


def _bind_slots(node: Node, slots: Sequence[str], named: dict[str, str], rest: list[str]) -> None:
    """Assign operands without a key to the remaining slots. `self` is an alias of the first slot."""
    if slots and "self" in named and "self" not in slots:
        named[slots[0]] = named.pop("self")
    free = [slot for slot in slots if slot not in named and slot not in node.op.params]
    if len(rest) > len(free):
        raise node.rule(
            f"inputs are {', '.join(slots) or 'not taken'}", f"{len(node.op.inputs)} inputs"
        )
    named.update(zip(free, rest, strict=False))


def _understood(kind: str, value: Any) -> Any:
    """A value as a number, integer, bool or word; None if it is of another kind. Old files write bools as 1 and 0."""
    if kind == "bool":
        return bool(value) if type(value) in (bool, int) and value in (0, 1) else None
    if kind == "float" and isinstance(value, str) and value in _FLOAT_WORDS:
        return float(value)
    types = {"int": (int,), "float": (bool, int, float), "text": (str,)}
    return value if type(value) in types[kind] else None


def _shown(value: Any) -> str:
    if isinstance(value, GraphTensor):
        return f"a tensor {value.details}"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
