"""The test helpers themselves: each must fail where it promises to."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from graphc.base.dtypes import ALL, BF16, F32
from graphc.codegen.kernel_parts import CompiledPart, Part
from graphc.targets.isa import Target
from graphc.tensor_ir import pipeline
from graphc.tensor_ir.builder import LoopBuilder, const
from graphc.tensor_ir.nodes import Buffer, Module
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy
from support import isa
from support.golden import Golden
from support.process import run_cli, run_python
from support.shared_objects import shared, shared_parts
from support.tolerance import assert_close

SHARED = np.random.default_rng(0)
"""Every test finds it at the test's own seed."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (4096,), (1025, 3)])
def test_guarded_buffers_are_ordinary_arrays(shape: tuple[int, ...], dtype, at: Edge) -> None:
    array = guarded(shape, dtype, at)
    assert array.shape == shape and array.dtype == dtype.numpy
    assert array.flags.c_contiguous and array.flags.aligned and array.flags.writeable
    assert not any(array.tobytes())
    array[...] = 1
    assert (array == 1).all()


@pytest.mark.parametrize(("at", "offset"), [("end", 40), ("start", -1)])
def test_a_touch_outside_a_guarded_buffer_ends_the_process(at: Edge, offset: int) -> None:
    script = (
        f"import sys, ctypes; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from graphc.tools.fuzz.guarded import guarded\n"
        f"a = guarded(10, 'float32', {at!r})\n"
        "ctypes.string_at(a.ctypes.data, 40); print('inside', flush=True)\n"
        f"ctypes.string_at(a.ctypes.data + {offset}, 1)\n"
    )
    done = run_python("-c", script)
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "inside\n")


def test_guarded_copy_holds_the_values(rng: np.random.Generator) -> None:
    values = rng.standard_normal((7, 3)).astype(np.float32)
    for at in ("start", "end"):
        np.testing.assert_array_equal(guarded_copy(values, at), values)
    np.testing.assert_array_equal(guarded_copy(values.T, "end"), values.T)


def _golden(tmp_path: Path, update: bool = False) -> Golden:
    return Golden(tmp_path / "tensor_ir" / "test_x.py", "test_loop[f32-3]", update, tmp_path)


def test_golden_file_lies_at_the_path_of_the_test(tmp_path: Path) -> None:
    folder = tmp_path / "golden" / "tensor_ir" / "test_x"
    assert _golden(tmp_path).path() == folder / "test_loop-f32-3.txt"
    assert _golden(tmp_path).path("after") == folder / "test_loop-f32-3.after.txt"


def test_golden_missing_then_written_then_compared(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="is missing; write it with --update-golden"):
        _golden(tmp_path)("a\nb")
    _golden(tmp_path, update=True)("a\nb")
    _golden(tmp_path)("a\nb\n")
    with pytest.raises(AssertionError, match=r"-b\n\+c"):
        _golden(tmp_path)("a\nc")
    golden = _golden(tmp_path)
    golden("a\nb")
    with pytest.raises(AssertionError, match="used twice"):
        golden("a\nb")


def test_golden_fixture_knows_its_test(golden: Golden) -> None:
    assert (
        golden.path()
        .as_posix()
        .endswith("tests/golden/test_support/test_golden_fixture_knows_its_test.txt")
    )


@pytest.mark.parametrize(
    ("actual", "expected", "dtype"),
    [
        ([1.0, 2.0], [1.0, 2.1], "float32"),
        ([1.0], [1.0 + 1e-5], "float32"),
        ([1.0], [1.0 + 1e-12], "float64"),
        ([1.0], [np.nan], "float32"),
        ([np.nan], [1.0], "float32"),
        ([np.inf], [-np.inf], "float32"),
        ([3e38], [np.inf], "float32"),
        ([1.0], [1.02], BF16.numpy),
        ([1], [2], "int8"),
        ([True], [False], "bool"),
        ([1.0], [1.0, 1.0], "float32"),
    ],
)
def test_what_is_not_close(actual: list, expected: list, dtype) -> None:
    with pytest.raises(AssertionError):
        assert_close(np.array(actual, dtype), expected)


def test_what_is_close() -> None:
    values = np.array([0.0, 1.0, -1e30, np.inf, -np.inf, np.nan], np.float32)
    assert_close(values, values.astype(np.float64))
    assert_close(np.nextafter(values[:3], np.float32(9)), values[:3])
    assert_close(np.array([1.00001], np.float32), [1.0], factor=10)
    assert_close(np.array([1.0], BF16.numpy), [1.004])
    assert_close(np.zeros((0, 3), F32.numpy), np.zeros((0, 3)))


def test_the_worst_element_is_named() -> None:
    actual = np.zeros((2, 3), np.float32)
    actual[0, 1], actual[1, 2] = 1.0, 5.0
    with pytest.raises(
        AssertionError, match=r"2 of 6 elements differ; worst at \[1, 2\]: got np.float64\(5.0\)"
    ):
        assert_close(actual, np.zeros((2, 3)))


def test_a_pretended_cpu_hides_features(monkeypatch: pytest.MonkeyPatch) -> None:
    big = dict.fromkeys(
        [
            "sse4.2",
            "avx",
            "avx2",
            "fma",
            "avx512f",
            "avx512bw",
            "avx512dq",
            "avx512vl",
            "avx512vnni",
        ],
        True,
    )
    monkeypatch.setattr(isa.binding, "get_host_cpu_features", lambda: big)
    monkeypatch.setattr(isa, "_pretended", "native")
    assert (isa.level(), isa.features()) == ("avx512", frozenset(big))
    isa.pretend("avx2")
    assert (isa.level(), isa.features()) == ("avx2", {"sse4.2", "avx", "avx2", "fma"})
    target = isa.host_target("avx512")
    assert target.lanes(F32) == 16
    assert "+avx2" in target.features and "-avx512f" in target.features
    isa.pretend("generic")
    assert (isa.level(), isa.features()) == ("generic", {"sse4.2"})
    with pytest.raises(ValueError, match="'sse9' is not known"):
        isa.pretend("sse9")


@pytest.mark.isa("avx9000")
def test_a_feature_this_cpu_lacks_skips() -> None:
    raise AssertionError("no CPU has avx9000")


def test_seeds_depend_on_the_test_only(seed: int, rng: np.random.Generator) -> None:
    assert rng.integers(1 << 30) == np.random.default_rng(seed).integers(1 << 30)
    assert np.random.randint(1 << 30) == np.random.RandomState(seed).randint(1 << 30)

    assert SHARED.integers(1 << 30) == np.random.default_rng(seed).integers(1 << 30)


def test_processes_give_their_code_and_text() -> None:
    done = run_python(
        "-c",
        "import sys, os; print(input() + os.environ['A']); sys.exit(7)",
        stdin="x",
        env={"A": "y"},
    )
    assert (done.returncode, done.stdout) == (7, "xy\n")
    assert run_cli("--version").stdout.startswith("graphc ")


def test_equal_texts_are_compiled_once() -> None:
    requested: list[tuple[str, str, int]] = []

    def compiled(text: str, target: Target, level: int) -> bytes:
        requested.append((text, target.cpu, level))
        return text.encode()

    compile_once = shared(compiled, kept=6)
    one, other = Target("avx2", "x"), Target("avx2", "y")
    different = [("ab", one, 2), ("ab", other, 2), ("ab", one, 0)]
    for case in different * 2:
        assert compile_once(*case) == b"ab"
    assert requested == [(text, target.cpu, level) for text, target, level in different]
    assert [compile_once(text, one, 2) for text in ("c", "ab", "c")] == [b"c", b"ab", b"c"]
    assert requested[3:] == [("c", "x", 2), ("ab", "x", 2)], (
        "the one not requested longest has gone"
    )


def test_equal_kernels_are_compiled_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Zeros of either sign and other targets are not equal; the replacement of a pass is looked up each time."""
    requested: list[Part] = []

    def compiled(part: Part, target: Target, check: bool) -> CompiledPart:
        requested.append(part)
        return CompiledPart(b"code")

    def part(number: float, name: str) -> Part:
        out, b = Buffer("out", F32, (4,)), LoopBuilder()
        b.store(out, (0,), const(number, F32))
        return Part(Module((b.function("kernel", (out,)),)), name)

    compile_once, target = shared_parts(compiled), Target("avx2")
    for _ in range(2):
        for name, number in (("a", 0.0), ("b", 0.0), ("a", -0.0)):
            compile_once(part(number, name), target, True)
        compile_once(part(0.0, "a"), Target("avx512"), True)
    assert len(requested) == 3
    monkeypatch.setattr(pipeline, "PASSES", pipeline.PASSES[1:])
    compile_once(part(0.0, "a"), target, True)
    monkeypatch.undo()
    with caplog.at_level("DEBUG", "graphc.loops"):
        compile_once(part(0.0, "a"), target, True)
    compile_once(part(0.0, "a"), target, True)
    assert len(requested) == 5
