"""`graphc.recompose`: a pattern of ops of user code that is recognized as one op, written with `graphc.pattern`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeVar

from ..base.errors import UserError
from ..base.records import dataclass
from ..base.suggestion import suggestion
from ..graph_ir.ir.graph import Graph, GraphTensor, Op
from ..graph_ir.ir.registry import names, schema_of
from ..graph_ir.rewriting.pattern import Capture, Either, Match, Node, Pattern, Scalar, match
from ..graph_ir.rewriting.rewrite import Rule
from ..graph_ir.schedule.user_code import PATTERNS
from .blame import called, check_takes

Build = TypeVar("Build", bound=Callable[..., Any])


def recompose(
    pattern: Pattern, into: str = "", *, name: str = "", **attrs: Any
) -> Callable[[Build], Build]:
    """Add a pattern that recognizes an op in the ops that exporters write for it; it replaces one of the same name.

    Patterns are tried before and after those of graphc. A replacement must have the dtype and shape of what it
    replaces; otherwise nothing changes.

    Args:
        pattern: The ops to match, from `graphc.pattern`.
        into: The op that replaces the match. Its operands are the captures of their names, its attributes `attrs`
            and the scalars captured under their names. Without it, this is a decorator of a function `(graph, op,
            found)` that appends ops to the graph and returns the new tensor, or None. `op` is the last op of the
            match, `found` holds the captured tensors and numbers.
        name: The name of the pattern; default: that of the op or the function.
        **attrs: Attributes of the new op.

    Raises:
        UserError: The op or a capture does not exist.
    """
    _check_pattern(pattern)

    def add(build: Build) -> Build:
        own = name or getattr(build, "__name__", "pattern")
        check_takes(f"pattern '{own}'", "it", build, ["graph", "op", "found"])
        PATTERNS[own] = UserPattern(own, pattern, build)
        return build

    if into:
        _check_captures(name or into, pattern, into, attrs)
        PATTERNS[name or into] = UserPattern(name or into, pattern, _IntoOp(into, attrs))
    elif attrs:
        raise UserError(
            f"recompose: attributes need into=, the op that has them, got {', '.join(attrs)}"
        )
    return add


@dataclass(frozen=True)
class UserPattern:
    """A pattern in the form that the pass `recompose_user_patterns`
    expects (`graph_ir.schedule.user_code.UserPattern`)."""

    name: str
    pattern: Pattern
    build: Callable[[Graph, Op, Match], Any]

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rule, by the op that ends the pattern."""
        return dict.fromkeys(_ends(self.pattern), self._rule)

    def _rule(self, graph: Graph, op: Op) -> GraphTensor | None:
        found = match(self.pattern, op.outputs[0]) if len(op.outputs) == 1 else None
        if found is None:
            return None
        who = f"pattern '{self.name}' at {op.op_name} '{op.name}'"
        result = called(who, "it", self.build, graph, op, found)
        if result is None:
            return None
        if not isinstance(result, GraphTensor):
            raise UserError(f"{who}: it must return a tensor of the graph or None, got {result!r}")
        new, old = result.details, op.outputs[0].details
        if (new.dtype, new.plain_dims) != (old.dtype, old.plain_dims):
            raise UserError(f"{who}: the result must be {old}, got {new}")
        return result


@dataclass(frozen=True)
class _IntoOp:
    """Builds one op of what was captured; None where that gives another type, or the op does not take it."""

    op_name: str
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, graph: Graph, op: Op, found: Match) -> GraphTensor | None:
        schema, inputs = schema_of(self.op_name), []
        for operand in schema.operands:
            inputs += [found[operand.name]] if operand.name in found else []
        attrs = {**{key: found[key] for key in schema.attributes if key in found}, **self.attrs}
        trial = Graph("trial")
        try:
            made = trial.make(self.op_name, [trial.make_input(x.details) for x in inputs], attrs)
        except UserError:
            return None
        new, old = made.outputs[0].details, op.outputs[0].details
        if (new.dtype, new.plain_dims) != (old.dtype, old.plain_dims):
            return None
        return graph.make(self.op_name, inputs, attrs, f"{op.name}.{self.op_name}").outputs[0]


def _nodes(pattern: Pattern) -> Iterator[Pattern]:
    """A pattern and all inside it."""
    yield pattern
    inner: tuple[Pattern, ...] = ()
    if isinstance(pattern, Node):
        inner = pattern.inputs
    elif isinstance(pattern, Either):
        inner = pattern.options
    elif isinstance(pattern, Capture) and pattern.pattern is not None:
        inner = (pattern.pattern,)
    for one in inner:
        yield from _nodes(one)


def _ends(pattern: Pattern) -> list[str]:
    """The ops that a pattern may end in."""
    if isinstance(pattern, Node):
        return [pattern.op_name]
    if isinstance(pattern, Either):
        return list(dict.fromkeys(end for option in pattern.options for end in _ends(option)))
    if isinstance(pattern, Capture) and pattern.pattern is not None:
        return _ends(pattern.pattern)
    return []


def _check_pattern(pattern: Any) -> None:
    if not isinstance(pattern, (Capture, Scalar, Node, Either)) or not _ends(pattern):
        raise UserError(
            f"recompose: a pattern of graphc.pattern that ends in an op must be given, got {pattern!r}"
        )
    for one in _nodes(pattern):
        if isinstance(one, Node):
            _check_op(one.op_name)


def _check_op(name: str) -> None:
    if name not in names():
        remedy = suggestion(name, names())
        raise UserError(f"recompose: there is no op '{name}'" + (f"; {remedy}" if remedy else ""))


def _check_captures(name: str, pattern: Pattern, into: str, attrs: Mapping[str, Any]) -> None:
    """Raise UserError if captures are not the operands and attributes of the op."""
    _check_op(into)
    schema = schema_of(into)
    tensors = {one.name for one in _nodes(pattern) if isinstance(one, Capture)}
    numbers = {one.name for one in _nodes(pattern) if isinstance(one, Scalar) and one.name}
    operands = {x.name for x in schema.operands}
    needed = {x.name for x in schema.operands[: schema.fixed]}
    wrong = sorted(
        (tensors - operands)
        | (needed - tensors)
        | ((numbers | set(attrs)) - set(schema.attributes))
    )
    if wrong:
        has = ", ".join([*(x.text() for x in schema.operands), *schema.attributes])
        raise UserError(
            f"pattern '{name}': captures and attributes must be those of {into}, {has}, got {wrong[0]!r} "
            f"{'missing' if wrong[0] in needed - tensors else 'too'}"
        )
