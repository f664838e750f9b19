"""The compile cache: the key, what is trusted, what is deleted, and writers that meet or are killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from graphc import cli
from graphc.base.dims import Symbol, size
from graphc.base.errors import GraphcWarning, UserError
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver import cache_key as cache_key_module
from graphc.driver.cache_key import cache_key, file_key, source_fingerprint
from graphc.driver.compile_cache import CompileCache, cache_folder, default_cache
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_request, compile_stages
from graphc.driver.reproducer import is_bug
from graphc.driver.request import CompileRequest
from graphc.graph_ir.ir.contents import attribute_tokens
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime.executor import CompiledModel
from support.caches import artifact, compile_cached, small
from support.cli_models import layer
from support.onnx_models import model, node

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def kept(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "compiled")


def request_of(model: object, inputs: dict[str, str] | None = None) -> CompileRequest:
    return CompileRequest(model, target_for("generic"), inputs=inputs or {})


def key(graph: Graph | None = None, **changes: object) -> str:
    return cache_key(replace(request_of(graph or small()), **changes))


def test_what_was_compiled_is_found_and_is_the_same(
    kept: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, hashed = small(), Graph.hash_contents(small())
    with monkeypatch.context() as patch:  # weights are hashed once, and no disk is waited for
        patch.setattr(graph, "hash_contents", iter([hashed]).__next__)
        patch.setattr(os, "fsync", None)
        first = compile_cached(graph, kept)
    again = compile_cached(small(), kept)
    assert (first.from_cache, again.from_cache) == (False, True)
    assert again.artifact.object_code == first.artifact.object_code
    assert np.array_equal(again.artifact.constants, first.artifact.constants)
    assert again.artifact.label == "model 'small'"
    assert set(again.phases.seconds) == {"read", "cache"}
    assert again.request.source.hash_contents() == small().hash_contents()
    (entry,) = kept.contents().models
    assert entry.model == "small" and entry.size_bytes > 0


def test_everything_that_decides_the_code_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = {"matmul m1n1k1 f32": parse_schedule("gemm mr=4 nv=2 mc=1 kc=1 ng=1")}
    keys = [
        key(),
        key(small(factor=3.0)),
        key(small(name="z")),
        key(target=target_for("avx2")),
        key(target=target_for("avx2@macos")),
        key(options=CompileOptions(threads=2)),
        key(options=CompileOptions(disabled=frozenset({"fuse"}))),
        key(options=CompileOptions(disabled=frozenset({"fuse", "cse"}))),
        key(tuned=schedule),
        key(requested=schedule),
    ]
    assert len(set(keys)) == len(keys)
    assert key(options=CompileOptions(dump_dir=Path("d"))) == key()
    monkeypatch.setattr("graphc.driver.cache_key.versions", lambda: {"graphc": "another"})
    assert key() != keys[0]
    # A field added to the context decides something too: `cache_key` must know it.
    assert {field.name for field in fields(LowerContext)} == {
        "target",
        "options",
        "tuned",
        "requested",
        "lowerings",  # in the key of user code: tests/lab/test_user_kernels.py
    }


def test_the_ranges_of_sizes_are_in_the_key(kept: CompileCache) -> None:
    """Else a model of some sizes would be found where that for all is wanted, and refuse what it should take."""
    proto = model([node("Relu", "x")], {"x": ["N"]}).SerializeToString()
    for text, accepted in (("f32[N=1..8]", (1, 8)), ("f32[N]", (1, 9)), ("f32[N=2..8]", (2, 8))):
        request = replace(request_of(proto, {"x": text}), target=target_for("native"), cache=kept)
        found = compile_request(request)
        assert not found.from_cache
        run = CompiledModel(found.artifact)
        assert [run(np.ones(n, np.float32)).shape for n in accepted] == [(n,) for n in accepted]
    with pytest.raises(UserError, match="must be f32.N. with N in 2..8"):
        run(np.ones(9, np.float32))


def test_the_ranges_of_sizes_are_in_attributes_too() -> None:
    """Also of sizes that no type of a tensor holds."""
    shapes = [(size(Symbol("N", least)) + 1,) for least in (1, 2)]
    first, second = ([*attribute_tokens({"shape": shape})] for shape in shapes)
    assert first != second


def test_the_key_is_the_same_in_another_process() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_compile_cache as t\n"
        "o = t.CompileOptions(disabled=frozenset({'fuse', 'cse', 'fold'}))\n"
        "print(t.key(options=o))"
    )
    here = key(options=CompileOptions(disabled=frozenset({"fuse", "cse", "fold"})))
    for seed in ("1", "2"):  # of the hashes that order sets
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        environ = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", program, str(Path(__file__).parent)],
            env=environ, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == here


def test_a_file_that_was_seen_is_not_read_as_a_graph_again(
    kept: CompileCache, tmp_path: Path
) -> None:
    path = Path(layer(tmp_path))
    first = compile_cached(path, kept)
    again = compile_cached(path, kept)
    assert not first.from_cache and set(again.phases.seconds) == {"cache"}
    assert again.request.source.hash_contents() == first.request.source.hash_contents()
    same_bytes = compile_cached(path.read_bytes(), kept)
    assert set(same_bytes.phases.seconds) == {"cache"}
    other = compile_cached(path, kept, CompileOptions(threads=2))
    assert not other.from_cache
    assert kept.verify() == {}
    aliases = [*kept.folder.glob("*.key"), *kept.folder.glob("*.seen")]
    assert len(aliases) == 3
    for alias in aliases:
        whole = alias.read_bytes()
        for corrupt in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:10], b""):
            alias.write_bytes(corrupt)
            assert set(kept.verify()) == {alias}
            assert compile_cached(path, kept).from_cache, "by the graph, if the alias is corrupt"
        alias.write_bytes(whole)


def test_kernels_are_shared_by_models(kept: CompileCache) -> None:
    """Other constants and other names: the model is new, its kernel is not."""
    first = compile_cached(small(2.0), kept)
    other = compile_cached(small(3.0, "z"), kept)
    assert not other.from_cache
    assert set(first.phases.kernel_seconds) == {"loops", "emit", "llvm"}
    held = kept.contents()
    assert (len(held.models), held.kernels) == (2, 1)
    assert held.size_bytes == held.kernel_bytes + sum(entry.size_bytes for entry in held.models)
    alone = compile_stages(small(3.0, "z"))
    assert other.artifact.object_code == alone.artifact.object_code
    value = np.arange(4, dtype=np.float32)
    assert CompiledModel(other.artifact)(value).tolist() == [0, 3, 6, 9]


def test_a_corrupt_kernel_is_compiled_anew(
    kept: CompileCache, caplog: pytest.LogCaptureFixture
) -> None:
    first = compile_cached(small(2.0), kept)
    (path,) = kept.folder.glob("*.kernel")
    whole = path.read_bytes()
    for corrupt in (whole[:-1], whole[:10], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(corrupt)
        assert kept.get_kernel(path.stem) is None and not path.exists()
        assert "is corrupt; compile its model again; it is deleted from the cache" in caplog.text
        caplog.clear()
        path.write_bytes(corrupt)
        (kept.folder / f"{kept.contents().models[0].key}.gcm").unlink()
        again = compile_cached(small(2.0), kept)
        assert again.artifact.object_code == first.artifact.object_code
        assert path.read_bytes() == whole


def test_kernels_make_room_as_models_do(tmp_path: Path) -> None:
    kept = CompileCache(tmp_path / "c", limit_bytes=300)
    assert kept.get_kernel("a") is None
    kept.put_kernels({"a": bytes(100)})
    before = time.time() - 100
    os.utime(kept.folder / "a.kernel", (before, before))
    kept.put_kernels({"b": bytes(100), "c": bytes(100)})
    assert kept.get_kernel("a") is None and kept.get_kernel("b") == bytes(100)
    assert kept.collect(0).size_bytes == 0


def test_the_sources_of_the_compiler_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of any room that decides what comes out counts."""
    monkeypatch.setattr(cache_key_module, "_digest", lambda *parts: "\n".join(parts))
    lines = source_fingerprint.__wrapped__().splitlines()
    seen = {"/".join(line.split()[0].split("/")[-2:]) for line in lines}
    assert seen >= {
        "targets/isa.py", "codegen/aot.py", "driver/stages.py", "frontend/__init__.py", "ir/graph.py",
        "runtime/abi.py", "tensor_ir/nodes.py",
    }  # fmt: skip


def test_an_alias_does_not_outlive_its_entry(kept: CompileCache, tmp_path: Path) -> None:
    path = layer(tmp_path)
    compile_cached(path, kept)
    for entry in kept.folder.glob("*.gcm"):
        entry.unlink()
    assert not compile_cached(path, kept).from_cache
    assert compile_cached(path, kept).from_cache
    kept.collect(0)
    assert list(kept.folder.iterdir()) == []


def test_bytes_alone_must_tell_what_the_model_is(tmp_path: Path) -> None:
    model = Path(layer(tmp_path)).read_bytes()
    keys = [
        file_key(request_of(model)),
        file_key(request_of(model, {"x": "f32[2,3]"})),
        file_key(request_of(model + b" ")),
        file_key(replace(request_of(model), target=target_for("avx2"))),
    ]
    assert None not in keys and len(set(keys)) == len(keys)
    assert file_key(request_of(layer(tmp_path))) == keys[0]
    assert file_key(request_of(model + b"location")) is None, "a tensor may be in another file"
    assert file_key(replace(request_of(model), attrs={"a.b": "1"})) is None
    assert file_key(replace(request_of(model), constants={"w": np.zeros(1)})) is None
    assert file_key(request_of(small())) is None
    assert file_key(request_of(tmp_path / "missing.onnx")) is None
    assert file_key(request_of(Path(layer(tmp_path))), limit=10) is None
    (tmp_path / "m.param").write_bytes(model)
    assert file_key(request_of(tmp_path / "m.param")) is None, "its weights are in another file"
    (tmp_path / "empty.onnx").write_bytes(b"")
    assert file_key(request_of(tmp_path / "empty.onnx")) is None


def test_a_corrupt_entry_is_deleted_and_made_anew(
    kept: CompileCache, caplog: pytest.LogCaptureFixture
) -> None:
    compile_cached(small(), kept)
    (path,) = kept.folder.glob("*.gcm")
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for corrupt in (whole[:-1], whole[:100], b"", bytes(flipped)):
        path.write_bytes(corrupt)
        assert kept.contents().models[0].model.startswith("corrupt: ")
        with caplog.at_level(logging.WARNING, "graphc.cache"):
            assert kept.get(path.stem) is None
        assert "it is deleted from the cache" in caplog.text and not path.exists()
        caplog.clear()
        assert not compile_cached(small(), kept).from_cache
        assert compile_cached(small(), kept).from_cache


def test_a_cache_that_cannot_be_made_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = CompileCache(tmp_path / "file" / "compiled")
    with pytest.raises(GraphcWarning) as error:  # pytest makes warnings errors
        compile_cached(small(), kept)
    assert not is_bug(error.value) and not getattr(error.value, "__notes__", None)
    with pytest.warns(GraphcWarning, match="is not kept: .* set GRAPHC_CACHE_DIR"):
        outcome = compile_cached(small(), kept)
    assert not outcome.from_cache and outcome.artifact.object_code
    assert kept.contents().models == ()


def test_what_was_not_used_for_longest_makes_room(tmp_path: Path) -> None:
    one = artifact()
    CompileCache(tmp_path / "c").put("probe", one)
    size = (tmp_path / "c" / "probe.gcm").stat().st_size
    (tmp_path / "c" / "probe.gcm").unlink()
    kept = CompileCache(tmp_path / "c", limit_bytes=2 * size)
    for age, name in ((300, "old"), (200, "used"), (100, "new")):
        kept.put(name, one)
        before = time.time() - age
        os.utime(tmp_path / "c" / f"{name}.gcm", (before, before))
    assert kept.get("used") is not None  # is the newest now
    kept.put("last", one)
    assert {entry.key for entry in kept.contents().models} == {"last", "used"}


WRITER = """
import sys
from pathlib import Path
from graphc.driver.compile_cache import CompileCache
from graphc.runtime.artifact import Artifact
from graphc.runtime.executor import CompiledModel
kept, one = CompileCache(Path(sys.argv[1])), Artifact.load(sys.argv[2])
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    kept.put("a" * 64, one)
"""


def start_writer(kept: CompileCache, source: Path, times: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(kept.folder), str(source), str(times)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_two_writers_and_a_reader(kept: CompileCache, tmp_path: Path) -> None:
    """Two processes rename over one name again and again: whoever reads always finds a whole entry."""
    source, name = tmp_path / "m.gcm", "a" * 64
    artifact().save(source)
    kept.put(name, artifact())
    writers = [start_writer(kept, source, 60) for _ in range(2)]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        found = kept.get(name)
        assert found is not None and found.metadata.model == "small"
        reads += 1
    assert [writer.wait() for writer in writers] == [0, 0] and reads
    assert [entry.key for entry in kept.contents().models] == [name]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()


def test_a_writer_that_is_killed_leaves_nothing_half_done(
    kept: CompileCache, tmp_path: Path
) -> None:
    """kill -9 at several moments: the entry is whole or absent, and partial files are cleared."""
    source, name = tmp_path / "m.gcm", "a" * 64
    large = np.random.default_rng(0).integers(0, 255, 4 << 20, np.uint8)
    replace(artifact(), constants=large).save(source)
    for delay in (0.0, 0.004, 0.009, 0.015):
        with start_writer(kept, source, 10**6) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
            time.sleep(delay)
            writer.send_signal(signal.SIGKILL)
        found = kept.get(name)
        assert found is None or np.array_equal(found.constants, large)
    left = kept.folder / ".graphc-0123.tmp"  # at least this one
    left.write_bytes(b"half")
    an_hour_ago = time.time() - 4000
    os.utime(left, (an_hour_ago, an_hour_ago))
    assert kept.put(name, artifact()) and not left.exists()
    left.write_bytes(b"half")
    kept.collect(0)
    assert list(kept.folder.iterdir()) == []


def test_where_it_is() -> None:
    assert cache_folder({"GRAPHC_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/graphc")
    assert cache_folder({}).name == "graphc"
    assert default_cache({"GRAPHC_CACHE_DIR": ""}) is None
    found = default_cache({"GRAPHC_CACHE_DIR": "/c"})
    assert found is not None and found.folder == Path("/c/compiled")


def test_python_and_the_command_line_share_it(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path / "cache"))
    model = layer(tmp_path)
    compile_model(model, threads=1)
    words = ["compile", model, "--threads", "1"]
    assert cli.main([*words, "--run"]) == 0
    assert "had it; --no-cache compiles it anew" in capsys.readouterr().out
    assert cli.main([*words, "--no-cache"]) == 0
    assert "cache" not in capsys.readouterr().out
    compile_model(model, threads=1, cache=False)
    assert cli.main(["cache", "ls"]) == 0
    *_, entry, total = capsys.readouterr().out.splitlines()
    assert entry.endswith("layer") or "ago" in entry
    assert total.startswith("1 models, 1 kernels (") and total.endswith(
        str(tmp_path / "cache" / "compiled")
    )
    assert cli.main(["cache", "gc", "--max-bytes", "0"]) == 0
    assert capsys.readouterr().out.startswith("deleted 1 models, 1 kernels and 0 weights, ")
    assert not list((tmp_path / "cache" / "compiled").iterdir())


def test_the_command_says_that_the_cache_is_off(capsys: Capture) -> None:
    assert cli.main(["cache", "ls"]) == 2
    sentence = (
        "the compile cache is off: GRAPHC_CACHE_DIR is empty; unset it, or name a folder in it"
    )
    assert capsys.readouterr().err == f"graphc: error: {sentence}\n"
