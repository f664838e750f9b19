"""`graphc inspect diff`: whether two model files, in any formats, hold the same graph, and where they differ."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..model_arguments import add_model_argument, add_options, add_reading_arguments, model_texts
from ..run_inputs import input_arrays
from ..terminal import answer

if TYPE_CHECKING:
    from ...graph_ir.ir.graph import Graph
    from ...tools.diff import GraphDifference

HELP = "Compare the graphs of two model files, in any formats"
SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_argument(parser, "first")
    add_model_argument(parser, "second")
    add_reading_arguments(parser)
    parser.add_argument(
        "--simplified", action="store_true",
        help="decompose composite ops and simplify both graphs first",
    )  # fmt: skip
    parser.add_argument(
        "--values", action="store_true", help="also run both with NumPy, on the same random inputs"
    )
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Read both and print what differs; 1 if anything does."""
    from ...tools.diff import diff
    from ...tools.normal_form import simplified

    first, second = (_load(args, path) for path in (args.first, args.second))
    if args.simplified:
        first, second = simplified(first), simplified(second)
    found = diff(first, second)
    values = _compare_values(first, second, found) if args.values else None
    facts: dict[str, Any] = {
        "same": found.same,
        "only_first": found.only_first,
        "only_second": found.only_second,
        "parts": [vars(part) for part in found.parts],
        "renamed": found.renamed,
    }
    if values is not None:
        facts["values"] = values
    answer(args, facts, _lines(args, found, values), 4)
    return 0 if found.same else 1


def _load(args: argparse.Namespace, path: str) -> Graph:
    """Load one of the files. --constant and --attr apply to formats that can omit constants and attributes."""
    from pathlib import Path

    from ...frontend import format_of, load
    from ...frontend.formats import FORMATS

    texts = model_texts(args)
    takes = FORMATS[format_of(Path(path))].takes
    constants = texts.constants if "constants" in takes else None
    return load(path, texts.inputs, constants, texts.attrs if "attrs" in takes else None)


def _compare_values(first: Graph, second: Graph, found: GraphDifference) -> list[dict[str, Any]]:
    """The difference between each pair of outputs; empty if inputs have no counterpart."""
    from ...driver.artifact import input_specs
    from ...graph_ir.inspect.compare import difference
    from ...tools.sized_model import sized_model

    twins = dict(found.pairs)
    if any(op not in twins for op in first.inputs) or len(first.inputs) != len(second.inputs):
        return []
    arrays = input_arrays(input_specs(first), {})
    fed = {one: arrays[op.name] for op in first.inputs for one in (op, twins[op])}
    results: dict[Any, Any] = {}
    for graph in (first, second):
        own = {op.name: fed[op] for op in graph.inputs}
        values = sized_model(graph, own).evaluate(list(own.values()))
        results.update(zip(graph.outputs, values, strict=True))
    rows = []
    for a, b in found.pairs:
        if a.is_output:
            apart = difference(results[b], results[a])
            rows.append({"output": a.name, "max_error": apart.absolute, "ok": apart.ok})
    return rows


def _lines(
    args: argparse.Namespace, found: GraphDifference, values: list[dict[str, Any]] | None
) -> list[str]:
    lines = []
    for side, names in ((args.first, found.only_first), (args.second, found.only_second)):
        lines += [f"only in {side}: {name}" for name in names[:SHOWN]]
        if len(names) > SHOWN:
            lines.append(f"only in {side}: {len(names) - SHOWN} more")
    for number, part in enumerate(found.parts[:SHOWN]):
        where = "they differ at" if not number else "and at"
        lines += [f"{where} {part.reason}", f"  < {part.first}", f"  > {part.second}"]
    if len(found.parts) > SHOWN:
        lines.append(f"and at {len(found.parts) - SHOWN} more nodes")
    lines += [f"input '{a}' is called '{b}' in {args.second}" for a, b in found.renamed]
    for row in values or ():
        verdict = "agree" if row["ok"] else "differ"
        lines.append(f"values of {row['output']} {verdict}: max error {row['max_error']:.3g}")
    lines.append("the graphs are the same" if found.same else "the graphs differ")
    return lines
