"""The examples in README.md and docs/*.md run: fenced blocks right after a line `<!-- run -->`.

All marked Python blocks of a file are one program, all marked sh blocks one script, in a folder of their own in which
`examples` is that of the checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.process import ROOT, run_python

MARKER = "<!-- run -->"
LANGUAGES = {"python": "python", "sh": "sh", "bash": "sh"}


@dataclass(frozen=True)
class Example:
    """A marked block: its language, the line it starts on (from 1) and its text."""

    language: str
    line: int
    text: str


def examples(markdown: str) -> list[Example]:
    """The marked blocks. ValueError for a marker without a block after it, or a language nobody runs."""
    found = []
    lines = markdown.splitlines()
    for number, line in enumerate(lines):
        if line.strip() != MARKER:
            continue
        fence = lines[number + 1] if number + 1 < len(lines) else ""
        language = fence.removeprefix("```").strip()
        if not fence.startswith("```") or language not in LANGUAGES:
            raise ValueError(f"line {number + 1}: {MARKER} needs a python or sh block after it")
        body = lines[number + 2 :]
        if "```" not in body:
            raise ValueError(f"line {number + 2}: the block does not end")
        text = "\n".join(body[: body.index("```")])
        found.append(Example(LANGUAGES[language], number + 3, text))
    return found


def program(blocks: list[Example]) -> str:
    """The blocks as one text in which every line has the number it has in the document."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def run_examples(document: Path, folder: Path) -> None:
    """Run what is marked in a document; fail with the output of what went wrong."""
    blocks = examples(document.read_text(encoding="utf-8"))
    if (ROOT / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    shell = program([block for block in blocks if block.language == "sh"])
    python = program([block for block in blocks if block.language == "python"])
    if shell.strip():
        _run_shell(document, shell, folder)
    if python.strip():
        script = folder / f"{document.stem}.py"
        script.write_text(python, encoding="utf-8")
        done = run_python("-W", "error", str(script), cwd=folder)
        assert done.returncode == 0, f"{document.name}:\n{done.stdout}{done.stderr}"


def _run_shell(document: Path, script: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script, document.name],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{document.name}:\n{done.stdout}{done.stderr}"


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_marked_examples_run(document: Path, tmp_path: Path) -> None:
    run_examples(document, tmp_path)


def test_readme_holds_the_two_commands_ci_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("<!-- ci: install and run -->\n```sh\n")[1].split("```")[0]
    install, run = block.splitlines()
    assert install == "pip install ."
    assert run.startswith("python -m gc ")


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


@pytest.mark.parametrize("text", ["", "prose", "```c\nx\n```", "```python\nx = 1"])
def test_a_marker_without_a_block_to_run_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="line"):
        examples(f"{MARKER}\n{text}")
