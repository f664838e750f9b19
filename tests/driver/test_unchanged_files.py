"""Files whose status is unchanged: neither a model nor an entry of the compile cache is hashed again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from graphc.base import file_status
from graphc.codegen.host import target_for
from graphc.driver import cache_key
from graphc.driver.compile_cache import CompileCache
from graphc.driver.compiler import compile_request
from graphc.driver.request import CompileRequest
from support.cli_models import layer


def rewritten(path: Path, data: bytes) -> None:
    """Write a file again, with its old times."""
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=times)


def test_they_are_read_again_when_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = Path(layer(tmp_path)), CompileCache(tmp_path / "kept")
    hashed, whole = [], cache_key._hash_of_model

    def counted(*args: Any) -> str | None:
        hashed.append(args)
        return whole(*args)

    def from_cache() -> bool:
        request = CompileRequest(path, target_for("native"), cache=kept)
        return compile_request(request).from_cache

    monkeypatch.setattr(file_status, "SETTLED_SECONDS", -60.0)
    monkeypatch.setattr(cache_key, "_hash_of_model", counted)
    assert not from_cache() and len(hashed) == 1
    assert from_cache() and len(hashed) == 1
    rewritten(path, path.read_bytes())
    assert from_cache() and len(hashed) == 2
    assert from_cache() and len(hashed) == 2
    (entry,) = kept.folder.glob("*.gcm")
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    rewritten(entry, bytes(data))
    assert not from_cache(), "the damage was seen"


def test_a_file_that_was_changed_just_now_is_hashed(tmp_path: Path) -> None:
    path = Path(layer(tmp_path))
    request = CompileRequest(path, target_for("native"))
    assert cache_key.file_key(request) is not None and cache_key.status_key(request) is None
