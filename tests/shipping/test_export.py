"""Native libraries called from C, C++ and ctypes: results, statuses, CPUs without the code, many in one process."""

from __future__ import annotations

import ctypes
import hashlib
import math
import pickle
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import UnsupportedError, UserError
from graphc.base.dtypes import F64
from graphc.codegen.host import host_supports
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.executor import CompiledModel
from graphc.runtime.tile_permission import tiles_permitted
from support.c_programs import build, needs, run
from support.layers import decoder, layer, whole
from support.process import run_python

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64",
    reason="libraries that run are ELF, and the programs are for this machine",
)


def test_dynamic_dimensions(tmp_path: Path) -> None:
    model = graphc.compile(layer("N"), inputs={"x": "f32[N=1..64,32]"})
    graphc.export(model, tmp_path / "layer.so")
    program = build(tmp_path, "layer", "layer.so")
    for rows in (1, 7, 64):
        x = whole(rows, 32)
        assert run(program, [x], [rows]) == (0, model(x).tobytes())
    assert run(program, [], [65])[0] != 0


def test_a_cache_grows_in_place(tmp_path: Path) -> None:
    model = graphc.compile(decoder(), inputs={"past": "f32[P=0..7,5]"}, alias={"present": "past"})
    graphc.export(model, tmp_path / "decoder.a")
    text = (tmp_path / "decoder.h").read_text()
    assert "int64_t P; /**< `P`: 0 to 7. */" in text and "the same pointer as input `past`" in text
    program = build(tmp_path, "decoder", "decoder.a", aliases=[(0, 0)])
    buffer, x = whole(8, 5), whole(1, 5)
    expected = buffer.copy()
    expected[3] = x
    status, data = run(program, [buffer, x], [3, 4])
    results = np.frombuffer(data, np.float32)
    assert status == 0
    assert np.array_equal(results[:40], expected.reshape(-1))
    assert np.array_equal(results[40:], expected[:4].sum(0))
    other = build(tmp_path, "decoder", "decoder.a")
    assert run(other, [buffer, x], [3, 4])[0] == 3  # the pointers differ


class Loaded:
    """A library in this process."""

    def __init__(self, path: Path, prefix: str) -> None:
        library = ctypes.CDLL(str(path))
        self.run: Callable[..., int] = getattr(library, f"{prefix}_run")
        self.arena_bytes = getattr(library, f"{prefix}_arena_bytes")
        self.arena_bytes.restype = ctypes.c_int64
        self.error = getattr(library, f"{prefix}_error")
        self.error.restype = ctypes.c_char_p

    def call(
        self,
        inputs: list[int | None],
        outputs: list[int | None],
        arena: int | None,
        missing: int = 0,
    ) -> int:
        """The status of a run; the arena has fewer bytes than needed by `missing`."""
        sources, targets = ((ctypes.c_void_p * len(a))(*a) for a in (inputs, outputs))
        size = ctypes.c_int64(self.arena_bytes(None) - missing)
        return self.run(sources, targets, None, None, ctypes.c_void_p(arena), size, None)


def test_wrong_arguments_are_statuses(tmp_path: Path) -> None:
    graphc.export(layer(), tmp_path / "layer.so")
    loaded = Loaded(tmp_path / "layer.so", "layer")
    x, y = whole(4, 32), np.zeros((4, 33), np.float32)
    arena = np.zeros(loaded.arena_bytes(None) + 128, np.uint8)
    at = arena.ctypes.data + -arena.ctypes.data % 64
    given = x.ctypes.data, y.ctypes.data
    assert loaded.call([given[0]], [given[1]], at) == 0
    assert loaded.call([None], [given[1]], at) == -2
    assert loaded.call([given[0] + 1], [given[1]], at) == -2
    assert loaded.call([given[0]], [None], at) == -3
    assert loaded.call([given[0]], [given[1]], at + 32) == -6
    assert loaded.error(-6) == b"the arena is null, not aligned to 64 bytes, or too small"
    assert loaded.error(77) == b"the run was stopped"


def test_wrong_numbers_of_tensors_are_statuses(tmp_path: Path) -> None:
    graphc.export(layer("N"), tmp_path / "layer.so", inputs={"x": "f32[N=1..8,32]"})
    library = ctypes.CDLL(str(tmp_path / "layer.so"))
    for name, size, status in (("input", 32, -2), ("output", 33, -3)):
        function = getattr(library, f"layer_{name}_bytes")
        function.restype = ctypes.c_int64
        for index, rows, expected in (
            (0, 8, 8 * size * 4), (1, 8, status), (-1, 8, status), (1 << 40, 8, status), (0, 9, -4),
        ):  # fmt: skip
            dims = (ctypes.c_int64 * 1)(rows)
            assert function(ctypes.c_int64(index), dims) == expected


def test_a_library_that_holds_its_weights_finds_none_in_a_file(tmp_path: Path) -> None:
    graphc.export(layer(), tmp_path / "layer.so")
    library = ctypes.CDLL(str(tmp_path / "layer.so"))
    library.layer_weights.restype = ctypes.c_void_p
    for size in (0, 64):
        assert library.layer_weights(ctypes.create_string_buffer(64), ctypes.c_int64(size)) is None


def test_an_arena_that_is_too_small_is_a_status(tmp_path: Path) -> None:
    graphc.export("examples/mlp.onnx", tmp_path / "mlp.so", threads=1)
    loaded = Loaded(tmp_path / "mlp.so", "mlp")
    x, y = np.ones((32, 13), np.float32), np.zeros((32, 128), np.float32)
    arena = np.zeros(loaded.arena_bytes(None) + 64, np.uint8)
    at = arena.ctypes.data + -arena.ctypes.data % 64
    for given, expected in (((at, 0), 0), ((at, 1), -6), ((None, 0), -6)):
        assert loaded.call([x.ctypes.data], [y.ctypes.data], *given) == expected


def test_arrays_without_elements_have_no_address(tmp_path: Path) -> None:
    """The data of an empty `std::vector` are at no address."""
    graphc.export(decoder(), tmp_path / "decoder.so", inputs={"past": "f32[P=0..7,5]"})
    library = ctypes.CDLL(str(tmp_path / "decoder.so"))
    library.decoder_arena_bytes.restype = ctypes.c_int64
    x, present, y = whole(1, 5), np.zeros((2, 5), np.float32), np.zeros(5, np.float32)
    arena = np.zeros(4096, np.uint8)
    room = ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % 64), ctypes.c_int64(2048)
    outputs = (ctypes.c_void_p * 2)(present.ctypes.data, y.ctypes.data)
    inputs = (ctypes.c_void_p * 2)(None, x.ctypes.data)
    for length, expected in ((0, 0), (1, -2), (8, -4), (-1, -4)):
        dims = (ctypes.c_int64 * 1)(length)
        assert library.decoder_run(inputs, outputs, dims, None, *room, None) == expected
    assert np.array_equal(y, x[0])


def test_many_libraries_in_one_process(tmp_path: Path) -> None:
    x = whole(4, 32)
    loaded = []
    model = graphc.compile(layer(), threads=1)
    for number in range(50):
        path = tmp_path / f"m{number}.so"
        graphc.export(model, path, prefix="layer" if number % 2 else f"layer{number}")
        loaded.append(Loaded(path, "layer" if number % 2 else f"layer{number}"))
    for one in loaded:
        y = np.zeros((4, 33), np.float32)
        arena = np.zeros(one.arena_bytes(None) + 128, np.uint8)
        at = arena.ctypes.data + -arena.ctypes.data % 64
        assert one.call([x.ctypes.data], [y.ctypes.data], at) == 0
        assert np.array_equal(y, model(x))


def test_two_models_in_one_static_program(tmp_path: Path) -> None:
    needs("gcc")
    for number, scale in enumerate((1, 2)):
        graphc.export(layer(scale=scale), tmp_path / f"m{number}.a", prefix=f"m{number}")
    (tmp_path / "use.c").write_text(
        '#include "m0.h"\n#include "m1.h"\n'
        "int main(void) { return m0_info()->input_count + m1_info()->input_count != 2; }\n"
    )
    words = ["gcc", "-static", "use.c", "m0.a", "m1.a", "-o", "use"]
    assert subprocess.run(words, cwd=tmp_path).returncode == 0
    assert subprocess.run(["./use"], cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("cpu", "expected"), [("max", "avx2"), ("Nehalem", "sse4"), ("qemu64", "none")]
)
def test_the_code_is_chosen_by_the_cpu(cpu: str, expected: str, tmp_path: Path) -> None:
    """QEMU runs AVX2 at most: AVX-512 is never chosen there, and no instruction is illegal on older CPUs."""
    needs("qemu-x86_64")
    if not host_supports("avx512"):
        pytest.skip("code for AVX-512 is compiled where it runs")
    graphc.export(layer(), tmp_path / "layer.a", ["avx512", "avx2"])
    program = build(tmp_path, "layer", "layer.a", ("gcc", "-static"))
    model, x = graphc.compile(layer(), target="avx2"), whole(4, 32)
    assert run(program, [x])[0] == 0
    status, data = run(program, [x], under=("qemu-x86_64", "-cpu", cpu))
    assert (status, data) == ((0, model(x).tobytes()) if expected == "avx2" else (100, b""))


REFUSED = """
import ctypes, sys
import numpy as np

class Stack(ctypes.Structure):  # too small for tile registers, so that Linux refuses them
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

memory = ctypes.create_string_buffer(4096)
if sys.argv[1] == "refused":
    stack = Stack(ctypes.addressof(memory), 0, 4096)
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
library = ctypes.CDLL("./layer.so")
library.layer_info.restype = ctypes.POINTER(ctypes.c_char_p)
library.layer_arena_bytes.restype = ctypes.c_int64
x, y = (np.fromfile("x.bin", np.float32), np.zeros(128 * 256, np.float32))
arena = np.zeros(library.layer_arena_bytes(None) + 64, np.uint8)
at = ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % 64)
pointers = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, y)]
room = ctypes.c_int64(arena.nbytes - 64)
assert library.layer_run(*pointers, None, None, at, room, None) == 0
y.tofile("y.bin")
print(library.layer_info()[4].decode())
"""


@pytest.mark.parametrize(("system", "isa"), [("permits", "amx"), ("refused", "avx512")])
def test_tile_registers_are_used_where_the_system_permits(
    system: str, isa: str, tmp_path: Path
) -> None:
    if not host_supports("amx") or not tiles_permitted():
        pytest.skip("this CPU or system has no tile registers")
    model = graphc.compile(layer(128, width=256), precision="bf16", threads=1)
    assert model.artifact.metadata.uses_tiles
    graphc.export(model, tmp_path / "layer.so")
    x = whole(128, 32)
    x.tofile(tmp_path / "x.bin")
    done = run_python("-c", REFUSED, system, cwd=tmp_path)
    assert done.stdout.strip() == isa, done.stderr
    assert np.array_equal(np.fromfile(tmp_path / "y.bin", np.float32), model(x).reshape(-1))


def test_libraries_have_no_symbols_that_others_define(tmp_path: Path) -> None:
    needs("nm")
    graphc.export(layer(), tmp_path / "layer.so")
    graphc.export(layer(), tmp_path / "layer.a")
    for words in (("-D", "layer.so"), ("layer.a",)):
        done = subprocess.run(["nm", *words], cwd=tmp_path, capture_output=True, text=True)
        rows = [line.split() for line in done.stdout.splitlines() if line and ":" not in line]
        exported = {row[-1]: row[-2] for row in rows if row[-2].isupper()}
        assert exported and set(exported.values()) == {"T"}
        assert all(name.startswith("layer_") for name in exported)


def test_functions_of_f64_are_in_the_library(tmp_path: Path) -> None:
    graph = Graph("functions")
    x = graph.make_input(LogicalTensor(F64, (5,)), "x")
    for name in ("sin", "log", "erf", "tanh"):
        graph.make_output(graph.make(name, [x]).outputs[0], name)
    graph.make_output(graph.make("pow", [x, x]).outputs[0], "pow")
    graphc.export(graph, tmp_path / "functions.so")
    loaded = Loaded(tmp_path / "functions.so", "functions")
    given, found = np.array([0.5, 1, 2, 3, 1e300]), np.zeros((5, 5))
    assert loaded.call([given.ctypes.data], [row.ctypes.data for row in found], None) == 0
    with np.errstate(all="ignore"):
        expected = [
            np.sin(given),
            np.log(given),
            np.vectorize(math.erf)(given),
            np.tanh(given),
            given**given,
        ]
    np.testing.assert_allclose(found, expected, rtol=5e-16)


def test_equal_models_give_equal_bytes(tmp_path: Path) -> None:
    digests = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files = graphc.export(layer(), tmp_path / folder / "layer.so", cache=False)
        digests.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "m.dll"}, "a native library must be named"),
        ({"prefix": "1x"}, "the prefix must be an identifier of C such as 'x1x'"),
        ({"targets": ["avx2", "avx2"]}, "targets of a library must differ"),
        ({"targets": []}, "targets must name one instruction set or more"),
        ({"prefix": 3}, "prefix be a text, got 'native', 3"),
        ({"targets": ["avx2", "aarch64"]}, "targets of a library must be of one machine"),
    ],
)
def test_what_is_no_library_is_refused(
    arguments: dict[str, object], message: str, tmp_path: Path
) -> None:
    words = {"path": "m.so", **arguments}
    with pytest.raises(UserError, match=message):
        graphc.export(layer(), tmp_path / str(words.pop("path")), **words)  # type: ignore[arg-type]


def test_features_that_a_library_cannot_detect_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="cannot tell whether a CPU has dotprod"):
        graphc.export(layer(), tmp_path / "m.so", "aarch64+dotprod")


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_a_compiled_model_is_saved_as_a_library(suffix: str, tmp_path: Path) -> None:
    model = graphc.compile(layer(), threads=1)
    pickle.loads(pickle.dumps(model)).save(tmp_path / f"m{suffix}")
    expected = graphc.export(model, tmp_path / f"n{suffix}", prefix="layer")
    found = (tmp_path / f"m{suffix}").read_bytes()
    assert found[:4] in (b"\x7fELF", b"!<ar")
    assert (tmp_path / "m.h").read_text() == expected[1].read_text()


def test_libraries_are_saved_without_signature_and_by_linkers(tmp_path: Path) -> None:
    model = graphc.compile(layer(), threads=1)
    with pytest.raises(UserError, match="sign and weights must be empty for a native library"):
        model.save(tmp_path / "m.so", sign="key.pem")
    with pytest.raises(UserError, match=r"must be named \.so, \.a, \.o"):
        model.save(tmp_path / "m.dll")
    assert not list(tmp_path.iterdir())


def test_a_compiled_model_is_exported_as_it_is(tmp_path: Path) -> None:
    model: CompiledModel = graphc.compile(layer())
    with pytest.raises(UserError, match="give the model itself"):
        graphc.export(model, tmp_path / "m.so", "avx2")
