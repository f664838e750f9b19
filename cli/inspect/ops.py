"""`graphc inspect ops`: the operators of a model file, as the file has them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..model_arguments import add_model_argument, add_options, add_reading_arguments, model_texts
from ..terminal import answer

if TYPE_CHECKING:
    from ...tools.operators import Operand, Operator

HELP = "List the ops of a model: type, parameters, weights, operands, consumers"
KEYWORDS = ("operators", "nodes", "summary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_argument(parser)
    add_options(parser, "nodes")
    add_reading_arguments(parser)
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Print the operators whose names match."""
    from ...tools.operators import list_operators

    texts = model_texts(args)
    found = list_operators(args.model, texts.inputs, texts.constants, texts.attrs)
    chosen = [op for op in found if fnmatchcase(op.name, args.nodes)]
    if not chosen:
        raise UserError(
            f"no operator of '{args.model}' matches '{args.nodes}'; leave --nodes out to list all"
        )
    lines = (line for op in chosen for line in _operator_lines(op))
    answer(args, [asdict(op) for op in chosen], lines, 12)
    return 0


def _operator_lines(op: Operator) -> Iterator[str]:
    yield f"{op.type} {op.name}"
    if op.params:
        pairs = (f"{key}={value}{_code(op.codes.get(key))}" for key, value in op.params.items())
        yield "  params      " + " ".join(pairs)
    for key, text in op.attributes.items():
        yield f"  attribute   @{key} {text}{_code(op.codes.get(key))}"
    for key, operand in zip(op.keys, op.inputs, strict=True):
        yield f"  input       {f'${key}=' if key else ''}{_operand(operand)} from {operand.producer}"
    for operand in op.outputs:
        consumers = ", ".join(operand.consumers) or "nobody"
        yield f"  output      {_operand(operand)} to {consumers}"


def _operand(operand: Operand) -> str:
    return f"{operand.name} {operand.type}".rstrip() + _code(operand.code)


def _code(code: int | None) -> str:
    """PNNX's number of a type."""
    return "" if code is None else f" (type {code})"
