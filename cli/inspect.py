"""`graphc inspect`: the tensors in a dump of `graphc debug` or in any `.params` file; the operators of a model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import UserError
from ..base.file_errors import unwritable
from .model_arguments import add_reading_arguments, model_texts
from .terminal import say

if TYPE_CHECKING:
    from ..tools.operators import Operand, Operator

NAME = "inspect"
HELP = "List, compare or extract the tensors of a debug dump or a .params file; list the operators of a model."

Array = np.ndarray[Any, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "dump", help="dump folder of `graphc debug`, a .params file, or (with --operators) a model"
    )
    parser.add_argument("nodes", nargs="?", default="*", help="glob of node names (default: all)")
    parser.add_argument(
        "--against", metavar="DUMP", help="show the difference from another dump's values"
    )
    parser.add_argument("--save", metavar="DIR", help="write each tensor to DIR/NAME.npy")
    parser.add_argument("--values", action="store_true", help="print the first and last elements")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of a table"
    )
    parser.add_argument(
        "--operators", action="store_true",
        help="list a model's operators: type, parameters, weights, operands, producers and consumers",
    )  # fmt: skip
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """A line per tensor: name, type, least, greatest and mean value. 1 if `--against` finds a difference."""
    if args.operators:
        return _list_operators(args)
    other = dict(_chosen(_find(args.against), args.nodes)) if args.against else None
    rows: list[dict[str, Any]] = []
    for name, array in _chosen(_find(args.dump), args.nodes):
        row = _facts(name, array)
        if other is not None:
            row |= _compared(array, other.get(name))
        if args.save:
            row["file"] = _save(Path(args.save), name, array)
        if args.values:
            row["values"] = np.array2string(array, threshold=12, edgeitems=3, precision=6)
        rows.append(row)
    if not rows:
        raise UserError(
            f"no tensor of '{args.dump}' matches '{args.nodes}'; without --nodes all are listed"
        )
    if args.json:
        say(json.dumps(rows))
    else:
        say(_table(rows))
    return 1 if any(row.get("same") is False for row in rows) else 0


def _list_operators(args: argparse.Namespace) -> int:
    from ..tools.operators import list_operators

    if args.against or args.save or args.values:
        raise UserError("--against, --save and --values are for dumps; --operators lists a model")
    texts = model_texts(args)
    found = list_operators(args.dump, texts.inputs, texts.constants, texts.attrs)
    chosen = [op for op in found if fnmatchcase(op.name, args.nodes)]
    if not chosen:
        raise UserError(
            f"no operator of '{args.dump}' matches '{args.nodes}'; without --nodes all are listed"
        )
    if args.json:
        say(json.dumps([asdict(op) for op in chosen]))
    else:
        say("\n".join(line for op in chosen for line in _operator_lines(op)))
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


def _find(path: str) -> Path:
    """The params file that a path refers to: itself, or the one in a dump folder or its root."""
    from ..tools.debug_dump import FOLDER, TENSORS_FILE

    given = Path(path)
    for file in (given, given / TENSORS_FILE, given / FOLDER / TENSORS_FILE):
        if file.is_file():
            return file
    raise UserError(
        f"'{path}' is neither a .params file nor a folder with one; `graphc debug` writes it"
    )


def _chosen(file: Path, pattern: str) -> Iterator[tuple[str, Array]]:
    from ..frontend.tvm.params import read_params

    for name, array in read_params(file).items():
        if fnmatchcase(name, pattern) or fnmatchcase(name.split("____topo-index:")[0], pattern):
            yield name, array


def _facts(name: str, array: Array) -> dict[str, Any]:
    from ..base.dtypes import from_numpy

    dims = ",".join(map(str, array.shape))
    facts: dict[str, Any] = {"name": name, "type": f"{from_numpy(array.dtype)}[{dims}]"}
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size:
        facts |= {"min": finite.min(), "max": finite.max(), "mean": finite.mean()}
    if finite.size != wide.size:
        facts |= {"nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}
    return facts


def _compared(array: Array, other: Array | None) -> dict[str, Any]:
    from ..graph_ir.inspect.compare import difference

    if other is None:
        return {"same": False, "difference": "only in the first"}
    found = difference(array, other)
    return {"same": found.ok, "difference": f"{found.absolute:.3g}"}


def _save(folder: Path, name: str, array: Array) -> str:
    stem = "".join(ch if ch.isalnum() or ch in "._-" else "_" for ch in name).lstrip(".")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{stem}.npy", array, allow_pickle=False)
    except OSError as error:
        raise unwritable(folder, error) from error
    return str(folder / f"{stem}.npy")


def _table(rows: list[dict[str, Any]]) -> str:
    keys = [
        key
        for key in ("name", "type", "min", "max", "mean", "nan", "inf", "difference", "file")
        if any(key in row for row in rows)
    ]
    cells = [keys] + [[_text(row.get(key)) for key in keys] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(keys))]
    lines = []
    for number, line in enumerate(cells):
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        lines.append("  ".join(padded).rstrip())
        if number and (values := rows[number - 1].get("values")):
            lines.append(values)
    return "\n".join(lines)


def _text(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
