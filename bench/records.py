"""Recorded measurements: the tables of docs/benchmarks.md as JSON files, and the command that measures them again.

    python -m graphc.bench.records docs/records --measure networks

times a suite with one thread and with two beside ONNX Runtime and OpenVINO, and writes `docs/records/networks.json`.
The raw output of `graphc bench --json` stays in `docs/records/raw` until the record is complete: an interrupted run
continues where it stopped. `python docs/generate.py` then updates the page and the chart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from ..base.records import dataclass
from ..codegen.host import host_supports
from ..targets.isa import fused_levels
from .op_cases import op_families

Cell = str | int | float | None
Result = Mapping[str, Any]
"""The output of one `graphc bench --json`."""

TITLES = {
    "gemm": "Matrix multiplication",
    "mlp": "Multi-layer perceptrons",
    "mha": "Multi-head attention",
    "tiny": "Tiny models",
    "conv": "Convolution layers",
    "networks": "Convolutional networks",
    "transformers": "Transformers",
    "quantized": "Quantized models",
    "ops": "Single operators",
    "torch": "PyTorch modules",
}
"""The suites that can be measured and recorded."""

ENGINES = {"ort": "ONNX Runtime", "openvino": "OpenVINO", "inductor": "PyTorch Inductor"}
OWN = ("graphc", "f32", "fixed", "frozen", "module")
"""Engines of a row that are graphc itself, under other settings."""


@dataclass(frozen=True)
class Column:
    """A heading, and the format of the numbers below it."""

    name: str
    format: str = ""


@dataclass(frozen=True)
class Record:
    """One table of figures, and how they were measured."""

    suite: str
    title: str
    date: str
    cpu: str
    versions: Mapping[str, str]
    command: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    mean: Sequence[Cell] = field(default_factory=list)

    def column(self, name: str) -> list[Cell]:
        """The cells below a heading. Raise ValueError if there is no such column."""
        index = [column.name for column in self.columns].index(name)
        return [row[index] for row in self.rows]

    def to_text(self) -> str:
        """The record as JSON, a row on each line."""
        lines = []
        for key, value in asdict(self).items():
            if key in ("columns", "rows"):
                inner = ",\n".join(f"  {json.dumps(item)}" for item in value)
                lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
            elif value:
                lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def write(self, folder: Path) -> None:
        """Write the record to a folder, which is made if there is none."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.suite}.json").write_text(self.to_text(), encoding="utf-8")

    def markdown(self) -> str:
        """The table, with the CPU, the date, the versions and the command above it."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        signs = ["--:" if column.format else "---" for column in self.columns]
        lines = [
            f"{self.cpu}; {self.date}; {versions}; `{self.command}`",
            "",
            _line([column.name for column in self.columns]),
            f"|{'|'.join(signs)}|",
            *(_line(self._texts(row)) for row in self.rows),
        ]
        if self.mean:
            lines.append(_line([f"**{text}**" if text else "" for text in self._texts(self.mean)]))
        return "\n".join(lines)

    def _texts(self, row: Sequence[Cell]) -> list[str]:
        pairs = zip(row, self.columns, strict=True)
        return [_text(cell, column.format) for cell, column in pairs]


def read_record(path: Path) -> Record:
    """The record in a file."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    return Record(**{**facts, "columns": [Column(**column) for column in facts["columns"]]})


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _text(cell: Cell, spec: str) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else format(cell, spec)


def best_peer(row: Result) -> float:
    """Seconds of the fastest other engine; of a quantized case, of those whose result is right."""
    left_out = {*OWN, *(row["wrong"] if row["gain"] else ())}
    return min(x["median"] for name, x in row["engines"].items() if name not in left_out)


def _plain(one: Result, two: Result) -> tuple[list[Column], list[list[Cell]], list[Cell]]:
    """Rows of each engine's own time; `one` and `two` are the results with one thread and with two."""
    ratios = {row["case"]: row["ratio"] for row in two["rows"]}
    peers = _peers(one)
    columns = [
        Column("case"), Column("graphc, ms", ".4g"), *(Column(f"{ENGINES[name]}, ms", ".4g") for name in peers),
        Column("ratio", ".2f"), Column("% of peak", ".0f"), Column("ratio, 2 threads", ".2f"),
    ]  # fmt: skip
    rows = []
    for row in one["rows"]:
        ours = row["engines"]["graphc"]["median"]
        share = 100 * row["gflop"] / ours / row["peak_gflops"]
        name = row["case"] if row["agree"] else f"{row['case']} (results differ)"
        times = [_ms(row, engine) for engine in ("graphc", *peers)]
        rows.append([name, *times, row["ratio"], share, ratios[row["case"]]])
    empty: list[Cell] = [None] * len(peers)
    return columns, rows, ["geometric mean", None, *empty, one["geomean"], None, two["geomean"]]


def _peers(result: Result) -> list[str]:
    """The other engines of a result, in the order of `ENGINES`."""
    seen = {name for row in result["rows"] for name in row["engines"]}
    return [name for name in ENGINES if name in seen]


def _ms(row: Result, engine: str) -> float | None:
    timing = row["engines"].get(engine)
    return timing and timing["median"] * 1e3


def narrower_levels() -> list[str]:
    """Return the instruction sets with FMA that this CPU has beside its widest: columns of the suite `quantized`."""
    return [level for level in fused_levels() if host_supports(level)][1:]


def _quantized(
    one: Result, two: Result, *levels: Result
) -> tuple[list[Column], list[list[Cell]], list[Cell]]:
    """Rows of the suite `quantized`: beside the peers, the f32 model and graphc on narrower instruction sets."""
    columns = [
        Column("case"), Column("graphc, ms", ".4g"), Column("best right peer, ms", ".4g"), Column("ratio", ".2f"),
        Column("to own f32", ".2f"), Column("% of roof", ".0f"), Column("ratio, 2 threads", ".2f"),
        *(Column(f"{level}, ms", ".4g") for level, _ in zip(narrower_levels(), levels, strict=True)),
        Column("wrong"),
    ]  # fmt: skip
    narrow = [{row["case"]: _ms(row, "graphc") for row in level["rows"]} for level in levels]
    ratios = {row["case"]: row["ratio"] for row in two["rows"]}
    rows: list[list[Cell]] = []
    for row in one["rows"]:
        ours, wrong = row["engines"]["graphc"]["median"], ", ".join(row["wrong"])
        best = best_peer(row) * 1e3 if row["ratio"] else None
        share = 100 * row["roof"]["seconds"] / ours if row["roof"] else None
        times = [row["case"], ours * 1e3, best, row["ratio"], row["gain"]]
        below = (found.get(row["case"]) for found in narrow)
        rows.append([*times, share, ratios[row["case"]], *below, wrong or None])
    mean = ["geometric mean", None, None, one["geomean"], None, None, two["geomean"]]
    mean += [None] * (len(levels) + 1)
    return columns, rows, mean


def _ops(*results: Result) -> tuple[list[Column], list[list[Cell]], list[Cell]]:
    """The suite `ops` by families: the geometric means of the fastest calls, and the worst cases."""
    columns = [Column("operators"), Column("cases", "d")]
    for heading in ("", ", 2 threads", f", {fused_levels()[-1].upper()} code"):
        columns += [Column(f"ratio{heading}", ".2f"), Column(f"worst{heading}")]
    ratios = [_ops_ratios(result["rows"]) for result in results]
    families = {name: list(calls) for name, calls in op_families().items()}
    everything = [name for names in families.values() for name in names]
    lines: list[list[Cell]] = [
        [family, len(names), *(cell for known in ratios for cell in _mean_and_worst(known, names))]
        for family, names in (*families.items(), ("all", everything))
    ]
    return columns, lines[:-1], lines[-1]


def _ops_ratios(rows: Iterable[Result]) -> dict[str, float]:
    """Each case's best peer over graphc, of the fastest calls; without those that no peer runs."""
    found = {}
    for row in rows:
        fastest = {name: engine["min"] for name, engine in row["engines"].items()}
        ours = fastest.pop("graphc")
        right = [seconds for name, seconds in fastest.items() if name not in row["wrong"]]
        if right:
            found[row["case"]] = min(right) / ours
    return found


def _mean_and_worst(ratios: Mapping[str, float], names: Iterable[str]) -> tuple[float, str]:
    known = {name: ratios[name] for name in names if name in ratios}
    worst = min(known, key=lambda name: known[name])
    return geometric_mean(known.values()), f"{known[worst]:.2f} ({worst})"


def _torch(one: Result, two: Result) -> tuple[list[Column], list[list[Cell]], list[Cell]]:
    """Rows of PyTorch's modules with two threads; `module` and `frozen` are graphc without Dynamo's guards."""
    peers = _peers(two)
    columns = [
        Column("module"), Column("PyTorch eager, ms", ".4g"),
        *(Column(f"{ENGINES[name]}, ms", ".4g") for name in peers),
        Column("graphc, ms", ".4g"), Column("ratio", ".2f"), Column("ratio, frozen", ".2f"),
        Column("ratio, graphc.torch.compile", ".2f"), Column("ratio, 1 thread", ".2f"),
    ]  # fmt: skip
    single = {row["case"]: row["ratio"] for row in one["rows"]}
    rows: list[list[Cell]] = []
    for row in two["rows"]:
        times = [_ms(row, engine) for engine in ("eager", *peers, "graphc")]
        ratios = [_over(row, engine) for engine in ("graphc", "frozen", "module")]
        rows.append([row["case"], *times, *ratios, single[row["case"]]])
    first = len(columns) - 4
    means = [_geometric([row[first + i] for row in rows]) for i in range(4)]
    return columns, rows, ["geometric mean", *([None] * (first - 1)), *means]


def _over(row: Result, engine: str) -> float | None:
    ours = _ms(row, engine)
    right = ENGINES.keys() - set(row["wrong"])
    peers = [x["median"] for name, x in row["engines"].items() if name in right]
    return min(peers) * 1e3 / ours if ours and peers else None


def _geometric(cells: Iterable[Cell]) -> float | None:
    numbers = [float(cell) for cell in cells if isinstance(cell, int | float)]
    return geometric_mean(numbers) if numbers else None


Summary = tuple[list[Column], list[list[Cell]], list[Cell]]
SUMMARIES: Mapping[str, Callable[..., Summary]] = {
    "quantized": _quantized,
    "ops": _ops,
    "torch": _torch,
}
"""Functions that build the summary table of a suite's results; `_plain` builds the others."""


def summarize(suite: str, results: Sequence[Result]) -> Record:
    """The record of a suite from its results, in the order of `commands`."""
    columns, rows, mean = SUMMARIES.get(suite, _plain)(*results)
    first = results[0]
    command = " ".join(["graphc", *next(iter(commands(suite).values()))[:-2]])
    kept = {name: first["versions"][name] for name in _VERSIONS if name in first["versions"]}
    return Record(
        suite, TITLES[suite], first["date"], first["cpu"], kept, command, columns, rows, mean
    )


_VERSIONS = ("graphc", "torch", "onnxruntime", "openvino")


def commands(suite: str) -> dict[str, list[str]]:
    """Return the arguments of each `bench` call behind a suite's table, by the name of its result."""
    peers = "openvino,ort" if suite == "torch" else "ort,openvino"
    common = ["bench", "--suite", suite, "--against", peers, "--threads"]
    found = {f"{suite}-{threads}": [*common, str(threads)] for threads in (1, 2)}
    if suite == "quantized":
        for level in narrower_levels():
            words = ["bench", "--suite", suite, "--target", level, "--threads", "1"]
            found[f"{suite}-{level}"] = words
    if suite == "ops":
        narrow = fused_levels()[-1]
        found[f"ops-{narrow}"] = [*common[:-1], "--target", narrow, "--threads", "1"]
    return found


def measure(folder: Path, suite: str) -> Record:
    """Time what is missing of a suite and write its record to `folder`."""
    raw, results = folder / "raw", []
    raw.mkdir(parents=True, exist_ok=True)
    for name, arguments in commands(suite).items():
        path, begun = raw / f"{name}.json", raw / f"{name}.begun"
        if not path.exists():
            files = ["--resume", str(begun), "--output", str(path)]
            done = subprocess.run([sys.executable, "-m", "graphc", *arguments, *files])
            if not path.exists():
                sys.exit(done.returncode)
            begun.unlink()
        results.append(json.loads(path.read_text(encoding="utf-8")))
    record = summarize(suite, results)
    record.write(folder)
    for name in commands(suite):
        (raw / f"{name}.json").unlink()
    if not any(raw.iterdir()):
        raw.rmdir()
    return record


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the requested suites, and print the tables of a folder's records."""
    parser = argparse.ArgumentParser(prog="python -m graphc.bench.records")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--measure", nargs="+", choices=TITLES, default=(), metavar="SUITE")
    args = parser.parse_args(arguments)
    for suite in args.measure:
        measure(args.folder, suite)
    for path in sorted(args.folder.glob("*.json")):
        record = read_record(path)
        print(f"## {record.title}\n\n{record.markdown()}\n")


if __name__ == "__main__":
    main()
