"""Completion scripts and the manual page, made from the parsers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from graphc.cli import main
from graphc.cli.command_tree import parser_of
from graphc.cli.manual import manual_page
from graphc.cli.parser import walk
from graphc.cli.shells import SHELLS

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    assert stop.value.code == 0
    return capsys.readouterr().out


def completed(script: Path, line: str) -> list[str]:
    """Return the completions of bash at the end of a line."""
    words = line.split(" ")
    program = (
        f"source {script}; COMP_WORDS=({' '.join(repr(word) for word in words)}); "
        f'COMP_CWORD={len(words) - 1}; _graphc; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True, cwd=script.parent
    )
    return done.stdout.split()


def test_bash_completes_commands_options_values_and_files(tmp_path: Path, capsys: Capture) -> None:
    script = tmp_path / "graphc.bash"
    script.write_text(printed(capsys, "--completion", "bash"))
    (tmp_path / "model.onnx").touch()
    (tmp_path / "codegen").mkdir()
    assert completed(script, "graphc co") == ["compile", "compare", "convert"]
    assert completed(script, "graphc dev ro") == ["roofline"]
    assert completed(script, "graphc dev fuzz --re") == ["--resume", "--reproducer", "--replay"]
    assert completed(script, "graphc compile --target av") == ["avx512", "avx2"]
    assert completed(script, "graphc compile mo") == ["model.onnx"]
    assert completed(script, "graphc compile model.onnx --prec") == ["--precision"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_is_in_every_script(shell: str, capsys: Capture) -> None:
    script = printed(capsys, "--completion", shell)
    for parser in walk(parser_of()):
        for action in parser.options:
            for text in action.option_strings:
                name = text.lstrip("-")
                option = f"-l {name}" if text.startswith("--") else f"-s {name}"
                assert (option if shell == "fish" else text) in script


def test_the_manual_page_has_every_command_and_is_plain_roff(capsys: Capture) -> None:
    page = printed(capsys, "--manual")
    assert page == manual_page(parser_of())
    for parser in walk(parser_of()):
        if not parser.subcommands:
            assert f".SS {parser.prog} [options]" in page
    assert page.startswith(".TH GRAPHC 1 ")
    assert not [line for line in page.splitlines() if line.startswith("'")]
