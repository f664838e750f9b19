"""A call in Dynamo's graph as a call of an ATen operator, or of a function of `torch.nn.functional`."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from .fx_reader import is_functional, signature_of, unsupported

_CASTS = ("bool", "short", "int", "long", "half", "bfloat16", "float", "double")
"""Methods that convert to the element types that PyTorch has under these names."""

_OPERATORS = {
    **{name: name for name in ("add", "sub", "mul", "pow", "neg", "abs", "matmul")},
    **{name: name for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
"""Python's operators and those of ATen."""

_BEHIND = {"where": 1, "polygamma": 1}
"""Methods whose operators take the tensor behind other arguments, and where."""

_SAME = {
    "multiply": "mul", "subtract": "sub", "divide": "div", "true_divide": "div", "absolute": "abs", "negative": "neg",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "clip": "clamp",
    "concat": "cat", "concatenate": "cat", "swapdims": "transpose", "swapaxes": "transpose", "moveaxis": "movedim",
}  # fmt: skip
"""Second names of operators."""

_SIZES_BY_POSITION = {
    **dict.fromkeys(("view", "reshape", "permute", "expand", "repeat", "tile", "flip"), 1),
    **dict.fromkeys(("new_zeros", "new_ones", "new_empty"), 1),
    **dict.fromkeys(("zeros", "ones", "empty"), 0),
}
"""Functions whose last argument by position is a list that may be written without brackets, and where it begins."""

_LIKE_ATEN = ("split", "einsum")
"""Functions of `torch.functional` that take arguments as ATen does, the last ones in a list."""


class Call:
    """A call of Dynamo's by the function that computes its result: `writes` says that it is also its first argument.

    Raise UnsupportedError if ATen has no function of this name for such arguments, or none that only computes.
    """

    def __init__(self, node: Any) -> None:
        self.args, self.kwargs, self.writes = tuple(node.args), dict(node.kwargs), False
        self.target: Any = node.target
        is_method = node.op == "call_method"
        self.name = node.target if is_method else getattr(node.target, "__name__", "")
        if is_method:
            at = _BEHIND.get(self.name, 0)
            self.args = (*self.args[1 : at + 1], self.args[0], *self.args[at + 1 :])
            self._resolve(self.name)
        elif node.target in _of_python():
            name, self.writes = _of_python()[node.target]
            self._resolve(name)
        elif node.target is getattr:
            self._transpose()
        elif is_functional(node.target):
            self._name_arguments()
        elif node.target is not operator.getitem:
            self._find()

    @property
    def first(self) -> Any:
        """The first argument."""
        return self.args[0] if self.args else next(iter(self.kwargs.values()))

    def _find(self) -> None:
        """The operator of a function of PyTorch's."""
        module = str(getattr(self.target, "__module__", ""))
        if hasattr(self.target, "_schema"):
            if self.target._schema.is_mutable:
                raise unsupported(f"{self.name}, which writes to its arguments,")
            return
        if module == "torch.functional" and self.name in _LIKE_ATEN:
            if self.name == "einsum" and not isinstance(self.args[1], (list, tuple)):
                self.args = (self.args[0], [*self.args[1:]])
        elif not module.startswith("torch") or not (
            inspect.isbuiltin(self.target) or hasattr(self.target, "_qualified_op_name")
        ):
            raise unsupported(f"{self.name}, a function of Python,")
        self._resolve(self.name)

    def _transpose(self) -> None:
        """The attributes T and mT."""
        x, name = self.args
        rank = x.meta["example_value"].dim()
        if name not in ("T", "mT") or rank != 2 and (name == "T" or rank < 2):
            raise unsupported(f"the attribute {name}")
        self.args = (x, -2, -1)
        self._resolve("transpose")

    def _resolve(self, name: str) -> None:
        """The overload of ATen's that takes such arguments, as PyTorch finds it."""
        import torch

        if name in _CASTS and len(self.args) == 1 and not self.kwargs:
            name, self.args = "to", (self.args[0], getattr(torch, name))
        first = _SIZES_BY_POSITION.get(name, len(self.args))
        if len(self.args) > first and all(type(x) is int for x in self.args[first:]):
            self.args = (*self.args[:first], list(self.args[first:]))
        if name.endswith("_") and not name.startswith("__"):
            name, self.writes = name[:-1], True
        name = _SAME.get(name, name)
        is_packet = hasattr(self.target, "_qualified_op_name")  # of any library's operators
        packet = self.target if is_packet else getattr(torch.ops.aten, name, None)
        if packet is None:
            raise unsupported(name)
        overload = self._overload(packet)
        if overload is None:
            self._repeat_numbers(packet)
            overload = self._overload(packet)
        if overload is None or overload._schema.is_mutable:
            raise unsupported(f"{name} with such arguments")
        self.target = overload

    def _overload(self, packet: Any) -> Any:
        """None where there is none, or where it would take a number for a bool or an element type."""
        import torch

        args, kwargs = _examples(self.args), _examples(self.kwargs)
        name = packet._qualified_op_name
        try:
            found = getattr(packet, torch._C._jit_resolve_packet(name, *args, **kwargs))
        except (RuntimeError, TypeError):
            return None
        formals = found._schema.arguments
        given = {**dict(zip((x.name for x in formals), args, strict=False)), **kwargs}
        flags = [given.get(x.name) for x in formals if str(x.type) in ("bool", "Optional[bool]")]
        return found if all(type(flag) in (bool, type(None)) for flag in flags) else None

    def _repeat_numbers(self, packet: Any) -> None:
        """A number for a list of a known length is as many of it; one for a flag is an axis of a list of one."""
        if "default" not in packet.overloads():
            return
        formals = packet.default._schema.arguments
        lengths = {x.name: x.N or 1 for x in formals if x.N or str(x.type) == "bool"}
        names = [x.name for x in formals]

        def repeated(name: str, value: Any) -> Any:
            return [value] * lengths[name] if type(value) is int and name in lengths else value

        self.args = (
            tuple(repeated(name, x) for name, x in zip(names, self.args, strict=False))
            + self.args[len(names) :]
        )
        self.kwargs = {name: repeated(name, x) for name, x in self.kwargs.items()}

    def _name_arguments(self) -> None:
        """Name the arguments of a Python function, without `inplace`."""
        try:
            bound = signature_of(self.target).bind(*self.args, **self.kwargs).arguments
        except TypeError as error:
            raise unsupported(f"{self.name} with such arguments") from error
        self.writes = bound.pop("inplace", False) is True
        self.args, self.kwargs = (), dict(bound)


@cache
def _of_python() -> Mapping[Callable[..., Any], tuple[str, bool]]:
    """Functions of the module `operator`: those of ATen, and whether they write to their first argument."""
    found = {getattr(operator, name): (aten, False) for name, aten in _OPERATORS.items()}
    for name, aten in _OPERATORS.items():
        writing = getattr(operator, f"i{name.removesuffix('_')}", None)
        if writing is not None:
            found[writing] = aten, True
    return found


def _examples(args: Any) -> Any:
    """Examples in place of nodes."""
    if isinstance(args, dict):
        return {key: _examples(value) for key, value in args.items()}
    if isinstance(args, (list, tuple)):
        found = [_examples(value) for value in args]
        return found if isinstance(args, list) else tuple(found)
    return args.meta["example_value"] if hasattr(args, "op") and hasattr(args, "meta") else args
