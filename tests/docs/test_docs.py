"""The examples in README.md and the pages of docs/ run: fenced blocks right after a line `<!-- run -->`.

All marked Python blocks of a file are one program, all marked sh blocks one script, in a folder of their own in which
`examples` is that of the checkout. Programs of docs/ may import `support`, as tests do. A text block right after a line
`<!-- output -->` is what the Python block before it prints; `pytest --update-golden` writes it anew. A document with a
line `<!-- needs PACKAGE -->` is skipped where the package is missing.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from graphc.cli.command_tree import parser_of
from support.page_examples import MARKER, SEPARATOR, Example, examples, program
from support.process import PATIENCE, ROOT, run_python

NEEDS = re.compile(r"^<!-- needs (\w+) -->$", re.MULTILINE)
WARN = {"ray"}
"""Packages that warn of their own code: elsewhere a warning is an error."""


def run_examples(document: Path, folder: Path, update: bool = False) -> None:
    """Run what is marked in a document; fail with the output of what went wrong.

    `update` writes what the blocks print into the document.
    """
    blocks = examples(document.read_text(encoding="utf-8"))
    if (ROOT / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    shell = program([block for block in blocks if block.language == "sh"])
    python = [block for block in blocks if block.language == "python"]
    if shell.strip():
        _run_shell(document, shell, folder)
    if python:
        printed = _run_program(document, python, folder)
        _check_output(document, blocks, printed, update)


def _run_program(document: Path, blocks: list[Example], folder: Path) -> list[list[str]]:
    """Lines printed by each block."""
    script = folder / f"page_{document.stem}.py"  # jax.md must not be the module jax
    script.write_text(program(blocks, f"print({SEPARATOR!r})"), encoding="utf-8")
    inherited = [path for path in [os.environ.get("PYTHONPATH")] if path]
    support = [str(ROOT / "tests")] if (ROOT / "docs") in document.parents else []
    env = {"PYTHONPATH": os.pathsep.join([*support, *inherited]), **_with_cache(folder)}
    needed = set(NEEDS.findall(document.read_text(encoding="utf-8")))
    words = [] if needed & WARN else ["-W", "error"]
    with TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as short:
        env["RAY_TMPDIR"] = short  # below which are sockets, whose paths have at most 107 bytes
        done = run_python(*words, str(script), cwd=folder, env=env)
    assert done.returncode == 0, f"{document.name}:\n{done.stdout}{done.stderr}"
    return [text.splitlines() for text in done.stdout.split(SEPARATOR + "\n")]


def _check_output(
    document: Path, blocks: list[Example], printed: list[list[str]], update: bool
) -> None:
    """Compare what was printed with the document, or write it there."""
    lines = document.read_text(encoding="utf-8").splitlines()
    number = sum(block.language == "python" for block in blocks)
    for block in reversed(blocks):  # from the end, so that line numbers before stay right
        number -= block.language == "python"
        if block.language == "output":
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = [
                line.rstrip() for line in printed[number - 1]
            ]
    text = "\n".join(lines) + "\n"
    if update:
        document.write_text(text, encoding="utf-8")
        return
    old = document.read_text(encoding="utf-8").splitlines()
    diff = "\n".join(difflib.unified_diff(old, lines, document.name, "this run", lineterm=""))
    if diff:
        raise AssertionError(f"{diff}\nread the difference, then write it with --update-golden")


def _with_cache(folder: Path) -> dict[str, str]:
    """A cache for the commands of a page, as readers have one: what one compiles others load."""
    return {"GRAPHC_CACHE_DIR": str(folder / "cache")}


def _run_shell(document: Path, script: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script, document.name],
        cwd=folder,
        env={**os.environ, "PATH": path, **_with_cache(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{document.name}:\n{done.stdout}{done.stderr}"


PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
DOCUMENTS = [path for path in PAGES if MARKER in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_marked_examples_run(document: Path, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    for package in NEEDS.findall(document.read_text(encoding="utf-8")):
        pytest.importorskip(package)
    run_examples(document, tmp_path, pytestconfig.getoption("--update-golden"))


def test_the_readme_is_short_and_holds_the_two_commands_that_ci_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 130
    install, test = re.findall(r"<!-- ci: [^\n]* -->\n```sh\n(.*)\n```", text)
    assert install.startswith("pip install . && python -m gc compile ")
    assert test.startswith(".ci/setup && python -m pytest ")


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_and_options_exist(document: Path) -> None:
    """In every code span and line of code that calls `graphc`."""
    text = document.read_text(encoding="utf-8")
    wrong = []
    for line in re.findall(r"(?:\bgraphc|-m gc) ([a-z][^`\n|#]*)", text):
        words = line.split()
        parser = parser_of()
        while parser.subcommands and words and words[0] in parser.subcommands:
            parser = parser.subcommands[words.pop(0)]
        known = {text for action in parser.options for text in action.option_strings}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        if f"`graphc {line}" in text or f"-m graphc {line}" in text or given:
            wrong += [line] if parser.subcommands or given - known else []
    assert wrong == []


def test_the_generated_parts_of_the_pages_are_up_to_date(pytestconfig: pytest.Config) -> None:
    """The tables of measurements and the chart agree with the records, the reference with the tables in the code."""
    options = [] if pytestconfig.getoption("--update-golden") else ["--check"]
    done = run_python(str(ROOT / "docs" / "generate.py"), *options, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blocks_of_commands_run_or_say_why_not(document: Path) -> None:
    lines = ["", *document.read_text(encoding="utf-8").splitlines()]
    marks = (MARKER, "<!-- ci: ", "<!-- not run: ")
    starts = [i for i, line in enumerate(lines) if line.strip() in ("```sh", "```bash")]
    assert [lines[i + 1] for i in starts if not lines[i - 1].startswith(marks)] == []


def test_the_table_of_environment_variables_has_all() -> None:
    page = (ROOT / "docs" / "reference" / "installation.md").read_text(encoding="utf-8")
    folders = (path for path in ROOT.iterdir() if path.name not in ("tests", "docs", "build"))
    files = [file for path in folders if path.is_dir() for file in path.rglob("*.py")]
    read = r"""environ\S*(?:get\(|\[)"(GRAPHC_\w+)"|^VARIABLE = "(GRAPHC_\w+)\""""
    found = {
        one or other
        for file in files
        for one, other in re.findall(read, file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(found) > 5
    assert found <= set(re.findall(r"^\| `(GRAPHC_\w+)`", page, re.MULTILINE))


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(document: Path) -> None:
    """Links inside the site are checked when it is built; here also those of README.md and between files."""
    text = document.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" in link or "{" in link:
            continue
        target = document.parent / path if path else document
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def anchors(document: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


GOOD = """# Title
<!-- run -->
```python
x = 1
```
prose
```python
not run
```
<!-- run -->
```python
open("seen", "w").write(str(x + 1))
```
<!-- run -->
```sh
echo shell > shell_seen
```
"""


def test_blocks_of_one_document_are_one_program(tmp_path: Path) -> None:
    document = tmp_path / "good.md"
    document.write_text(GOOD)
    folder = tmp_path / "folder"
    folder.mkdir()
    run_examples(document, folder)
    assert (folder / "seen").read_text() == "2"
    assert (folder / "shell_seen").read_text() == "shell\n"


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```python\nx = 1\nraise KeyError(x)\n```", "line 4, in <module>"),
        ("```sh\nfalse\ntrue\n```", "bad.md:"),
    ],
)
def test_a_failing_block_fails_at_its_line(block: str, message: str, tmp_path: Path) -> None:
    document = tmp_path / "bad.md"
    document.write_text(f"{MARKER}\n{block}\n")
    with pytest.raises(AssertionError, match=message):
        run_examples(document, tmp_path)


PRINTING = """<!-- run -->
```python
print("one")
print("two ")
```
<!-- output -->
```text
{}
```
prose
<!-- run -->
```python
print("unseen")
```
<!-- run -->
```python
print("three")
```
<!-- output -->
```text
{}
```
"""


def test_what_a_block_prints_is_what_the_document_says(tmp_path: Path) -> None:
    document = tmp_path / "printing.md"
    document.write_text(PRINTING.format("one\ntwo", "three"))
    folder = tmp_path / "folder"
    folder.mkdir()
    run_examples(document, folder)


def test_other_output_fails_and_is_written_on_request(tmp_path: Path) -> None:
    document = tmp_path / "printing.md"
    document.write_text(PRINTING.format("one", "four\nfive"))
    for number, update in enumerate((False, True)):
        folder = tmp_path / str(number)
        folder.mkdir()
        if update:
            run_examples(document, folder, update)
        else:
            with pytest.raises(AssertionError, match=r"(?s)\+two.*-four\n-five\n\+three"):
                run_examples(document, folder)
    assert document.read_text() == PRINTING.format("one\ntwo", "three")


@pytest.mark.parametrize("text", ["", "prose", "```c\nx\n```", "```python\nx = 1"])
def test_a_marker_without_a_block_to_run_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        examples(f"{MARKER}\n{text}")


def test_tests_that_the_page_of_bugs_names_exist() -> None:
    """`driver/test_growth.py`, or `file.py::test_name`; `::test_name` is of the same file."""
    tests = Path(__file__).parents[1]
    bugs = (
        (tests.parent / "docs" / "explanation" / "testing.md")
        .read_text()
        .partition("## Kinds of bugs found")[2]
    )
    names = re.findall(r"`([a-z_0-9/]*\.py)?(?:::)?(test_[a-z_0-9]+)?`", bugs)
    assert len(names) > 20
    file = ""
    for path, name in names:
        file = path or file
        assert f"def {name}" in (tests / file).read_text(), (file, name)
