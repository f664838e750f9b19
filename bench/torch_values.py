"""Every value of a PNNX model as computed by PyTorch, whose operators have the same names."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..frontend.pnnx.expression import parse_expression
from ..frontend.pnnx.param_value import parse_param_value, parse_scalar
from ..frontend.pnnx.program import Operator
from ..frontend.pnnx.reader import read_param
from ..frontend.pnnx.weights import Weights

Array = np.ndarray[Any, Any]

_SCALAR: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floor_divide": operator.floordiv, "pow": operator.pow, "neg": operator.neg,
    "remainder": operator.mod, "int": int, "float": float, "size": lambda x, axis: x.shape[axis],
}  # fmt: skip
"""Functions of expressions that take Python's numbers as well as tensors."""


def torch_values(param: Path, inputs: Mapping[str, Array]) -> Iterator[tuple[str, str, Array]]:
    """(operand, `type 'name'` of the operator that makes it, array) of every tensor, in the order of the file.

    Raise UserError for a file that cannot be read and for an operator that PyTorch lacks. ImportError without PyTorch.
    """
    import torch

    program, weights = read_param(param), Weights(param.with_suffix(".bin"))
    values: dict[str, Any] = {}
    last = {x: i for i, op in enumerate(program.operators) for x in op.inputs}
    for number, op in enumerate(program.operators):
        if op.type == "pnnx.Input":
            values[op.outputs[0]] = torch.from_numpy(np.array(inputs[op.name]))
        elif op.type != "pnnx.Output":
            with torch.no_grad():
                results = _run(op, [values[x] for x in op.inputs], weights)
            many = (
                results if isinstance(results, (tuple, list)) and len(op.outputs) > 1 else [results]
            )
            for name, value in zip(op.outputs, many, strict=True):
                values[name] = value
                if isinstance(value, torch.Tensor):
                    yield name, str(op), value.detach().contiguous().numpy()
        for name in op.inputs:
            if last[name] == number:
                values.pop(name, None)


def _run(op: Operator, operands: list[Any], weights: Weights) -> Any:
    import torch

    attributes = {
        key: torch.from_numpy(np.array(weights.read(op.name, key, declared)))
        for key, declared in op.attributes.items()
    }
    if op.type == "pnnx.Expression":
        return _expression(op.params["expr"], operands)
    if op.type == "pnnx.Attribute":
        return next(iter(attributes.values()))
    params = {key: parse_param_value(text) for key, text in op.params.items()}
    prefix, _, name = op.type.partition(".")
    if prefix == "nn" and hasattr(torch.nn, name):
        module = getattr(torch.nn, name)(**params).eval()
        module.load_state_dict(attributes, strict=False)
        return module(*operands)
    keyed = dict(op.keys)
    named = {key: operands[op.inputs.index(x)] for key, x in keyed.items()}
    plain = [value for value, x in zip(operands, op.inputs, strict=True) if x not in keyed.values()]
    if prefix == "Tensor":
        own = named.pop("self", None) if "self" in named else named.pop("input", None)
        own = plain.pop(0) if own is None else own
        function = getattr(own, name, None)
    else:
        room = {"F": torch.nn.functional, "torch": torch}.get(prefix)
        function = getattr(room, name, None)
    if function is None:
        raise UserError(
            f"{op}: PyTorch has no operator of this name; compare the model against numpy"
        )
    return function(*plain, **named, **params)


def _expression(text: str, operands: list[Any]) -> Any:
    stack: list[Any] = []
    for step in parse_expression(text):
        if step.kind == "input":
            stack.append(operands[step.value])
        elif step.kind == "literal":
            stack.append(parse_scalar(step.value) if isinstance(step.value, str) else step.value)
        else:
            arguments = stack[len(stack) - step.count :]
            del stack[len(stack) - step.count :]
            stack.append(arguments if step.kind == "list" else _call(str(step.value), arguments))
    return stack.pop()


def _call(name: str, arguments: list[Any]) -> Any:
    import torch

    tensors = any(isinstance(x, torch.Tensor) for x in arguments)
    function = _SCALAR.get(name) or getattr(torch if tensors else math, name, None)
    if function is None:
        raise UserError(
            f"pnnx.Expression: PyTorch has no function '{name}'; compare the model against numpy"
        )
    return function(*arguments)
