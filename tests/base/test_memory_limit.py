"""The memory limit: texts of sizes, control groups, the tightest of all limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.base import memory_limit as limits
from graphc.base.errors import UserError
from graphc.base.memory_limit import MemoryLimit, memory_limit, parse_memory, shown_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [("10", 10), ("2k", 2048), ("512M", 512 << 20), (" 16GiB ", 16 << 30), ("1TB", 1 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_memory(text) == MemoryLimit(size, "--max-memory")


@pytest.mark.parametrize("text", ["", "G", "1.5G", "-1", "1P", "9" * 19])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="must be a size like 512M or 16G, got"):
        parse_memory(text)


def test_shown() -> None:
    assert [shown_bytes(n) for n in (1, 1536, 3 << 30, 5 << 40)] == [
        "1 B",
        "1.5 KiB",
        "3 GiB",
        "5 TiB",
    ]


def test_control_groups_of_both_versions(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("5:memory:/old\n4:cpu:/old\n0::/new/inner\n")
    for name, text in {
        "new/memory.max": "4096",
        "new/inner/memory.max": "max",
        "memory/old/memory.limit_in_bytes": "8192",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = limits._group_limits(tmp_path, own)
    assert sorted(limit.size_bytes for limit in found) == [4096, 8192]
    assert limits._group_limits(tmp_path, tmp_path / "none") == []


def test_the_tightest_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_machine", 100), ("_address_limit", 50)):
        monkeypatch.setattr(limits, name, lambda size=size, name=name: [MemoryLimit(size, name)])
    monkeypatch.setattr(limits, "_group_limits", lambda *_: [])
    assert memory_limit() == MemoryLimit(50, "_address_limit")
