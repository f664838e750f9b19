"""The text of a `.param` file to a `Program`: lines, tokens and wiring checked, nothing interpreted yet."""

from __future__ import annotations

import re
from pathlib import Path

from ...base.errors import UserError
from ...base.file_errors import unreadable
from ..shape_spec import check_size
from .program import (
    COMPLEX_SUFFIXES,
    MAGIC,
    SUFFIX_DTYPES,
    UNKNOWN_SUFFIX,
    Operator,
    Program,
    TensorType,
)

MAX_RANK = 32
"""Axes a tensor may have: what NumPy handles in every version."""

_TYPE = re.compile(r"\(([^()]*)\)(\w+)", re.ASCII)
_DIM = re.compile(r"\d{1,18}", re.ASCII)
_DYNAMIC_DIM = re.compile(r"\?|-1|%[^\s,]*", re.ASCII)
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_NCNN_KEY = re.compile(r"-?\d+", re.ASCII)
_SUFFIXES = (*SUFFIX_DTYPES, *COMPLEX_SUFFIXES, UNKNOWN_SUFFIX)


def read_param(path: Path) -> Program:
    """Read and check a `.param` file. UserError, naming file and line, for any error in its text."""
    return parse_param(_read_bytes(path), f"'{path}'")


def parse_param(data: bytes, label: str) -> Program:
    """`read_param` on the bytes of a file, named `label` in messages."""
    lines = data.split(b"\n")
    if lines[0].strip() != MAGIC.encode():
        raise UserError(
            f"{label}: the first line of a PNNX .param file must be {MAGIC}, got {_shown(lines[0])}"
        )
    counts = lines[1].split() if len(lines) > 1 else []
    if len(counts) != 2 or not all(_COUNT.fullmatch(c.decode("ascii", "replace")) for c in counts):
        got = _shown(lines[1]) if len(lines) > 1 else "no second line"
        raise UserError(
            f"{label} line 2: the second line must hold two numbers, of operators and operands, got {got}"
        )
    operators = []
    for number, line in enumerate(lines[2:], 3):
        if line.strip():
            try:
                operators.append(_parse_operator(line, number))
            except UserError as error:
                raise UserError(f"{label} line {number}: {error}") from error
    _check_whole(operators, int(counts[0]), label)
    _check_wiring(operators, label)
    return Program(tuple(operators), label)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(path, error) from error


def _shown(line: bytes) -> str:
    """The start of a line that may be anything, for a message."""
    text = line[:24].decode("utf-8", "replace")
    return repr(text) + ("..." if len(line) > 24 else "")


def _parse_operator(line: bytes, number: int) -> Operator:
    try:
        tokens = [token.decode() for token in line.split()]
    except UnicodeDecodeError as error:
        raise UserError("the line must be UTF-8 text") from error
    if len(tokens) < 4 or not all(_COUNT.fullmatch(token) for token in tokens[2:4]):
        raise UserError(
            "an operator must start with type, name, number of inputs and number of outputs, "
            f"got {_shown(line)}"
        )
    inputs, outputs = int(tokens[2]), int(tokens[3])
    rest = tokens[4:]
    if len(rest) < inputs + outputs:
        raise UserError(
            f"{tokens[0]} '{tokens[1]}': {inputs} inputs and {outputs} outputs must follow, "
            f"got {len(rest)} words"
        )
    operator = Operator(
        tokens[0],
        tokens[1],
        tuple(rest[:inputs]),
        tuple(rest[inputs : inputs + outputs]),
        line=number,
    )
    keys = []
    for token in rest[inputs + outputs :]:
        key, equals, value = token.partition("=")
        if not equals or not key.strip("@$#"):
            raise UserError(
                f"{operator}: every word after the operands must be key=value, got '{token}'"
            )
        if key[0] == "$":
            keys.append((key[1:], value))
        else:
            _add_pair(operator, key, value)
    _check_keys(operator, keys)
    return Operator(**{**operator.__dict__, "keys": tuple(keys)})


def _add_pair(operator: Operator, key: str, value: str) -> None:
    if key[0] == "#":
        operator.types[key[1:]] = parse_type(f"{operator}, '{key}'", value)
        return
    table: dict[str, str | TensorType] = operator.params  # type: ignore[assignment]
    entry: str | TensorType = value
    if key[0] == "@":
        table = operator.attributes  # type: ignore[assignment]
        key = key[1:]
        entry = _attribute_type(f"{operator}, attribute '{key}'", value)
    if key in table:
        raise UserError(f"{operator}: '{key}' must be given once, but is there twice")
    table[key] = entry


def parse_type(who: str, text: str) -> TensorType:
    """Parse `(1,32)f32`; dynamic dimensions stay text. Raise UserError for any other text and for absurd sizes."""
    match = _TYPE.fullmatch(text)
    if not match or match[2] not in _SUFFIXES:
        raise UserError(f"{who}: a shape must look like (1,32)f32, got '{text[:64]}'")
    parts = match[1].split(",") if match[1] else []
    if len(parts) > MAX_RANK:
        raise UserError(f"{who}: a tensor must have at most {MAX_RANK} axes, got {len(parts)}")
    dims: list[int | str] = []
    for part in parts:
        if not _DIM.fullmatch(part) and not _DYNAMIC_DIM.fullmatch(part):
            raise UserError(
                f"{who}: every size must be a number from 0 to 10^18, or ? if it is dynamic, "
                f"got '{part[:32]}'"
            )
        dims.append(int(part) if _DIM.fullmatch(part) else "?" if part == "-1" else part)
    result = TensorType(tuple(dims), match[2])
    if result.dtype is not None:
        check_size(who, result.dtype, [d for d in dims if isinstance(d, int)])
    return result


def _attribute_type(who: str, text: str) -> TensorType:
    result = parse_type(who, text)
    if result.suffix == UNKNOWN_SUFFIX or any(isinstance(dim, str) for dim in result.dims):
        raise UserError(f"{who}: its shape and dtype must be complete, got '{text}'")
    return result


def _check_keys(operator: Operator, keys: list[tuple[str, str]]) -> None:
    for key, operand in keys:
        if operand not in operator.inputs:
            raise UserError(
                f"{operator}: '${key}' must name one of its inputs {list(operator.inputs)}, got '{operand}'"
            )
    names = [key for key, _ in keys]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{operator}: '${twice}' must be given once, but is there twice")


def _check_whole(operators: list[Operator], announced: int, label: str) -> None:
    if any(_NCNN_KEY.fullmatch(key) for op in operators for key in op.params) and not any(
        op.type.startswith("pnnx.") for op in operators
    ):
        raise UserError(
            f"{label}: a .param file must be PNNX's, but this is ncnn's own; "
            "give the .pnnx.param file of the same model"
        )
    if not any(op.type == "pnnx.Output" for op in operators):
        raise UserError(
            f"{label}: a model must have a pnnx.Output, but there is none; line 2 announces {announced} "
            f"operators and {len(operators)} are there: is the file truncated?"
        )


def _check_wiring(operators: list[Operator], label: str) -> None:
    """Names are unique, every operand has one producer, on a line above all that read it."""
    names: dict[str, int] = {}
    made: dict[str, Operator] = {}
    for op in operators:
        if op.name in names:
            raise UserError(
                f"{label} line {op.line}: operator names must be unique, but '{op.name}' is also on line "
                f"{names[op.name]}"
            )
        names[op.name] = op.line
        for operand in op.outputs:
            if operand in made:
                raise UserError(
                    f"{label} line {op.line}: an operand must have one producer, but '{operand}' is written "
                    f"by both {made[operand]} and {op}"
                )
            made[operand] = op
    for op in operators:
        for operand in op.inputs:
            if operand not in made:
                raise UserError(
                    f"{label} line {op.line}: {op} reads operand '{operand}', which an operator above must produce"
                )
            if made[operand].line >= op.line:
                raise UserError(
                    f"{label} line {op.line}: {op} reads operand '{operand}', which is produced only on line "
                    f"{made[operand].line}; lines must be in order, and a graph acyclic"
                )
