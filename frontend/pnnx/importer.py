"""Imports a PNNX model: checks the file, fixes the inputs, then imports operator by operator."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...base.errors import InternalError, UnsupportedError, UserError
from ...base.records import dataclass
from ...base.symbols import Limits
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.ir.note import MODEL_VALUES
from ..correspondence.compositions.complex_numbers import Complex
from ..refusals import WITHOUT, foreign_ops
from ..shape_spec import InputSpecs
from ..torch_calls.builder import Builder
from ..torch_calls.call import make_checks
from ..torch_calls.complex_numbers import holds_complex
from ..torch_calls.promotion import number_dtype
from .complex_numbers import complex_results
from .expression import parse_expression, unknown_functions
from .inputs import is_complex_input, resolve_inputs
from .op_table import HANDLERS
from .program import Operator, Program
from .reader import read_param
from .scope import Handler, Node, Scope, Value
from .weights import Weights

_INPUT, _OUTPUT = "pnnx.Input", "pnnx.Output"
_OF_ATEN = re.compile(r"(?:aten::|torch\.|Tensor\.)(\w+)")


@dataclass(frozen=True)
class Others:
    """A reader of operators of ATen by their names: whether it `has` one, and the results of a call."""

    has: Callable[[str], bool]
    read: Callable[[str, Node], tuple[GraphTensor, ...]]


def load_pnnx(
    path: str | os.PathLike[str],
    specs: InputSpecs | None = None,
    limits: Limits = MappingProxyType({}),
    others: Others | None = None,
) -> Graph:
    """Read `X.param` and the weights in `X.bin` beside it. `specs` fixes dynamic sizes of the file, by input
    name; dynamic sizes are within their `limits`. `others` reads operators of ATen that no table has.

    Raise UserError for errors in the files or the specs, UnsupportedError for everything not handled, in one message.
    """
    param = Path(path)
    program = read_param(param)
    handlers = _handlers(program, others)
    details = resolve_inputs(program, specs or {}, limits)
    name = param.name.removesuffix(".param").removesuffix(".pnnx")
    scope = Scope(Graph(name or "graph"), Weights(param.with_suffix(".bin")))
    for op in _unpacked(program.operators):
        try:
            if op.type == _INPUT:
                scope.values[op.outputs[0]] = _input(op, program, details[op.name], scope)
            elif op.type == _OUTPUT:
                _make_outputs(op, scope)
            else:
                _import_operator(op, handlers[op.type], scope)
        except (UserError, UnsupportedError) as error:
            error.said(f"{program.label} line {op.line}: {_named(op, error)}")
            raise
    if not scope.graph.outputs:
        raise UserError(
            f"{program.label}: a model must have an output, but no pnnx.Output has an input"
        )
    make_checks(scope.graph)
    return scope.graph


def _input(op: Operator, program: Program, details: LogicalTensor, scope: Scope) -> Any:
    """An input, or those of the parts of complex numbers."""
    if not is_complex_input(op, program):
        return scope.graph.make_input(details, op.name)
    return Complex(*(scope.graph.make_input(details, f"{op.name}.{x}") for x in ("real", "imag")))


def _handlers(program: Program, others: Others | None) -> Mapping[str, Handler]:
    """Return the handlers of all operators. Raise UnsupportedError if some have none."""
    unknown: Counter[str] = Counter()
    left: dict[str, Handler] = {}
    for op in program.operators:
        if op.type == "pnnx.Expression":
            try:
                steps = parse_expression(op.params.get("expr", ""))
            except (UserError, UnsupportedError) as error:
                error.said(f"{program.label} line {op.line}: {op}: {error}")
                raise
            unknown.update(f"{name} in pnnx.Expression" for name in unknown_functions(steps))
        elif op.type not in HANDLERS and op.type not in (_INPUT, _OUTPUT):
            found = _OF_ATEN.fullmatch(op.type)
            if found and others is not None and others.has(found[1]):
                left[op.type] = Handler(partial(others.read, found[1]), ("*",))
            else:
                unknown[op.type] += 1
    if unknown:
        raise foreign_ops(program.label, unknown, "operators")
    return HANDLERS | left


def _unpacked(operators: Sequence[Operator]) -> list[Operator]:
    """Return the operators, where ATen's functions give the members of a list that is only taken apart."""
    made = {op.outputs: op for op in operators if op.type.startswith("aten::")}
    readers = Counter(operand for op in operators for operand in op.inputs)
    parts = {
        made[op.inputs].name: op
        for op in operators
        if op.type == "prim::ListUnpack" and op.inputs in made and readers[op.inputs[0]] == 1
    }
    return [
        replace(op, outputs=parts[op.name].outputs) if op.name in parts else op
        for op in operators
        if op not in parts.values()
    ]


def _make_outputs(op: Operator, scope: Scope) -> None:
    """One graph output per input, or per member of a tuple."""
    if op.outputs:
        raise UserError(f"{op} must have no outputs, got {len(op.outputs)}")
    values: list[Any] = []
    for operand in op.inputs:
        values += _leaves(scope.values[operand])
    for number, value in enumerate(values):
        name = op.name if len(values) == 1 else f"{op.name}.{number}"
        if isinstance(value, Complex):
            scope.graph.make_output(value.real, f"{name}.real")
            scope.graph.make_output(value.imag, f"{name}.imag")
        else:
            scope.graph.make_output(_tensor(op, value, scope), name)


def _leaves(value: Any) -> list[Any]:
    """The members of tuples, and of those inside them."""
    return [x for y in value for x in _leaves(y)] if isinstance(value, list) else [value]


def _tensor(op: Operator, value: Value, scope: Scope) -> GraphTensor:
    if isinstance(value, GraphTensor):
        return value
    if value is None or isinstance(value, (str, list)):
        raise UnsupportedError(f"{op}: a result that is not a tensor is not supported", WITHOUT)
    return Builder(scope.graph, op.type, op.name).constant(value, number_dtype(value))


def _import_operator(op: Operator, handler: Handler, scope: Scope) -> None:
    if any(holds_complex(scope.values[x]) for x in op.inputs):
        results = complex_results(op, handler, scope)
    else:
        node = Node(op, handler, scope)
        results = handler.run(node)
        node.check_all_read()
    is_several = isinstance(results, tuple) or (isinstance(results, list) and len(op.outputs) > 1)
    outputs = tuple(results) if is_several else (results,)
    if op.type.startswith("nn.") and len(outputs) > 1 == len(op.outputs):
        outputs = ([*outputs],)  # a module's tuple, which the next operator takes apart
    if len(outputs) != len(op.outputs):
        raise UserError(f"{op} must have {len(outputs)} outputs, got {len(op.outputs)}")
    _check_shapes(op, outputs)
    scope.values.update(zip(op.outputs, outputs, strict=True))
    named = {
        x: y.name for x, y in zip(op.outputs, outputs, strict=True) if isinstance(y, GraphTensor)
    }
    MODEL_VALUES.of(scope.graph).update(named)  # to compare value by value


def _check_shapes(op: Operator, outputs: tuple[Value, ...]) -> None:
    """Raise UnsupportedError if a result has not the shape that the file says: the operator is not all there, or
    read incompletely.
    """
    for name, value in zip(op.outputs, outputs, strict=True):
        written = op.types.get(name)
        if written is None or not isinstance(value, GraphTensor):
            continue
        dims = value.details.plain_dims
        if all(isinstance(d, int) for d in (*dims, *written.dims)) and dims != written.dims:
            said = f"{op}: a result of {written}, as the file says, read as {value.details},"
            raise UnsupportedError(f"{said} is not supported", WITHOUT)


def _named(op: Operator, error: Exception) -> str:
    """The message, with the operator's name added unless it contains it."""
    if isinstance(error, InternalError) or f"'{op.name}" in str(error):
        return str(error)
    return f"{op}: {error}"
