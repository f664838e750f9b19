"""Command lines that mean `python -m gc`, and others, which leave the garbage collector's module alone."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from support.process import ROOT, run_python


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The module that the .pth file imports, from the checkout."""
    spec = importlib.util.spec_from_file_location(
        "hook_under_test", ROOT / "build_backend" / "graphc_gc_main.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "line",
    [
        "-m gc",
        "-mgc",
        "-m gc compile model.onnx",
        "-Im gc",
        "-IBmgc",
        "-X dev -W error -m gc",
        "-Xdev -Werror -m gc",
        "-bWerror -m gc",
        "-u -O -m gc -c other",
        "--check-hash-based-pycs always -m gc",
    ],
)
def test_lines_that_run_graphc(line: str, hook: ModuleType) -> None:
    assert hook.runs_gc(["python", *line.split()])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-m",
        "-m graphc -m gc",
        "-m gcc",
        "-c gc",
        "-c pass -m gc",
        "script.py -m gc",
        "- -m gc",
        "-X -m gc",
        "-W -m gc",
        "-m -m gc",
        "-mgcx gc",
        "-V gc",
    ],
)
def test_lines_that_do_not(line: str, hook: ModuleType) -> None:
    assert not hook.runs_gc(["python", *line.split()])


UNTOUCHED = (
    "import gc, sys; from importlib.machinery import BuiltinImporter as B\n"
    "assert gc.__spec__.loader is gc.__loader__ is B, gc.__spec__\n"
    "assert gc.collect() >= 0 and gc.isenabled()\n"
    "class Node: pass\n"
    "import weakref; a = Node(); a.me = a; seen = weakref.ref(a); del a; gc.collect(); assert seen() is None\n"
    "print('graphc_gc_main' in sys.modules)\n"
)


@pytest.mark.parametrize(
    ("words", "imported"),
    [((), "False"), (("-m", "gc"), "True"), (("x.gc",), "True")],
)
def test_gc_stays_the_garbage_collector(words: tuple[str, ...], imported: str) -> None:
    done = run_python("-c", UNTOUCHED, *words)
    assert (done.returncode, done.stdout) == (0, f"{imported}\n"), done.stderr


def test_gc_is_itself_again_once_graphc_runs(tmp_path) -> None:
    # -i runs a file of ours after graphc: what it sees is the state `python -m gc` leaves behind.
    probe = "import gc, sys\nprint(gc.__spec__.loader.__name__, gc.collect() >= 0, 'graphc' in sys.modules)\n"
    done = run_python("-i", "-m", "gc", "--version", stdin=probe, cwd=tmp_path)
    assert done.stdout.splitlines()[1:] == ["BuiltinImporter True True"], done.stderr
