"""An internal error shows one screen and leaves a file with everything, from Python, commands and other processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import graphc
from graphc import InternalError, cli
from graphc.base.errors import screenful
from graphc.driver import stages
from graphc.tensor_ir import verifier
from support.cli_models import layer, tiny
from support.names import named

LONG = "\n".join(f"%{i} = fadd float %x, %y ; " + "wide" * 100 for i in range(1000))
ONE_SCREEN = 24


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left in the system's folder."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


def plant(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def lower_graph(*_: object) -> object:
        raise error

    monkeypatch.setattr(stages, "lower_graph", lower_graph)


def reproducer_of(error: BaseException) -> str:
    (note,) = (note for note in error.__notes__ if note.startswith("reproducer: "))
    return Path(note.removeprefix("reproducer: ")).read_text(encoding="utf-8")


def test_python_gets_one_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, InternalError("matmul 'fc1': no tile fits", LONG))
    with pytest.raises(InternalError) as caught:
        graphc.compile(named(lambda i: f"n{i}"))
    assert str(caught.value) == "matmul 'fc1': no tile fits"
    shown = "\n".join([str(caught.value), *caught.value.__notes__])
    assert len(shown.splitlines()) <= ONE_SCREEN
    assert all(len(line) <= 160 or line.startswith("reproducer") for line in shown.splitlines())
    text = reproducer_of(caught.value)
    assert LONG in text and "== versions\ngraphc " in text and "lower_graph" in text
    assert "Node[type=matmul_core]" in text and "..." not in text.partition("== graph")[2]


def test_a_dump_folder_gets_the_reproducer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, KeyError("fc1"))
    with pytest.raises(KeyError) as caught:
        graphc.compile(named(lambda i: f"n{i}"), dump_dir=tmp_path)
    (path,) = tmp_path.glob("graphc-bug-*.txt")
    assert caught.value.__notes__ == [f"reproducer: {path}"]
    assert "KeyError: 'fc1'" in path.read_text()


@pytest.mark.parametrize("error", [InternalError(LONG, LONG), ValueError(LONG)])
def test_a_command_prints_one_screen(
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant(monkeypatch, error)
    assert cli.main(["compile", tiny(tmp_path), "-q"]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) <= ONE_SCREEN and lines[0].startswith("graphc: error: ")
    found = re.fullmatch(r"reproducer: (.*graphc-bug-.*\.txt)", lines[-1])
    assert found and LONG in Path(found[1]).read_text()


def test_an_error_outside_the_compiler_leaves_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from graphc.tools import debugger

    plant(monkeypatch, RuntimeError("never"))
    monkeypatch.setattr(debugger, "NodeProgram", lambda *_: 1 / 0)
    assert cli.main(["dev", "debug", layer(tmp_path), "-q"]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError" in lines[0]
    path = Path(lines[-1].removeprefix("reproducer: "))
    assert "ZeroDivisionError" in path.read_text()


def test_users_errors_leave_none(tmp_path: Path) -> None:
    with pytest.raises(graphc.UserError) as caught:
        graphc.compile(tmp_path / "missing.onnx", dump_dir=tmp_path)
    assert not hasattr(caught.value, "__notes__")
    assert not list(tmp_path.rglob("graphc-bug-*"))


def test_where_no_file_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, InternalError("a bug"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(InternalError) as caught:
        graphc.compile(named(lambda i: f"n{i}"))
    assert caught.value.__notes__ == [
        "reproducer: none could be written (No such file or directory)"
    ]


def test_verifiers_keep_the_whole_text() -> None:
    from graphc.base.dtypes import F32
    from graphc.tensor_ir.nodes import Block, Buffer, Function, Module

    twice = Function("f", tuple(Buffer("a", F32, (i,)) for i in range(99)), Block(()))
    with pytest.raises(InternalError) as caught:
        verifier.verify(Module((twice,)))
    assert "f32[98]" in caught.value.whole and "f32[98]" not in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\nb"),
        ("a\nb\nc\nd", "a\nb\n... and 2 more lines"),
        ("x" * 200, "x" * 157 + "..."),
    ],
)
def test_a_screenful(text: str, shown: str) -> None:
    assert screenful(text, 3) == shown
