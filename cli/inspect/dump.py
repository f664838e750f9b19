"""`graphc inspect dump`: the tensors in a dump of `graphc dev debug` or in any `.params` file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import UserError
from ..array_folder import ArrayFolder
from ..file_kinds import TENSORS
from ..model_arguments import add_file_argument, add_options
from ..terminal import answer, table

HELP = "List, compare or save the tensors of a debug dump or a .params file"
KEYWORDS = ("params", "tensors")

Array = np.ndarray[Any, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file_argument(
        parser, "dump", (TENSORS,), "dump folder of `graphc dev debug`, or a .params file"
    )
    add_options(parser, "nodes")
    parser.add_argument(
        "--against", metavar="DUMP", help="show the difference from the values of another dump"
    )
    parser.add_argument("--output-dir", metavar="DIR", help="write each tensor to DIR/NAME.npy")
    parser.add_argument("--values", action="store_true", help="print the first and last elements")
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Print name, type, minimum, maximum and mean of each tensor. Return 1 if `--against` finds a difference."""
    other = dict(_chosen(_find(args.against), args.nodes)) if args.against else None
    rows: list[dict[str, Any]] = []
    files = ArrayFolder(args.output_dir) if args.output_dir else None
    for name, array in _chosen(_find(args.dump), args.nodes):
        row = _facts(name, array)
        if other is not None:
            row |= _compared(array, other.get(name))
        if files:
            row["file"] = files.write(name, array)
        if args.values:
            row["values"] = np.array2string(array, threshold=12, edgeitems=3, precision=6)
        rows.append(row)
    if not rows:
        raise UserError(
            f"no tensor of '{args.dump}' matches '{args.nodes}'; leave --nodes out to list all"
        )
    answer(args, rows, _lines(rows), 4)
    return 1 if any(row.get("same") is False for row in rows) else 0


def _find(path: str) -> Path:
    """The params file that a path refers to: itself, or the one in a dump folder or its root."""
    from ...tools.debug_dump import FOLDER, TENSORS_FILE

    given = Path(path)
    for file in (given, given / TENSORS_FILE, given / FOLDER / TENSORS_FILE):
        if file.is_file():
            return file
    raise UserError(
        f"'{path}' is neither a .params file nor a folder with one; `graphc dev debug` writes it"
    )


def _chosen(file: Path, pattern: str) -> Iterator[tuple[str, Array]]:
    from ...frontend.tvm.params import read_params

    for name, array in read_params(file).items():
        if fnmatchcase(name, pattern) or fnmatchcase(name.split("____topo-index:")[0], pattern):
            yield name, array


def _facts(name: str, array: Array) -> dict[str, Any]:
    from ...base.dtypes import from_numpy

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
    from ...graph_ir.inspect.compare import difference

    if other is None:
        return {"same": False, "difference": "only in the first"}
    found = difference(array, other)
    return {"same": found.ok, "difference": f"{found.absolute:.3g}"}


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    keys = [
        key
        for key in ("name", "type", "min", "max", "mean", "nan", "inf", "difference", "file")
        if any(key in row for row in rows)
    ]
    cells = [keys] + [[_text(row.get(key)) for key in keys] for row in rows]
    for number, line in enumerate(table(cells, left=len(keys))):
        yield line
        if number and (values := rows[number - 1].get("values")):
            yield from values.splitlines()


def _text(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
