"""Generates the README's tables from the output of `python -m graphc bench --json`.

    python -m graphc.bench.readme_tables FOLDER --measure quantized

times a suite with one thread and with two beside ONNX Runtime and OpenVINO (`ops` on AVX2 code too), keeps the results
in FOLDER as `quantized-1.json` and so on, and prints the Markdown table of each suite that FOLDER has all results of.
Several suites may be named. What FOLDER has is not timed again: an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .op_cases import op_families

SUITES = ("gemm", "mlp", "mha", "tiny", "networks", "transformers", "conv", "quantized")
HEAD = "| {} | graphc, ms | best peer, ms | ratio | % of peak | ratio, 2 threads |\n|---|--:|--:|--:|--:|--:|"

QUANTIZED_TEXT = """\
Models that ONNX Runtime's tool has quantised to 8 bits, and products and BERT also in bf16 and with 4-bit weights
(`bench --suite quantized`). `7-bit`: weights within 7 bits, which engines whose sums saturate multiply exactly too.
`4-bit`: activations stay f32, so engines that round them are marked; `4-bit-s8`: they may be rounded to 8 bits. `to own
f32` is the time of the f32 model in graphc over that of this one. Results are compared with exact integer arithmetic,
or with sums in f32: an engine whose results are farther from it than rounding allows counts as wrong and is left out of
the ratio."""

QUANTIZED_HEAD = (
    "| quantized | graphc, ms | best right peer, ms | ratio | to own f32 | % of roof | ratio, 2 threads | wrong |\n"
    "|---|--:|--:|--:|--:|--:|--:|---|"
)


def best_peer(row: dict[str, Any]) -> float:
    """Seconds of the fastest other engine; of a quantised case, whose result is right."""
    left_out = {"graphc", "f32", *(row["wrong"] if row["gain"] else ())}
    return min(x["median"] for name, x in row["engines"].items() if name not in left_out)


def quantized_table(one: dict[str, Any], two: dict[str, Any]) -> str:
    """The rows of the suite `quantized`: beside the peers, the f32 model."""
    ratios = {row["case"]: row["ratio"] for row in two["rows"]}
    lines = [QUANTIZED_TEXT, "", QUANTIZED_HEAD]
    for row in one["rows"]:
        ours, wrong = row["engines"]["graphc"]["median"], ", ".join(row["wrong"])
        best, ratio = (
            (f"{best_peer(row) * 1e3:.4g}", f"{row['ratio']:.2f}") if row["ratio"] else ("", "")
        )
        second = f"{ratios[row['case']]:.2f}" if ratios[row["case"]] else ""
        share = f"{100 * row['roof']['seconds'] / ours:.0f}" if row["roof"] else ""
        times = row["case"], f"{ours * 1e3:.4g}", best, ratio, f"{row['gain']:.2f}"
        cells = (*times, share, second, wrong)
        lines.append(f"| {' | '.join(cells)} |")
    means = f"**{one['geomean']:.2f}** | | | **{two['geomean']:.2f}** |"
    return "\n".join([*lines, f"| geometric mean | | | {means} |"])


def table(suite: str, one: dict[str, Any], two: dict[str, Any]) -> str:
    """A suite's rows; `one` and `two` are the results with one thread and with two."""
    ratios = {row["case"]: row["ratio"] for row in two["rows"]}
    lines = [HEAD.format(suite)]
    for row in one["rows"]:
        ours = row["engines"]["graphc"]["median"]
        share = 100 * row["gflop"] / ours / row["peak_gflops"]
        cells = (f"{ours * 1e3:.4g}", f"{best_peer(row) * 1e3:.4g}", f"{row['ratio']:.2f}")
        agree = "" if row["agree"] else " (results differ)"
        second = f"{ratios[row['case']]:.2f}"
        lines.append(f"| {row['case']}{agree} | {' | '.join(cells)} | {share:.0f} | {second} |")
    means = f"**{one['geomean']:.2f}** | | **{two['geomean']:.2f}**"
    return "\n".join([*lines, f"| geometric mean | | | {means} |"])


OPS = {"ops-1": "", "ops-2": "2 threads", "ops-avx2": "AVX2 code"}
"""The files of the suite `ops`, and what the ratio in each column is of, beside one thread."""


def ops_table(results: Iterable[dict[str, Any]]) -> str:
    """The suite `ops` by families: their geometric means, by the fastest calls, and their worst cases."""
    columns = [_ops_ratios(result["rows"]) for result in results]
    heads = [f"{head or 'ratio'} | worst" for head in OPS.values()]
    lines = [f"| operators | cases | {' | '.join(heads)} |", "|---|--:|" + "--:|---|" * len(OPS)]
    families = {name: list(calls) for name, calls in op_families().items()}
    everything = [name for names in families.values() for name in names]
    for family, names in (*families.items(), ("all", everything)):
        cells = [_mean_and_worst(ratios, names, family == "all") for ratios in columns]
        lines.append(f"| {family} | {len(names)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ops_ratios(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Each case's best peer over graphc, of the fastest calls; without those that no peer runs."""
    found = {}
    for row in rows:
        fastest = {name: engine["min"] for name, engine in row["engines"].items()}
        ours = fastest.pop("graphc")
        right = [seconds for name, seconds in fastest.items() if name not in row["wrong"]]
        if right:
            found[row["case"]] = min(right) / ours
    return found


def _mean_and_worst(ratios: dict[str, float], names: Iterable[str], is_bold: bool) -> str:
    known = {name: ratios[name] for name in names if name in ratios}
    mean = f"{math.exp(sum(map(math.log, known.values())) / len(known)):.2f}"
    worst = min(known, key=lambda name: known[name])
    return f"{f'**{mean}**' if is_bold else mean} | {known[worst]:.2f} ({worst})"


def commands(suite: str) -> dict[str, list[str]]:
    """By the name of its result, the arguments of each `bench` that a suite's table is made of."""
    common = ["bench", "--suite", suite, "--against", "ort,openvino", "--threads"]
    found = {f"{suite}-{threads}": [*common, str(threads)] for threads in (1, 2)}
    if suite == "ops":
        found["ops-avx2"] = [*common, "1", "--target", "avx2"]
    return found


def measure(folder: Path, suite: str) -> None:
    """Make the results of a suite that the folder lacks; half of one is in a file that `--resume` goes on from."""
    for name, arguments in commands(suite).items():
        path, begun = folder / f"{name}.json", folder / f"{name}.begun"
        if not path.exists():
            files = ["--resume", str(begun), "--output", str(path)]
            done = subprocess.run([sys.executable, "-m", "graphc", *arguments, *files])
            if not path.exists():
                sys.exit(done.returncode)
            begun.unlink()


def tables(folder: Path) -> list[str]:
    """The table of each suite that the folder has all results of."""
    found = []
    for suite in ("ops", *SUITES):
        paths = [folder / f"{name}.json" for name in commands(suite)]
        if all(path.exists() for path in paths):
            results = [json.loads(path.read_text()) for path in paths]
            found.append(_table_of(suite, results))
    return found


def _table_of(suite: str, results: Sequence[dict[str, Any]]) -> str:
    if suite == "ops":
        return ops_table(results)
    one, two = results
    return quantized_table(one, two) if suite == "quantized" else table(suite, one, two)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time what is asked for and print the tables of a folder."""
    parser = argparse.ArgumentParser(prog="python -m graphc.bench.readme_tables")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--measure", nargs="+", choices=("ops", *SUITES), default=(), metavar="SUITE"
    )
    args = parser.parse_args(arguments)
    for suite in args.measure:
        args.folder.mkdir(parents=True, exist_ok=True)
        measure(args.folder, suite)
    for text in tables(args.folder):
        print(text, end="\n\n")


if __name__ == "__main__":
    main()
