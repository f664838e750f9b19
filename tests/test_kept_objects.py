"""Object code kept between test runs: found again, and never where sources or names have changed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from graphc.codegen import aot, memory_access
from graphc.codegen.kernel_parts import CompiledPart, Part
from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Module
from support.kept_objects import LOOPS, TEXTS, KeptObjects, kept_objects
from support.process import run_python
from support.shared_objects import shared_parts

KEY = b"\x01\x02"


def _sources(root: Path) -> Path:
    for room in LOOPS:
        (root / room).mkdir(parents=True)
        (root / room / "a.py").write_text("x = 1\n")
    return root


def test_values_outlive_the_process_until_a_source_changes(tmp_path: Path) -> None:
    root = _sources(tmp_path / "package")
    KeptObjects(tmp_path, root, LOOPS).put(KEY, b"code")
    assert KeptObjects(tmp_path, root, LOOPS).get(KEY) == b"code"
    assert KeptObjects(tmp_path, root, LOOPS).get(b"other") is None
    (root / "codegen" / "a.py").write_text("x = 2\n")
    assert KeptObjects(tmp_path, root, LOOPS).get(KEY) is None
    (root / "codegen" / "a.py").write_text("x = 1\n")
    assert KeptObjects(tmp_path, root, LOOPS).get(KEY) == b"code"


def test_objects_of_texts_outlive_changes_of_the_passes(tmp_path: Path) -> None:
    root = _sources(tmp_path / "package")
    (root / TEXTS[0]).write_text("x = 1\n")
    KeptObjects(tmp_path, root, TEXTS).put(KEY, b"code")
    (root / "tensor_ir" / "a.py").write_text("x = 2\n")
    assert KeptObjects(tmp_path, root, TEXTS).get(KEY) == b"code"
    (root / TEXTS[0]).write_text("x = 2\n")
    assert KeptObjects(tmp_path, root, TEXTS).get(KEY) is None


@pytest.mark.parametrize("kept_bytes", [0, 15, 16, 20])
def test_a_file_cut_short_is_none(tmp_path: Path, kept_bytes: int) -> None:
    kept = KeptObjects(tmp_path, _sources(tmp_path / "package"), LOOPS)
    kept.put(KEY, b"code")
    path = next(tmp_path.rglob(KEY.hex()))
    path.write_bytes(path.read_bytes()[:kept_bytes])
    assert kept.get(KEY) is None


@pytest.mark.parametrize(("sources", "module"), [(LOOPS, memory_access), (TEXTS, aot)])
def test_nothing_is_read_or_written_while_a_name_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: tuple[str, ...], module: ModuleType
) -> None:
    kept = KeptObjects(tmp_path, _sources(tmp_path / "package"), sources)
    kept.put(KEY, b"code")
    name = next(name for name in vars(module) if not name.startswith("__"))
    with monkeypatch.context() as patch:
        patch.setattr(module, name, None)
        assert kept.get(KEY) is None
        kept.put(KEY, b"of other code")
    assert kept.get(KEY) == b"code"


def test_kernels_come_from_the_run_before(tmp_path: Path) -> None:
    made: list[Part] = []

    def compiled(part: Part, target: Target, check: bool) -> CompiledPart:
        made.append(part)
        return CompiledPart(b"code", {"llvm": 1.0})

    root = _sources(tmp_path / "package")
    for _ in range(2):  # the memory of a process is that of one function
        compile_once = shared_parts(compiled, between_runs=KeptObjects(tmp_path, root, LOOPS))
        found = compile_once(Part(Module(())), Target("avx2"), True)
        assert found == CompiledPart(b"code", {"llvm": 1.0})
    assert len(made) == 1


def test_the_rooms_are_all_that_codegen_loads() -> None:
    script = (
        "import sys, graphc.codegen.kernel_pool, graphc.tensor_ir.pipeline\n"
        "print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('graphc.')}))"
    )
    done = run_python("-c", script)
    assert set(done.stdout.split()) == set(LOOPS)


def test_only_a_folder_that_is_named(tmp_path: Path) -> None:
    assert (
        kept_objects(LOOPS, {}) is None and kept_objects(LOOPS, {"GRAPHC_TEST_CACHE": ""}) is None
    )
    kept = kept_objects(LOOPS, {"GRAPHC_TEST_CACHE": str(tmp_path / "a" / "b")})
    assert kept is not None
    kept.put(KEY, b"code")
    assert next((tmp_path / "a" / "b").rglob(KEY.hex())).is_file()
