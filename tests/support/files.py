"""Files that tests write again and again."""

from __future__ import annotations

from pathlib import Path


def write_anew(path: Path, content: str | bytes | bytearray) -> Path:
    """Write a file that may be there; `path`.

    The old one is removed, not emptied: for what is emptied and written again, some file systems wait for the disk,
    3 ms each time.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
