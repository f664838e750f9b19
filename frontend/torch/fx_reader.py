"""Reads the nodes of an FX graph of ATen operators, one after the other, into a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from inspect import Parameter, Signature, signature
from typing import Any

from ...base.dims import Dim, NeedsLimit, Size, UndecidedSize, minimum
from ...base.dtypes import S64
from ...base.errors import GraphcError, InternalError, UnsupportedError, UserError
from ...base.size_limits import deciding_limits
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.ir.note import MODEL_VALUES
from ...graph_ir.rewriting.run_sizes import size_in
from ..correspondence.compositions.complex_numbers import Complex
from ..correspondence.compositions.indexing import dynamic_size
from ..torch_calls.arithmetic import FUNCTIONS, Function
from ..torch_calls.call import Value
from .complex_numbers import is_complex_call, read_complex
from .node import Examples, Node, Read
from .op_table import FUNCTIONAL, HANDLERS
from .sizes import Sizes
from .tensors import details_of

Values = dict[Any, Any]
"""Values of nodes of the FX graph in the Graph, by node: values, or lists of them."""

MISSING = object()
"""Stands for a value that cannot be in a graph."""

_OF_NUMBERS = {
    **{name: name for name in ("add", "sub", "mul", "neg", "pow", "abs", "trunc", "floor", "ceil", "round")},
    **{name: name for name in ("eq", "ne", "lt", "le", "gt", "ge", "max", "min")},
    "floordiv": "floor_divide", "truediv": "div", "mod": "remainder", "and_": "and", "or_": "or", "not_": "logical_not",
    "sym_max": "max", "sym_min": "min", "sym_not": "logical_not",
}  # fmt: skip
"""Functions of Python and PyTorch that compute numbers and sizes."""

_MODULES = ("_operator", "builtins", "math")
"""Modules of Python's functions; PyTorch's are `torch.sym_max` and its like."""


_MAXIMA = {operator.le: 0, operator.lt: 1}
"""Comparisons that give a maximum, with its distance from the second operand."""


def reader_of(target: Any) -> Read | None:
    """Return the reader of calls of a target; None if there is none."""
    if target is operator.getitem:
        return lambda node: node.bound["0"][node.bound["1"]]
    name = getattr(target, "__name__", "")
    is_python = getattr(target, "__module__", "") in _MODULES
    if name in _OF_NUMBERS and (is_python or name.startswith("sym_")):
        return partial(_read_numbers, FUNCTIONS[_OF_NUMBERS[name]])
    name = type_of(target)
    if is_functional(target):
        return FUNCTIONAL.get(name)
    return HANDLERS.get(name) or HANDLERS.get(name.removesuffix("_copy"))


def is_functional(target: Any) -> bool:
    """Return whether it is a Python function of `torch.nn.functional`, with argument names unlike ATen's."""
    return getattr(target, "__module__", "") == "torch.nn.functional"


def _read_numbers(function: Function, node: Node) -> Any:
    return function(node, *(x for x in node.bound.values() if x is not None))  # digits of `round`


def type_of(target: Any) -> str:
    """The name of an operator as the table has it: `add` for aten.add.Tensor, `torchvision::nms` for others."""
    schema = getattr(target, "_schema", None)
    name = schema.name if schema is not None else getattr(target, "__name__", str(target))
    return str(name).removeprefix("aten::")


def read_nodes(
    graph: Graph, nodes: Iterable[Any], values: Values, sizes: Sizes, *, pairs: bool = False
) -> dict[Any, str]:
    """Read calls into `graph`; `values` has what comes before them, and then all. Gives those that are not supported,
    with reasons; their results are inputs of the graph, so that all such calls are found. `pairs`: complex numbers are
    pairs of real ones, which do not leave the graph."""
    refused = {}
    for node in nodes:
        try:
            for x in node.all_input_nodes:
                if values[x] is MISSING:
                    raise unsupported(f"{type_of(node.target)} of {_type_text(x)}")
            values[node] = _read(graph, node, values, sizes, pairs)
        except (
            UnsupportedError,
            UserError,
        ) as error:  # PyTorch has checked the call, so it is the reader that errs
            if isinstance(error, UndecidedSize) and (
                isinstance(error, NeedsLimit) or deciding_limits(sizes.limits, error)
            ):
                raise
            refused[node] = str(error)
            values[node] = _stand_in(graph, node, sizes)
    return refused


def unsupported(what: str) -> UnsupportedError:
    """Without a remedy: callers may run it in PyTorch, or refuse the model and say what to do."""
    return UnsupportedError(f"{what} is not supported", "")


def _type_text(fx: Any) -> str:
    """Return the type that PyTorch declares for a node: `complex64`."""
    value = fx.meta.get("val")
    return str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")


def _stand_in(graph: Graph, fx: Any, sizes: Sizes) -> Any:
    """Inputs in place of what a call gives; MISSING where there are no such tensors."""
    found = []
    try:
        for number, value in enumerate(_outputs(fx)):
            details = details_of(value, fx.name, sizes) if hasattr(value, "shape") else None
            if details is None:
                return MISSING
            found.append(graph.make_input(details, f"{fx.name}.{number}"))
    except UnsupportedError:
        return MISSING
    return found if isinstance(fx.meta.get("val"), (tuple, list)) else found[0] if found else None


def _read(graph: Graph, fx: Any, values: Values, sizes: Sizes, pairs: bool) -> Any:
    read = reader_of(fx.target)
    bound, defaults = bind(fx, values, sizes)
    is_complex = is_complex_call(type_of(fx.target), bound)
    if not pairs if is_complex else read is None:
        raise unsupported(type_of(fx.target))
    outputs = _outputs(fx)
    type_name = f"aten.{type_of(fx.target)}"
    node = Node(graph, type_name, fx.name, bound, Examples(_examples(fx), outputs))
    node.limits = sizes.limits
    try:
        result = read(node) if read and not is_complex else read_complex(node, read)
        if defaults is not None and not is_complex:
            node.check_all_read(defaults)
    except GraphcError as error:
        if isinstance(error, (InternalError, NeedsLimit)) or f"'{fx.name}" in str(error):
            raise
        error.said(f"{type_name} '{fx.name}': {error}")
        raise
    result = list(result) if isinstance(result, tuple) else result
    if isinstance(result, GraphTensor) and is_size(fx.meta.get("val")):
        count = size_in(graph, result)
        if count is None and (count := sizes.of(fx.meta["val"])) is not None:
            _require(node, "eq", result, count, f"the number must be {count}, as checked")
        elif count is None:
            count = sizes.count(fx.meta["val"], partial(node.counted, result, None))
        if isinstance(count, Dim) and (promised := _promised(fx, node, result, sizes)) is not None:
            count = sizes.cut(fx.meta["val"], minimum(count, promised))
        return result if count is None else count
    _bind_counts(result if isinstance(result, list) else [result], outputs, sizes)
    _check(node, result if isinstance(result, list) else [result], outputs, sizes)
    if isinstance(result, GraphTensor):
        MODEL_VALUES.of(graph)[fx.name] = result.name  # to compare value by value
    return result


def _promised(fx: Any, node: Node, number: GraphTensor, sizes: Sizes) -> Size | None:
    """Return the dynamic size that is the maximum of a number by a check of the program, which each run makes."""
    for test in fx.users:
        checks = [use for use in test.users if type_of(use.target) == "_assert_scalar"]
        if (
            checks
            and test.target in _MAXIMA
            and test.args[0] is fx
            and type(test.args[1]) is type(fx)
        ):
            most = sizes.of(test.args[1].meta["val"])
            if most is not None:
                most = most - _MAXIMA[test.target]
                _require(node, "le", number, most, str(checks[0].args[-1]))
                return most
    return None


def _require(node: Node, relation: str, number: GraphTensor, size: Size, message: str) -> None:
    number = node.reshaped(node.converted(number, S64), ())
    node.require(node.helper(relation, number, dynamic_size(node, size)), message)


def _examples(fx: Any) -> dict[str, Any]:
    """The example values of arguments that are tensors, by name."""
    schema = getattr(fx.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    nodes = {**dict(zip(names, fx.args, strict=False)), **fx.kwargs}
    found = {name: getattr(x, "meta", {}).get("val") for name, x in nodes.items()}
    return {name: value for name, value in found.items() if hasattr(value, "stride")}


def _outputs(fx: Any) -> list[Any]:
    """The example values of what a node gives; empty where there are none."""
    value = fx.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [] if value is None else [value]


def is_size(example: Any) -> bool:
    """Return whether an example is an integer of Python that only a run knows."""
    return type(example).__name__ == "SymInt"


def _bind_counts(results: list[Any], wanted: list[Any], sizes: Sizes) -> None:
    """Let the symbols of results whose sizes the data decide be the sizes that a run counts."""
    for mine, theirs in zip(results, wanted, strict=False):
        if isinstance(mine, GraphTensor) and hasattr(theirs, "shape"):
            for size, dim in zip(mine.details.plain_dims, theirs.shape, strict=False):
                if is_size(dim):
                    sizes.count(dim, partial(_same, size))


def _same(size: Size, *_: Any) -> Size:
    return size


def _check(node: Node, results: list[Any], wanted: list[Any], sizes: Sizes) -> None:
    """Raise UnsupportedError if a result is not of the type and shape that PyTorch says: a rule is read
    incompletely."""
    for mine, theirs in zip(results, wanted, strict=False):
        if isinstance(mine, Complex):
            dims = tuple(map(sizes.of, theirs.shape))
            if mine.real.details.plain_dims != dims or not theirs.is_complex():
                raise node.unsupported(
                    f"a result of {tuple(theirs.shape)}, read as {mine.real.details},"
                )
        if not isinstance(mine, GraphTensor) or not hasattr(theirs, "shape"):
            continue
        details = details_of(theirs, node.type, sizes)
        if details is not None and (mine.details.dtype, mine.details.plain_dims) != (
            details.dtype,
            details.plain_dims,
        ):
            raise node.unsupported(f"a result of {details}, read as {mine.details},")


def bind(fx: Any, values: Values, sizes: Sizes) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The arguments of a call by name, and the defaults of others; without a schema by position, and no defaults."""
    schema = getattr(fx.target, "_schema", None)
    args = [_value(arg, values, sizes) for arg in fx.args]
    if is_functional(fx.target):
        return {name: _value(arg, values, sizes) for name, arg in fx.kwargs.items()}, _defaults(
            fx.target
        )
    if schema is None:
        return {str(i): arg for i, arg in enumerate(args)}, None
    names = [argument.name for argument in schema.arguments]
    defaults = {
        argument.name: _value(argument.default_value, values, sizes)
        for argument in schema.arguments
        if argument.has_default_value()
    }
    named = {name: _value(arg, values, sizes) for name, arg in fx.kwargs.items()}
    given = dict(zip(names, args, strict=False)) | named
    return {name: given.get(name, defaults.get(name)) for name in names}, defaults


@cache
def signature_of(function: Callable[..., Any]) -> Signature:
    """The arguments of a function of `torch.nn.functional`, some of which choose between two of one signature."""
    from torch._jit_internal import boolean_dispatched

    return signature(boolean_dispatched.get(function, {}).get("if_false", function))


@cache
def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = signature_of(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not Parameter.empty}


def _value(arg: Any, values: Mapping[Any, Any], sizes: Sizes) -> Value:
    """An argument of a node: what it is in the graph, or a Python value."""
    if isinstance(arg, (list, tuple)):
        return [_value(item, values, sizes) for item in arg]  # type: ignore[misc]
    if arg is None or isinstance(arg, (bool, int, float, str)):
        return arg
    if isinstance(arg, complex):
        return arg  # type: ignore[return-value]
    if hasattr(arg, "op") and hasattr(arg, "graph"):
        found: Value = values[arg]
        return found
    if type(arg).__module__.startswith("torch") and hasattr(arg, "node"):
        return sizes.of(arg)
    return str(arg)  # an element type, a device, a layout


def source_line(fx: Any) -> str:
    """Return the location of a call in the model's source, `file.py:12`, or ""."""
    for line in reversed(str(fx.meta.get("stack_trace") or "").splitlines()):
        words = line.strip().split(", ")
        if line.strip().startswith("File ") and len(words) >= 2:
            return (
                f"{words[0].removeprefix('File ').strip(chr(34))}:{words[1].removeprefix('line ')}"
            )
    return ""
