"""The compile cache belongs to its user alone: folders, links and files that others could change are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphc.base.errors import GraphcWarning, UserError
from graphc.driver.compile_cache import CompileCache
from support.caches import artifact, compile_cached, small
from support.process import ROOT, run_cli


@pytest.fixture
def kept(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "compiled")


def test_the_folder_is_its_owners_alone(
    kept: CompileCache, caplog: pytest.LogCaptureFixture
) -> None:
    assert kept.put("a", artifact())
    assert kept.folder.stat().st_mode & 0o777 == 0o700
    kept.folder.chmod(0o755)
    assert kept.get("a") is None
    with pytest.warns(GraphcWarning, match=r"the compiled model is not kept: .*; chmod 700 it"):
        assert not kept.put("b", artifact())
    refused = rf"cache folder '{kept.folder}' is open to other users \(mode 755\); chmod 700 it"
    assert "is not kept: cache folder" in caplog.text
    for ask in (kept.contents, kept.collect):
        with pytest.raises(UserError, match=refused):
            ask()


def test_a_link_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    kept = CompileCache(tmp_path / "link")
    with pytest.warns(GraphcWarning, match="is not a folder; remove it"):
        assert not kept.put("a", artifact())
    assert not list((tmp_path / "real").iterdir())


def test_a_folder_above_that_others_may_write_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They could rename the cache and put their own there; compiling goes on and says so once."""
    kept = CompileCache(tmp_path / "open" / "user" / "compiled")
    assert kept.put("a", artifact())
    kept.put_kernels({"k": b"code"})
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in list(kept.folder.parents)[:2])
    (tmp_path / "open").chmod(0o777)
    assert kept.get("a") is None and kept.get_kernel("k") is None
    with pytest.warns(GraphcWarning, match="is not kept") as warned:
        outcome = compile_cached(small(), kept)
    assert len(warned) == 1 and not outcome.from_cache and outcome.artifact.object_code
    refused = (
        f"cache folder '{kept.folder}' could be exchanged: other users may write to "
        f"'{tmp_path / 'open'}' (mode 777); correct that or set GRAPHC_CACHE_DIR"
    )
    assert [r.getMessage() for r in caplog.records] == [
        f"the compiled model is not kept: {refused}"
    ]
    with pytest.raises(UserError) as error:
        kept.contents()
    assert str(error.value) == refused
    elsewhere = CompileCache(tmp_path / "open" / "new" / "compiled")
    with pytest.warns(GraphcWarning, match="is not kept"):
        assert not elsewhere.put("a", artifact())
    assert not elsewhere.folder.parent.exists()


def test_commands_say_in_one_line_that_the_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled").chmod(0o755)
    words = ("compile", str(ROOT / "examples" / "mlp.onnx"), "-q", "-o", "m.gcm")
    done = run_cli(*words, cwd=tmp_path, env={"GRAPHC_CACHE_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout, (tmp_path / "m.gcm").exists()) == (0, "", True)
    assert done.stderr == (
        f"graphc: warning: the compiled model is not kept: cache folder '{tmp_path}/compiled' is open to other users "
        "(mode 755); chmod 700 it\n"
    )


def test_an_entry_that_is_a_link_is_none(kept: CompileCache, tmp_path: Path) -> None:
    """Neither is it read, nor is written what it refers to."""
    assert kept.put("a", artifact())
    kept.put_kernels({"k": b"code"})
    kept.link("b", "a")
    assert (kept.resolve("b"), kept.get_kernel("k")) == ("a", b"code")
    entries = [kept.folder / name for name in ("a.gcm", "k.kernel", "b.key")]
    for path in entries:
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    before = [(tmp_path / path.name).read_bytes() for path in entries]
    assert (kept.resolve("b"), kept.get_kernel("k")) == (None, None)
    assert (
        kept.contents()
        .models[0]
        .model.endswith("a.gcm' (it is a symbolic link); give the file itself")
    )
    assert kept.get("a") is None and not entries[0].is_symlink()
    kept.put_kernels({"k": b"other"})
    kept.link("b", "c")
    assert (kept.resolve("b"), kept.get_kernel("k")) == ("c", b"other")
    assert [(tmp_path / path.name).read_bytes() for path in entries] == before


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_an_entry_that_others_may_write_to_is_refused(
    kept: CompileCache, caplog: pytest.LogCaptureFixture
) -> None:
    assert kept.put("a", artifact())
    kept.put_kernels({"k": b"code"})
    kept.link("b", "a")
    entries = [kept.folder / name for name in ("a.gcm", "k.kernel", "b.key")]
    assert [path.stat().st_mode & 0o777 for path in entries] == [0o600] * 3
    for path in entries:
        path.chmod(0o606)
    assert (kept.resolve("b"), kept.get_kernel("k"), kept.get("a")) == (None, None, None)
    assert caplog.messages == [
        f"cannot read '{entries[0]}' (other users may write to it, mode 606); "
        "make it a file that only you may write to (chmod 600); it is deleted from the cache"
    ]
