"""Jinja's sandbox, with bounds of time and memory: templates come with files that nobody has read."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from ..base.errors import UserError

MAX_TEXT = 1 << 24
"""Characters of a text, and elements of a list, that a template makes."""

MAX_SECONDS, MAX_BYTES = 5.0, 1 << 28
"""A template that takes more is not one of a model."""

MAX_BITS = 1 << 16
"""Bits of an integer."""

_NUMBERS = re.compile(r"\d+")
_STAR_OR_NESTED = re.compile(r"%[^%a-zA-Z]*\*|:[^{}]*\{")
"""A width of a format that an argument says."""

_UNBOUNDED = ("translate", "expandtabs")
"""Methods of texts that templates of models have no use for, and whose results may be huge."""


class BoundedSandbox(ImmutableSandboxedEnvironment):  # type: ignore[misc]
    """Refuses operations whose result would be huge, before they are computed."""

    filters: dict[str, Any]
    intercepted_binops = frozenset(("*", "**", "%", "+"))

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=bounded_value, **options)
        self.filters = {name: _bounded(one, name) for name, one in self.filters.items()}
        self.filters[_CONCATENATED] = lambda parts: "".join(map(str, bounded_value(parts)))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Concatenations().visit(super()._parse(source, name, filename))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute a binary operation. Raise UserError for a huge result."""
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() * right, MAX_BITS)
        elif operator == "*" and isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() + right.bit_length(), MAX_BITS)
        elif operator == "*":
            for some, count in ((left, right), (right, left)):
                if hasattr(some, "__len__") and isinstance(count, int):
                    _check(len(some) * count, MAX_TEXT)
        elif operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            _check(len(left) + len(right), MAX_TEXT)
        elif isinstance(left, str):
            _check_format(left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, /, *args: Any, **options: Any) -> Any:
        """Call a function. Raise UserError where its arguments ask for a huge result."""
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        _check_integers(args, options)
        if isinstance(owner, str):
            bounded_value([*args, *options.values()])
            _check_method(owner, function.__name__, args, options)
        return super().call(context, function, *args, **options)


_CONCATENATED = "_concatenated"
"""The filter that `~` becomes."""


class _Concatenations(NodeTransformer):  # type: ignore[misc]
    """Makes `~` a filter, since the sandbox does not see it."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        """Return the filter of a list of the operands."""
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, _CONCATENATED, [], [], None, None, lineno=node.lineno)


def _check_method(owner: str, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    if name in _UNBOUNDED:
        raise refused()
    if name in ("format", "format_map"):
        _check_format(owner, [*args, *options.values()])
    if name == "replace":
        _check(_longest((owner,)) * _longest(args), MAX_TEXT)
    if name == "join" and args:
        _check_join(owner, args[0])


def _check_format(form: str, values: Any) -> None:
    """Raise UserError for a format of wide fields, or many of long values."""
    widths = sum(int(one[:9]) for one in _NUMBERS.findall(form))
    fields = form.count("%") + form.count("{")
    if _STAR_OR_NESTED.search(form):
        raise refused()
    _check(widths + len(form) + fields * _size(values), MAX_TEXT)


def _check_join(separator: Any, parts: Any) -> None:
    if hasattr(parts, "__len__"):
        _check(len(parts) * _size(separator), MAX_TEXT)
        _check(_size(parts) + len(parts) * _size(separator), MAX_TEXT)
    elif _size(separator) > 1 << 10:
        raise refused()


_OF_ELEMENTS = frozenset((
    "attr", "batch", "count", "d", "default", "dictsort", "first", "groupby", "items", "join", "last", "length", "list",
    "map", "max", "min", "random", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "sort", "sum",
    "unique",
))  # fmt: skip
"""Filters that make no text of a list."""


def _bounded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A filter whose arguments do not ask for a huge result."""

    @wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        texts = [one for one in args if hasattr(one, "__len__")]
        _check_integers(args, options)
        if name == "sum":
            _check_start(args, options)
        if name not in _OF_ELEMENTS:
            bounded_value([*texts, *options.values()])
        if name == "replace" and texts:
            _check(_longest(texts[:1]) * _longest(texts[1:]), MAX_TEXT)
        if name == "join" and texts:
            _check_join(texts[1] if len(texts) > 1 else options.get("d", ""), texts[0])
        if name == "format":
            _check_format(str(args[0]), [*args[1:], *options.values()])
        if name == "indent":
            width = args[1] if len(args) > 1 else options.get("width", 4)
            size = width if isinstance(width, int) else _size(width)
            _check(str(args[0]).count("\n") * size, MAX_TEXT)
        return function(*args, **options)

    return checked


def _check_start(args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Sums of lists take as many steps as the square of their length."""
    if any(isinstance(one, list | tuple) for one in (*args[3:], *options.values())):
        raise refused()


def _check_integers(args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    for value in (*args, *options.values()):
        if isinstance(value, int):
            _check(value, MAX_TEXT)


def bounded_value(value: Any) -> Any:
    """Return a value. Raise UserError if its text would be huge: lists hold the same text several times."""
    _size(value)
    return value


def _size(value: Any) -> int:
    """Return about how many characters the text of a value has. Raise UserError if there are too many."""
    total, rest = 0, [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, Mapping):
            rest += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            rest += one
        _check(total := total + 1, MAX_TEXT)
        _check(len(rest), MAX_TEXT)
    return total


def _longest(values: Any) -> int:
    return max((len(one) for one in values if hasattr(one, "__len__")), default=1) or 1


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise refused()


def refused() -> UserError:
    """Return the error for a template that takes too much."""
    return UserError(
        f"the chat template must end within {MAX_SECONDS:g} s and {MAX_BYTES >> 20} MiB, as those of models do; "
        "give the prompt as text"
    )


@contextmanager
def bounded() -> Iterator[None]:
    """Raise UserError from inside the block once it takes too long, or too much memory, in Python code."""
    begin, before, old = time.thread_time(), _peak_bytes(), sys.gettrace()

    def trace(*_: Any) -> Any:
        if time.thread_time() - begin > MAX_SECONDS or _peak_bytes() - before > MAX_BYTES:
            raise refused()
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(old)


def _peak_bytes() -> int:
    """The most memory that the process had resident; 0 where the system does not say."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return 0
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
