"""Elementwise functions: one table for expressions, torch.* and Tensor.* functions alike.

A function takes tensors and Python numbers; for numbers alone it computes a number immediately.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dims import Dim, UndecidedSize, maximum, minimum
from ...base.dtypes import BOOL, F32, F64, S64, DType
from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.rewriting.size_values import is_equal, quotient, remainder
from ..correspondence.compositions.arithmetic import log_add_exp
from ..correspondence.compositions.signs import sign
from ..correspondence.row import Row
from ..correspondence.spelling import Spelling
from ..correspondence.tables import TABLE
from .builder import Builder
from .call import WORD_DTYPES, Call, Handler, Value
from .promotion import Number, Operand, result_dtype

_MAX_BITS = 63


@dataclass(frozen=True)
class Function:
    """`tensor(builder, *operands)` where one of them is a tensor, else `number(*numbers)`; `arity` operands.

    `of_sizes`: the type in which a run computes it of dynamic sizes, where it is not an expression of them.
    """

    arity: int
    tensor: Callable[..., GraphTensor]
    number: Callable[..., Any]
    of_sizes: DType = S64

    def __call__(self, b: Builder, *args: Operand) -> Operand:
        """Apply to operands; raise UserError if the numbers have no result."""
        if any(isinstance(arg, GraphTensor) for arg in args):
            return self.tensor(b, *args)
        try:
            return _of_numbers(b, self.number, args)
        except UndecidedSize:
            dtype = F64 if any(isinstance(x, float) for x in args) else self.of_sizes
            sizes = (b.tensor(x, dtype) if isinstance(x, Dim) else x for x in args)
            return self.tensor(b, *sizes)


def _of_numbers(b: Builder, function: Callable[..., Any], args: tuple[Any, ...]) -> Number:
    try:
        with np.errstate(all="ignore"):
            value = function(*args)
    except (ArithmeticError, ValueError, TypeError, AttributeError) as error:
        if any(isinstance(arg, Dim) for arg in args):
            raise UndecidedSize(str(error)) from error
        raise b.rule("the operands must have a result", f"{list(args)}: {error}") from error
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Dim):
        return value
    if not isinstance(value, (int, float)):
        raise b.rule("the operands must have a real result", str(list(args)))
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise b.rule("an integer must fit 64 bits", f"one of {value.bit_length()} bits")
    return value


def as_float(b: Builder, x: Operand) -> GraphTensor:
    """The operand as a float tensor: integers and bools become f32."""
    dtype = result_dtype((x,))
    return b.tensor(x, dtype if dtype.is_float else F32)


def logical(b: Builder, x: Operand) -> GraphTensor:
    """Return whether each element is not zero."""
    return b.tensor(x, BOOL)


def promoted(b: Builder, *args: Operand) -> list[GraphTensor]:
    """All operands in the dtype PyTorch computes them in."""
    dtype = result_dtype(args)
    return [b.tensor(x, dtype) for x in args]


def _divide(b: Builder, x: Operand, y: Operand) -> GraphTensor:
    return b.make("div", *(as_float(b, z) for z in promoted(b, x, y)))


def _floor_divide(b: Builder, x: Operand, y: Operand) -> GraphTensor:
    """floor(x / y), correct even if the quotient was rounded up to an integer first; a zero has the sign of x / y."""
    left, right = promoted(b, x, y)
    dtype = left.details.dtype
    if not dtype.is_float:
        return b.make("div", left, right)
    rest, below = _truncated_remainder(b, left, right)
    quotient = b.helper("div", b.helper("sub", left, rest), right)
    whole = b.helper("round", b.helper("sub", quotient, b.converted(below, dtype)))
    zero, exact = b.constant(0, dtype), b.helper("div", left, right)
    whole = b.helper("select", b.helper("eq", whole, zero), b.helper("mul", exact, zero), whole)
    return b.make("select", b.helper("eq", right, zero), exact, whole)


def _truncated_remainder(
    b: Builder, left: GraphTensor, right: GraphTensor
) -> tuple[GraphTensor, GraphTensor]:
    """Return what left / right leaves with the sign of left, and whether rounding down takes one more of right."""
    rest, zero = b.helper("mod", left, right, sign="trunc"), b.constant(0, left.details.dtype)
    signs = [b.helper("lt", z, zero) for z in (rest, right)]
    return rest, b.helper("and", b.helper("ne", rest, zero), b.helper("xor", *signs))


def _remainder(b: Builder, x: Operand, y: Operand) -> GraphTensor:
    """x - y * floor(x / y); a float zero has the sign of x, not of y as in Python."""
    left, right = promoted(b, x, y)
    if not left.details.dtype.is_float:
        return b.make("mod", left, right)
    rest, below = _truncated_remainder(b, left, right)
    return b.make("select", below, b.helper("add", rest, right), rest)


def _power(x: Number, y: Number) -> Any:
    if isinstance(x, int) and isinstance(y, int) and y >= 0:
        if y > _MAX_BITS and abs(x) > 1:
            raise OverflowError("the power does not fit 64 bits")
        return x**y
    return np.float64(x) ** np.float64(y)


def _log_add_exp(b: Builder, x: Operand, y: Operand) -> GraphTensor:
    left, right = (as_float(b, z) for z in promoted(b, x, y))
    return log_add_exp(b, left, right)


def _size_power(x: Dim, y: Number) -> Any:
    if isinstance(y, int) and 0 <= y <= _MAX_BITS:
        return math.prod([x] * y)
    raise UndecidedSize("a power of a size must have a known exponent that is not negative")


def _on_sizes(of_sizes: Callable[..., Any], of_numbers: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that applies a separate rule if an operand is a dynamic size."""

    def function(*numbers: Any) -> Any:
        is_size = any(isinstance(number, Dim) for number in numbers)
        return (of_sizes if is_size else of_numbers)(*numbers)

    return function


def _as_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *numbers: function(*map(np.float64, numbers))


def _of_fractions(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: x if isinstance(x, (int, Dim)) else function(x)


def _shift(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def shifted(x: int, y: int) -> int:
        if not 0 <= y <= _MAX_BITS:
            raise ValueError(f"a shift must be from 0 to {_MAX_BITS}")
        return function(x, y)

    return shifted


def _logarithm(base: float) -> Callable[[Builder, Operand], GraphTensor]:
    def tensor(b: Builder, x: Operand) -> GraphTensor:
        natural = b.helper("log", as_float(b, x))
        return b.make("mul", natural, b.constant(1 / math.log(base), natural.details.dtype))

    return tensor


def _cast(word: str) -> Function:
    dtype = WORD_DTYPES[word]

    def tensor(b: Builder, x: GraphTensor) -> GraphTensor:
        return x if x.details.dtype == dtype else b.make("cast", x, dtype=dtype.name)

    kinds: dict[str, Callable[..., Any]] = {"float": float, "int": int, "uint": int, "bool": bool}
    return Function(1, tensor, kinds[dtype.kind])


_ON_BOOLS = {"add": "or", "mul": "and", "max": "or", "min": "and"}
_ROUNDING = ("ceil", "floor", "trunc", "round")


def _by_row(row: Row, spelling: Spelling) -> Callable[..., GraphTensor]:
    """The meaning of a table cell for tensors and numbers."""
    op_name = row.name

    def tensor(b: Builder, *args: Operand) -> GraphTensor:
        if spelling.kinds == ("bool",):
            return b.make(op_name, *(logical(b, x) for x in args))
        dtype = result_dtype(args)
        if op_name in _ROUNDING and not dtype.is_float:
            return b.tensor(args[0])
        operands = b.unified(args, row.common)
        chosen = _ON_BOOLS.get(op_name, op_name) if dtype == BOOL else op_name
        return b.make(chosen, *operands, **spelling.fixed)

    return tensor


_OF_FLOATS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "sqrt")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
    "erf": math.erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "atan2": np.arctan2,
}
_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    **{name: _as_floats(function) for name, function in _OF_FLOATS.items()},
    **{name: _of_fractions(getattr(np, name)) for name in ("ceil", "floor", "trunc")},
    "round": _of_fractions(np.rint),
    "abs": _on_sizes(lambda x: maximum(x, -x), abs), "neg": operator.neg, "square": lambda x: x * x, "sign": np.sign,
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "pow": _on_sizes(_size_power, _power),
    "remainder": _on_sizes(remainder, operator.mod), "fmod": np.fmod,
    "maximum": _on_sizes(maximum, max), "minimum": _on_sizes(minimum, min),
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "bitwise_left_shift": _shift(operator.lshift), "bitwise_right_shift": _shift(operator.rshift),
    "eq": _on_sizes(is_equal, operator.eq), "ne": _on_sizes(lambda x, y: not is_equal(x, y), operator.ne),
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge")},
    "logical_and": lambda x, y: bool(x) and bool(y), "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_xor": lambda x, y: bool(x) != bool(y),
    "logical_not": operator.not_, "bitwise_not": operator.invert,
}  # fmt: skip
"""The value of a table function for numbers alone."""

_SHORT = {
    "max": "maximum", "min": "minimum", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
"""Other names that functions have in expressions."""


def _table() -> dict[str, Function]:
    """The functions defined by rows of the table, by their names after `torch.`."""
    reads, found = TABLE.reads("pnnx"), {}
    for name, number in _OF_NUMBERS.items():
        row, spelling = reads[f"torch.{name}"][0]
        wide = F64 if name in ("pow", *_OF_FLOATS) else S64
        found[name] = Function(len(spelling.operands), _by_row(row, spelling), number, wide)
    return found | {short: found[name] for short, name in _SHORT.items()}


FUNCTIONS: dict[str, Function] = {
    **_table(),
    "log10": Function(1, _logarithm(10), _as_floats(np.log10), F64),
    "log2": Function(1, _logarithm(2), _as_floats(np.log2), F64),
    **{word: _cast(word) for word in WORD_DTYPES},
    "int": Function(1, _cast("torch.long").tensor, int),
    "float": _cast("torch.float"),
    "div": Function(2, _divide, _as_floats(operator.truediv), F64),
    "floor_divide": Function(2, _floor_divide, _on_sizes(quotient, operator.floordiv)),
    "remainder": Function(2, _remainder, _OF_NUMBERS["remainder"]),
    "logaddexp": Function(2, _log_add_exp, np.logaddexp),
    "sign": Function(1, lambda b, x: sign(b, b.tensor(x)), np.sign),  # 0 for NaN
}
"""Name to function. Names with a dot are casts."""


# The same functions as separate operators.


def _function_handler(function: Function) -> Handler:
    if function.arity == 1:
        return Handler(lambda node: function(node, node.operand()))
    return Handler(
        lambda node: function(node, node.operand(), node.operand("other")), ("input", "other")
    )


def _scaled(function: Function) -> Handler:
    """add and sub: the second operand may be multiplied by `alpha`."""

    def run(node: Call) -> Value:
        other = node.operand("other")
        alpha = node.number("alpha", 1)
        if alpha != 1:
            other = FUNCTIONS["mul"](node.part(), other, alpha)
        return function(node, node.operand(), other)

    return Handler(run, ("input", "other", "alpha"))


def _read_div(node: Call, _: str) -> Value:
    """torch.div with its three rounding modes."""
    left, right = node.operand(), node.operand("other")
    mode = node.argument("rounding_mode")
    if mode is None:
        return FUNCTIONS["div"](node, left, right)
    if mode == "floor":
        return FUNCTIONS["floor_divide"](node, left, right)
    if mode != "trunc":
        raise node.rule("rounding_mode must be None, floor or trunc", repr(mode))
    x, y = promoted(node, left, right)
    if not x.details.dtype.is_float:
        return node.make("div", x, y, rounding="trunc")
    return node.make("trunc", node.helper("div", x, y))


def _pow(node: Call) -> Value:
    slot = "exponent" if node.given("exponent") else "other"
    return FUNCTIONS["pow"](node, node.operand(), node.operand(slot))


def _read_clamp(node: Call, _: str) -> Value:
    """Bounds that are numbers become attributes; tensors are compared element by element."""
    x = node.operand()
    bounds = {name: node.argument(name) for name in ("min", "max")}
    known = [name for name in bounds if not isinstance(bounds[name], (GraphTensor, Dim))]
    numbers = {name: node.number(name, 0) if node.given(name) else None for name in known}
    if all(value is None for value in bounds.values()):
        raise node.rule("min or max must be given", "neither")
    dtype = result_dtype([x, *(value for value in numbers.values() if value is not None)])
    result, wrap = node.tensor(x, dtype), (1 << dtype.bits) * (dtype.kind == "uint")
    if len(numbers) == len(bounds):  # PyTorch wraps a negative bound of unsigned values
        given = {name: b + wrap if b and b < 0 else b for name, b in numbers.items()}
        return node.make("clamp", result, **given)
    for name, op_name in (("min", "max"), ("max", "min")):
        if bounds[name] is not None:
            result = node.helper(op_name, *promoted(node, result, node.operand(name)))
    return result


_PLAIN = [
    name
    for name in FUNCTIONS
    if "." not in name and name not in ("int", "float", "max", "min", "div")
]
CALLS = {
    **{name: _function_handler(FUNCTIONS[name]) for name in _PLAIN},
    "add": _scaled(FUNCTIONS["add"]),
    "sub": _scaled(FUNCTIONS["sub"]),
    "pow": Handler(_pow, ("input", "exponent", "other")),
}

READS = {"div": _read_div, "clamp": _read_clamp}
