"""`graphc bench MODEL.gguf`: prompts and new tokens of a language model beside other engines."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .progress import progress
from .terminal import table

if TYPE_CHECKING:
    from ..bench.decode import DecodeRow


def is_language_model(path: str | None) -> bool:
    """Return whether a model argument is a GGUF file, or a folder of Hugging Face Transformers."""
    return path is not None and (Path(path).suffix == ".gguf" or Path(path).is_dir())


def own_folder(model: str) -> Path | None:
    """Return the folder that a model argument is, if onnxruntime-genai reads it too."""
    return Path(model) if (Path(model) / "genai_config.json").is_file() else None


def run_decode(
    args: argparse.Namespace,
    threads: int,
    output: Callable[[Callable[[], Any], Callable[[], Any]], None],
) -> int:
    """Time the model, or those of the suite, and print their rows."""
    from ..bench.decode import decode_facts, decode_rows
    from ..bench.decode_genai import GENAI, genai_folder
    from ..bench.decode_models import decode_cases, decode_file
    from ..codegen.host import target_for

    target, peers = target_for(args.target), [name for name in args.against.split(",") if name]
    cases = decode_cases(args.only or "") if args.model is None else [args.model]
    found: list[tuple[Path, list[DecodeRow]]] = []
    with progress(args.quiet or args.json) as report:
        for case in cases:
            made = GENAI in peers and not args.model
            with (
                nullcontext(Path(case)) if args.model else decode_file(case) as path,
                genai_folder(case) if made else nullcontext(own_folder(case)) as genai,
            ):
                rows = decode_rows(path, target, threads, peers, args.rounds, report, genai=genai)
            found.append((path, rows))
    facts = [decode_facts(path, rows, threads) for path, rows in found]
    output(
        lambda: facts[0] if args.model else facts,
        lambda: "\n".join(line for path, rows in found for line in lines(path, rows, threads)),
    )
    return 0


def lines(path: Path, rows: Sequence[DecodeRow], threads: int) -> Iterator[str]:
    """Yield the table: tokens per second, the ratio to llama.cpp, the share of the bandwidth's roof."""
    from ..bench.decode import LLAMA, geometric_mean

    engines = list(rows[0].rates) if rows else []
    head = [*engines, *(["ratio"] if LLAMA in engines else []), "of bandwidth", "tokens per second"]
    cells = [head]
    for row in rows:
        ratio = [f"{row.ratio:.2f}"] if row.ratio is not None else []
        share = f"{row.own / row.roof:.0%}" if row.roof else ""
        cells.append([*(f"{row.rates[name]:.1f}" for name in engines), *ratio, share, row.name])
    yield f"{path.name}, {threads} threads"
    yield from table(cells)
    for kind in ("prompt", "decode"):
        mean = geometric_mean(rows, kind)
        if mean is not None:
            yield f"{kind}: {mean:.2f} times {LLAMA}, geometric mean"
