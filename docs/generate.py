"""Update the generated parts of the documentation: `python docs/generate.py`, or `--check` to compare only.

A page marks a generated part by `<!-- generated: NAME -->` and `<!-- end -->`; the text between is replaced by what
the function NAME of `PARTS` returns. A word after NAME is its argument. Charts are whole files. The pages of the
command line are made when the site is built (`docs/conf.py`), as they change with every option.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT / "tests"))  # for the examples of every op

RECORDS = DOCS / "records"
MARKED = re.compile(r"(<!-- generated: ([\w-]+) ?(\S*) -->\n).*?(<!-- end -->)", re.DOTALL)


def measured(suite: str) -> str:
    """The table of a recorded suite."""
    from graphc.bench.records import read_record

    return read_record(RECORDS / f"{suite}.json").markdown()


def chart() -> str:
    """The chart of the README."""
    from graphc.bench.chart import bar_chart
    from graphc.bench.records import read_record

    title = "Speed relative to PyTorch eager, two threads (higher is better)"
    labels = {"best peer, ms": "the faster of ONNX Runtime and OpenVINO"}
    return bar_chart(read_record(RECORDS / "torch.json"), title, "PyTorch eager, ms", labels)


def formats(_: str) -> str:
    """A row for each registered format."""
    from graphc.frontend.formats import FORMATS

    lines = [
        "| format | files | name for `--to` | what the file does not specify |",
        "|---|---|---|---|",
    ]
    for one in FORMATS.values():
        lines.append(f"| {one.title} | {one.files} | `{one.name}` | {one.omits} |")
    return "\n".join(lines)


def ops(_: str) -> str:
    """Every op of the Graph IR."""
    from graphc.graph_ir.inspect.op_listing import op_listing

    return op_listing()


def op_support(_: str) -> str:
    """Return the table of formats that each op is written to and read from."""
    from support.format_table import op_table

    return op_table()


def operators(form: str) -> str:
    """The operators of one format that are read."""
    from support.format_table import operator_list

    return operator_list(form)


def spellings(_: str) -> str:
    """Return the name of each op in every format."""
    from graphc.frontend.correspondence.listing import listing
    from graphc.frontend.correspondence.tables import TABLE

    return f"```text\n{listing(TABLE, ('onnx', 'ge', 'tvm', 'hlo', 'pnnx', 'aten'))}\n```"


def extras(_: str) -> str:
    """The optional dependencies of pyproject.toml."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = ["| extra | installs |", "|---|---|"]
    for name, packages in project["optional-dependencies"].items():
        shown = ", ".join(f"`{package}`" for package in packages)
        lines.append(f"| `graphc[{name}]` | {shown} |")
    return "\n".join(lines)


PARTS: Mapping[str, Callable[[str], str]] = {
    "formats": formats,
    "measured": measured,
    "ops": ops,
    "op-support": op_support,
    "operators": operators,
    "spellings": spellings,
    "extras": extras,
}
CHARTS: Mapping[str, Callable[[], str]] = {"benchmarks.svg": chart}


def updated(text: str) -> str:
    """A page with its generated parts as they should be. Raise KeyError for a part that is not in `PARTS`."""
    return MARKED.sub(lambda m: f"{m[1]}{PARTS[m[2]](m[3])}\n{m[4]}", text)


def pages() -> dict[Path, str]:
    """Each page or chart with generated parts -> its text as it should be."""
    documents = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    texts = {path: path.read_text(encoding="utf-8") for path in documents}
    found = {path: updated(text) for path, text in texts.items() if MARKED.search(text)}
    return found | {DOCS / name: make() for name, make in CHARTS.items()}


def main() -> int:
    """Write the pages, or return 1 and print the difference where one is out of date."""
    parser = argparse.ArgumentParser(prog="python docs/generate.py")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit code 1 if needed"
    )
    args = parser.parse_args()
    stale = False
    for path, text in pages().items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if text == old:
            continue
        stale = True
        if args.check:
            name = path.relative_to(ROOT).as_posix()
            lines = (old.splitlines(), text.splitlines())
            print("\n".join(difflib.unified_diff(*lines, name, "generated", lineterm="", n=0)))
        else:
            path.write_text(text, encoding="utf-8")
    if stale and args.check:
        print("the pages above are out of date; run: python docs/generate.py")
    return int(stale and args.check)


if __name__ == "__main__":
    sys.exit(main())
