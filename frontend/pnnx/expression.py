"""`pnnx.Expression`: prefix calls such as `add(@0,mul(@1,2.0))`, parsed without recursion into a postfix program."""

from __future__ import annotations

import re
from typing import Any

from ...base.dtypes import S64
from ...base.errors import UserError
from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.rewriting.run_sizes import size_in
from ..torch_calls.arithmetic import FUNCTIONS
from ..torch_calls.builder import Builder
from ..torch_calls.complex_numbers import FORMULAS, complex_call, holds_complex
from ..torch_calls.promotion import Operand
from .param_value import parse_scalar
from .scope import Element, Value

MAX_DEPTH = 1000
"""Nesting limit of calls: far above that of any model."""

_TOKEN = re.compile(r"[@\w.+\-]+|[()\[\],]", re.ASCII)
_INPUT = re.compile(r"@\d{1,9}", re.ASCII)
_COMPLEX = re.compile(r"[-+.\de]+j", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_WHOLE = ("int", "floor", "ceil", "trunc")
_WORDS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


@dataclass(frozen=True)
class Step:
    """One step: push a `literal` or `input`, or pop `count` values for a `call` or `list`."""

    kind: str
    value: Any = None
    count: int = 0


@dataclass
class _Unclosed:
    """A call or list that is being read; `name` is "[" for a list."""

    name: str
    count: int = 0


def parse_expression(text: str) -> list[Step]:
    """Parse an expression into a postfix program. UserError, showing the position, for invalid text."""
    steps: list[Step] = []
    stack: list[_Unclosed] = [_Unclosed("")]
    tokens = _rebuilt(_tokens(text))
    position = 0
    wants_value = True
    while position < len(tokens):
        token = tokens[position]
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        position += 1
        if wants_value:
            if token == "[" or (following == "(" and _NAME.fullmatch(token)):
                stack.append(_Unclosed(token))
                position += token != "["
                # An empty list closes at once; every call has operands.
                wants_value = not (token == "[" and following == "]")
            else:
                steps.append(_leaf(token, text))
                stack[-1].count += 1
                wants_value = False
        elif token == "," and len(stack) > 1:
            wants_value = True
        else:
            _close(token, stack, steps, text)
        if len(stack) > MAX_DEPTH:
            raise UserError(
                f"an expression must be nested at most {MAX_DEPTH} deep, got {_shown(text)}"
            )
    if wants_value or len(stack) > 1:
        raise UserError(f"an expression must be complete, got {_shown(text)}")
    return steps


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text)
    if sum(map(len, tokens)) != len(text) or not tokens:
        raise UserError(
            f"an expression must be made of calls, numbers and @inputs, got {_shown(text)}"
        )
    return tokens


def _rebuilt(tokens: list[str]) -> list[str]:
    """The tokens as they should be: functions that the tool does not know stand without their operands.

    It writes `sub(expm1,@0),0.5` for sub(expm1(@0),0.5): the words are in order, brackets and commas are not.
    """
    pairs = zip(tokens, [*tokens[1:], ""], strict=True)
    known = [word for word in FUNCTIONS if "." not in word]  # the others are types too
    alone = [word for word, after in pairs if word in known and after != "("]
    if not alone or "[" in tokens:
        return tokens
    words = [token for token in tokens if token not in ("(", ")", ",")]
    built: list[list[str]] = []
    for word in reversed(words):
        count = FUNCTIONS[word].arity if word in FUNCTIONS else 0
        if len(built) < count:
            return tokens
        operands = [[*built.pop(), ","] for _ in range(count)]
        listed = [token for operand in operands for token in operand][:-1]
        built.append([word, "(", *listed, ")"] if count else [word])
    return built[0] if len(built) == 1 else tokens


def _close(token: str, stack: list[_Unclosed], steps: list[Step], text: str) -> None:
    opened = stack[-1]
    if len(stack) == 1 or token != ("]" if opened.name == "[" else ")"):
        raise UserError(
            f"an expression must have matching brackets, got '{token}' in {_shown(text)}"
        )
    stack.pop()
    if opened.name == "[":
        steps.append(Step("list", count=opened.count))
    else:
        steps.append(Step("call", opened.name, opened.count))
    stack[-1].count += 1


def _leaf(token: str, text: str) -> Step:
    if _INPUT.fullmatch(token):
        return Step("input", int(token[1:]))
    if token in _WORDS:
        return Step("literal", _WORDS[token])
    if _COMPLEX.fullmatch(token):
        return Step("literal", _complex_number(token, text))
    value = parse_scalar(token)
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise UserError(
            f"an operand must be a number, a word or @input, got '{token[:32]}' in {_shown(text)}"
        )
    return Step("literal", value)


def _complex_number(token: str, text: str) -> complex:
    try:
        return complex(token.replace("+-", "-"))
    except ValueError as error:
        raise UserError(
            f"a complex number must look like 1.0+2.0j, got '{token[:32]}' in {_shown(text)}"
        ) from error


def _shown(text: str) -> str:
    return f"'{text}'" if len(text) <= 64 else f"'{text[:64]}...' ({len(text)} characters)"


def unknown_functions(steps: list[Step]) -> list[str]:
    """The unsupported functions that a program calls, in order, once per call."""
    return [
        s.value
        for s in steps
        if s.kind == "call" and s.value not in ("size", *FORMULAS) and s.value not in FUNCTIONS
    ]


def evaluate_expression(steps: list[Step], inputs: list[Value], b: Builder) -> Value:
    """Run a program: values that depend on tensors become ops, everything else is computed immediately."""
    stack: list[Value] = []
    part = b.part()
    for number, step in enumerate(steps, 1):
        if step.kind == "literal":
            stack.append(step.value)
        elif step.kind == "input":
            if step.value >= len(inputs):
                raise b.rule(f"@{step.value} must be one of the inputs", f"{len(inputs)} inputs")
            stack.append(inputs[step.value])
        else:
            args = stack[len(stack) - step.count :]
            del stack[len(stack) - step.count :]
            if step.kind == "list":
                stack.append(_list(args, b))
            else:
                stack.append(_call(step.value, args, b if number == len(steps) else part))
    return stack.pop()


def _list(args: list[Value], b: Builder) -> Value:
    items: list[Element] = []
    for arg in args:
        is_index = isinstance(arg, list) and all(type(item) is int for item in arg)
        if isinstance(arg, list) and not is_index:
            raise b.unsupported("a list of lists of other values than integers")
        items.append(b.constant(arg, S64) if isinstance(arg, list) else arg)
    return items


def _call(name: str, args: list[Any], b: Builder) -> Any:
    if name == "size":
        return _size(args, b)
    if any(map(holds_complex, args)):
        return complex_call(b, name, args)
    if name not in FUNCTIONS:
        raise b.unsupported(f"{name} of real numbers in an expression")
    function = FUNCTIONS[name]
    if len(args) != function.arity:
        raise b.rule(f"{name} must have {function.arity} operands", str(len(args)))
    operands: list[Operand] = []
    for arg in args:
        if arg is None or isinstance(arg, (str, list)):
            raise b.rule(f"operands of {name} must be tensors or numbers", repr(arg)[:64])
        operands.append(arg)
    result = function(b, *operands)
    if name not in _WHOLE or not isinstance(result, GraphTensor):
        return result
    found = size_in(b.graph, result)
    return result if found is None else found


def _size(args: list[Value], b: Builder) -> Value:
    if not args or len(args) > 2 or not isinstance(args[0], GraphTensor):
        raise b.rule("size must have a tensor and maybe a dim", f"{len(args)} operands")
    dims = args[0].details.plain_dims
    if len(args) == 1:
        return list(dims)
    if type(args[1]) is not int:
        raise b.rule("the dim of size must be an integer", repr(args[1])[:64])
    if not dims:
        raise b.rule("size with a dim must have a tensor with axes", "a scalar")
    return dims[b.axis(args[1], len(dims))]
