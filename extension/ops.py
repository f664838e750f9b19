"""`graphc.ops`: ops that user code defines.

graphc.ops.define(
    "shrink", "x moved towards 0 by bias where |x| > lambd, else 0.",
    operands="x", attrs={"bias": 0.0, "lambd": 0.5}, accepts=("float",),
    element=..., reference=...,
)
graph.make("shrink", [x], {"lambd": 1.0})
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtypes import DType
from ..base.errors import UserError
from ..frontend.correspondence.gathering import add_row
from ..frontend.correspondence.row import Op as Spelled
from ..graph_ir.ir.attributes import (
    ArrayAttr,
    BoolAttr,
    ChoiceAttr,
    DTypeAttr,
    FloatAttr,
    IntAttr,
    NumberAttr,
    StrAttr,
    optional,
)  # fmt: skip
from ..graph_ir.ir.axis_attributes import AxesAttr, AxisAttr, FloatsAttr, IntsAttr
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ir.registry import register
from ..graph_ir.ops.elementwise import ANY, Row
from .blame import check_takes
from .declaration import (
    Attributes,
    Operands,
    attribute_members,
    check_name,
    operand_members,
)
from .defined_op import ComposedOp, DefinedElementwise, Definition, KernelOp

__all__ = [
    "ArrayAttr", "AxesAttr", "AxisAttr", "BoolAttr", "ChoiceAttr", "DTypeAttr", "FloatAttr", "FloatsAttr", "IntAttr",
    "IntsAttr", "LogicalTensor", "NumberAttr", "StrAttr", "define", "optional",
]  # fmt: skip

_KINDS = ("float", "int", "uint", "bool")


def define(
    name: str,
    meaning: str,
    *,
    operands: Operands = "x",
    attrs: Attributes | None = None,
    infer: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    compose: Callable[..., Any] | None = None,
    element: Callable[..., Any] | None = None,
    accepts: Sequence[str] = ANY,
    result: DType | None = None,
    onnx: str = "",
) -> None:
    """Define an op; it replaces one that user code defined under the same name.

    All functions take the operands by position and the attributes by keyword. An op needs `compose`, `element` or a
    kernel (`graphc.kernel`).

    Args:
        name: The name, for `Graph.make`.
        meaning: One sentence, for messages and texts.
        operands: `"x"`, `("x", "scale?", "parts...")`, or these names with their meanings.
        attrs: Attributes by name: a declaration of this module, a default value, or the type of a required one.
        infer: Types of the operands (`LogicalTensor`) to that of the result, or to a list.
        reference: Arrays to arrays, with floats as float64.
        compose: `compose(make, *tensors, **attrs)` builds the op from others: `make("mul", x, y)`. It replaces
            `infer` and `reference`.
        element: The Tensor IR expression of one element. Operands have one dtype and broadcast; 16-bit floats are
            f32.
        accepts: The kinds of dtype that `element` takes: `float`, `int`, `uint`, `bool`.
        result: The dtype of the result of `element`; None: that of the operands.
        onnx: The spelling in ONNX models: `"com.example::Shrink(x | bias, lambd)"`.

    Raises:
        UserError: A declaration is invalid, or the name is an op of graphc.
    """
    check_name(name)
    who = f"op '{name}'"
    declared = operand_members(who, operands)
    attributes = attribute_members(who, attrs or {}, declared)
    functions = {"infer": infer, "reference": reference, "compose": compose, "element": element}
    _check_functions(who, functions, list(declared), list(attributes))
    members: dict[str, Any] = {**declared, **attributes, "__doc__": meaning, "__module__": __name__}
    members["_onnx"] = onnx  # with the class, in every key
    base: type[Any]
    if element is not None:
        assert reference is not None
        base = DefinedElementwise
        _check_elementwise(who, [x.text() for x in declared.values()], accepts)
        members["row"] = Row(
            name, meaning, element, reference, tuple(accepts), tuple(declared), attributes, result
        )
    else:
        base = KernelOp if compose is None else ComposedOp
        members["definition"] = Definition(infer, reference, compose)
    register(name, again=True)(type(name, (base,), members))
    _spell(name, onnx)


def _spell(name: str, onnx: str) -> None:
    """Have ONNX models read and write the op."""
    try:
        add_row(Spelled(name, onnx=onnx))
    except ValueError as error:
        raise UserError(f"op '{name}': onnx: {error}") from error


def _check_functions(
    who: str, functions: dict[str, Callable[..., Any] | None], operands: list[str], attrs: list[str]
) -> None:
    """Raise UserError if functions are missing, too many, or take other arguments than the op has."""
    given = [what for what, function in functions.items() if function is not None]
    if "element" in given:
        needed, useless = ["reference"], ["infer", "compose"]
        why = "an op with element= broadcasts its operands"
    elif "compose" in given:
        needed, useless, why = [], [], ""
    else:
        needed, useless = ["infer", "reference"], []
        why = "an op without compose= or element= is described by nothing else"
    wrong = [f"needs {what}=" for what in needed if what not in given]
    wrong += [f"takes no {what}=" for what in useless if what in given]
    if wrong:
        raise UserError(f"{who} {wrong[0]}: {why}; it has {', '.join(given) or 'no functions'}")
    for what in given:
        function, first = functions[what], ["make"] if what == "compose" else []
        assert function is not None
        check_takes(who, what, function, [*first, *operands], attrs)


def _check_elementwise(who: str, operands: list[str], accepts: Sequence[str]) -> None:
    if not operands or any(text[-1] in "?." for text in operands):
        shown = ", ".join(operands) or "none"
        raise UserError(
            f"{who}: operands of an elementwise op are one or more that must be given, got {shown}"
        )
    if isinstance(accepts, str) or not accepts or not set(accepts) <= set(_KINDS):
        raise UserError(f"{who}: accepts must be some of {', '.join(_KINDS)}, got {accepts!r}")
