"""The formula of an elementwise op or a reduction, as a tree that writers of other formats can translate."""

from __future__ import annotations

from ...base.dtypes import DType
from ...base.errors import InternalError
from ...base.records import dataclass
from ...tensor_ir import nodes
from ...tensor_ir.nodes import Expr, Var
from ..ir.graph import Op
from ..ops.elementwise import Elementwise
from ..ops.reduce import Reduce


@dataclass(frozen=True)
class Term:
    """One operation: `kind` is operand, const, unary, binary, compare, select, cast or call.

    `name` is the operation's name in Tensor IR, for an operand its number; `value` is that of a
    constant. Equal subterms are the same object.
    """

    kind: str
    name: str
    dtype: DType
    parts: tuple[Term, ...] = ()
    value: int | float | bool = 0


@dataclass(frozen=True)
class ReductionFormula:
    """`finish(combine over all of element)`; each formula has one operand."""

    element: Term
    combine: str
    finish: Term


def elementwise_formula(op: Op) -> Term:
    """The formula of one output element of an elementwise op; 16-bit floats are computed as f32."""
    if not isinstance(op, Elementwise):
        raise InternalError(f"op '{op.op_name}' is not elementwise")
    operands = [Var(str(i), x.details.dtype.accumulator) for i, x in enumerate(op.inputs)]
    return _term(op.row.element(*operands, **op.attr_values()), {})


def reduction_formula(op: Op, count: int) -> ReductionFormula:
    """The formula of a reduction over `count` elements."""
    if not isinstance(op, Reduce):
        raise InternalError(f"op '{op.op_name}' is not a reduction")
    element = op.row.element(Var("0", op.inputs[0].details.dtype.accumulator))
    finish = op.row.finish(Var("0", element.dtype), count)
    return ReductionFormula(_term(element, {}), op.row.combine, _term(finish, {}))


def _term(expr: Expr, known: dict[int, Term]) -> Term:
    """Formulas are small and written by hand, so recursion is bounded; `known` preserves sharing."""
    if id(expr) not in known:
        known[id(expr)] = _translated(expr, known)
    return known[id(expr)]


def _translated(expr: Expr, known: dict[int, Term]) -> Term:
    def parts(*operands: Expr) -> tuple[Term, ...]:
        return tuple(_term(operand, known) for operand in operands)

    match expr:
        case nodes.Var(name, dtype):
            return Term("operand", name, dtype)
        case nodes.Const(value, dtype):
            return Term("const", "", dtype, value=value)
        case nodes.Unary(name, operand):
            return Term("unary", name, expr.dtype, parts(operand))
        case nodes.Binary(name, left, right):
            return Term("binary", name, expr.dtype, parts(left, right))
        case nodes.Compare(name, left, right):
            return Term("compare", name, expr.dtype, parts(left, right))
        case nodes.Select(condition, then, otherwise):
            return Term("select", "", expr.dtype, parts(condition, then, otherwise))
        case nodes.Cast(operand, dtype):
            return Term("cast", "", dtype, parts(operand))
        case nodes.Call(name, args):
            return Term("call", name, expr.dtype, parts(*args))
        case _:
            raise InternalError(f"a formula cannot hold {type(expr).__name__}")
