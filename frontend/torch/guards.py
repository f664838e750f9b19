"""Guards of an exported program: conditions on the sizes of its inputs that its trace took for granted.

PyTorch keeps them as texts of Python, `(L['x'].size()[1] % 2) == 0`, and raises where a call does not meet them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from ...base.dims import Size
from ...base.dtypes import BOOL
from ...base.errors import UserError
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..torch_calls.arithmetic import FUNCTIONS
from ..torch_calls.builder import Builder
from ..torch_calls.call import require

_SIZE = re.compile(r"L((?:\['[^']*'\]|\[\d+\]|\.(?!size\()\w+)+)\.size\(\)\[(\d+)\]")

_NAMES: dict[Any, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "pow", ast.USub: "neg", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le",
    ast.Gt: "gt", ast.GtE: "ge", ast.And: "logical_and", ast.Or: "logical_or", ast.Not: "logical_not",
    **{name: name for name in ("trunc", "floor", "ceil", "round", "abs", "max", "min")},
    "sym_float": "torch.double", "_sym_sqrt": "sqrt",
}  # fmt: skip
"""Nodes and functions of guards, the latter without their modules, by their names in `FUNCTIONS`."""


def require_guards(
    graph: Graph, guards: Iterable[str], inputs: Mapping[str, Sequence[Size] | None]
) -> None:
    """Have each run check the guards about `inputs`, the shapes of tensors by name, in the order of the program.

    With an inequality, PyTorch also notes that no size of the trace was 1, so that it need not hold of a size of 1.
    """
    for number, text in enumerate(guards):
        builder, sizes = Builder(graph, "guard", f"guard_{number}"), dict[str, Size]()
        short = re.sub(r"\b(?:math|torch)\.", "", text)
        tree = ast.parse(_SIZE.sub(partial(_named, inputs, sizes), short), mode="eval").body
        try:
            holds = _value(builder, tree, sizes)
        except KeyError:  # about something else than sizes of tensors
            continue
        if isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.NotEq):
            ones = [FUNCTIONS["eq"](builder, size, 1) for size in sizes.values()]
            holds = reduce(partial(FUNCTIONS["logical_or"], builder), ones, holds)
        shown = ast.unparse(tree)
        for name, size in sizes.items():
            shown = shown.replace(name, str(size))
        message = f"exported program: its trace holds only where {shown}; export it for others"
        if isinstance(holds, GraphTensor):
            require(graph, builder.converted(holds, BOOL), message)
        elif not holds:
            raise UserError(message)


def _named(
    inputs: Mapping[str, Sequence[Size] | None], sizes: dict[str, Size], match: re.Match[str]
) -> str:
    """A name for the size in a guard, which is noted in `sizes`: that of the input `x_key_0` for `L['x']['key'][0]`, of
    the fourth one for `L['flat_args'][3]`."""
    keys = re.findall(r"\w+", match[1])
    is_counted = keys[0] == "flat_args"
    dims = [*inputs.values()][int(keys[1])] if is_counted else inputs.get("_".join(keys))
    name = f"size_{len(sizes)}_"
    if dims is not None:
        sizes[name] = dims[int(match[2])]
    return name


def _value(builder: Builder, tree: ast.AST, sizes: Mapping[str, Size]) -> Any:
    """The value of an expression: a number, an expression of sizes or a scalar of the graph. KeyError for others."""
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Name):
        return sizes[tree.id]
    parts = [(getattr(part, "id", type(part)), part) for part in ast.iter_child_nodes(tree)]
    (name,) = [_NAMES[key] for key, _ in parts if key in _NAMES] or [""]
    operands = [_value(builder, part, sizes) for key, part in parts if key not in _NAMES]
    first, *others = operands
    function = partial(FUNCTIONS[name], builder)
    return reduce(function, others, first) if others else function(first)
