"""Code that is loaded is announced to perf and gdb by the names of its functions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.codegen.aot import compile_to_object
from graphc.codegen.host import target_for
from graphc.runtime.loader import LoadedCode
from graphc.runtime.perf_files import VARIABLE, announce, functions
from support.process import ROOT

TEXT = """
define internal i32 @inside(i32 %x) noinline {
  %y = mul i32 %x, 3
  ret i32 %y
}
define i32 @shown(i32 %x) {
  %y = call i32 @inside(i32 %x)
  ret i32 %y
}
"""
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF and perf are Linux'")


def code() -> bytes:
    return compile_to_object(TEXT, target_for("native"))


@LINUX
def test_a_map_has_every_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "map")
    loaded, path = LoadedCode(code()), Path(f"/tmp/perf-{os.getpid()}.map")
    lines = [line.split(" ", 2) for line in path.read_text().splitlines()]
    rows = {name: address for address, _, name in lines}
    path.unlink()
    assert int(rows["shown"], 16) == loaded.address("shown")
    assert int(rows["inside"], 16) != int(rows["shown"], 16)


@LINUX
def test_a_dump_has_the_code(tmp_path: Path) -> None:
    program = "import sys, graphc.runtime.loader as l; l.LoadedCode(open(sys.argv[1], 'rb').read())"
    (tmp_path / "code.o").write_bytes(code())
    environ = {**os.environ, VARIABLE: "jitdump", "TMPDIR": str(tmp_path)}
    environ["PYTHONPATH"] = str(ROOT.parent)
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "code.o")], env=environ, check=True
    )
    (dump,) = tmp_path.glob("jit-*.dump")
    data = dump.read_bytes()
    assert data[:4] == b"DTiJ"
    for symbol in functions(code()):
        assert symbol.name.encode() + b"\0" + symbol.code[:1] in data


def test_a_wrong_form_is_refused() -> None:
    with pytest.raises(UserError, match="map or jitdump"):
        announce(code(), lambda name: 0, {VARIABLE: "yes"})


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
@LINUX
@pytest.mark.exhaustive
def test_gdb_stops_in_loaded_code_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "code.o").write_bytes(code())
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, ctypes, graphc.runtime.loader as l\n"
        "loaded = l.LoadedCode(open(sys.argv[1], 'rb').read())\n"
        "ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(loaded.address('shown'))(7)\n"
    )
    words = ["gdb", "-q", "-batch", "-nx", "-ex", "set breakpoint pending on", "-ex", "break shown", "-ex", "run",
             "-ex", "info symbol $pc", "--args", sys.executable, str(program), str(tmp_path / "code.o")]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT.parent), "DEBUGINFOD_URLS": ""}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, env=environ, check=False
    )
    if "ptrace" in done.stderr and "permitted" in done.stderr:
        pytest.skip("the system permits no debugger")
    assert "shown in section .text of <in-memory" in done.stdout, done.stdout + done.stderr
