"""PEP 517 backend: setuptools, plus the two files that make `python -m gc` run graphc.

They are added to the finished wheel, which works alike for wheels and editable wheels: a `.pth` file, read by `site`
at every start of the interpreter, and the module it imports when the command line ends one of its words in `gc`.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta

build_sdist = build_meta.build_sdist
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable

HOOK = "graphc_gc_main"
PTH_LINE = (
    f"import sys; any(a.endswith('gc') for a in sys.orig_argv) and __import__('{HOOK}').install()\n"
)

Settings = Mapping[str, Any] | None


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel in `wheel_directory`; return its file name."""
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    add_files(Path(wheel_directory, name), _hook_files())
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the editable wheel in `wheel_directory`; return its file name."""
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    add_files(Path(wheel_directory, name), _hook_files())
    return name


def add_files(wheel: Path, files: Mapping[str, bytes]) -> None:
    """Add files to the root of a wheel and to its RECORD."""
    rewritten = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(rewritten, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(".dist-info/RECORD"):
                rows = "".join(_record_row(name, content) for name, content in files.items())
                data = data.rstrip(b"\n") + b"\n" + rows.encode()
            new.writestr(info, data)
        for name, content in files.items():
            new.writestr(_entry(name), content)
    os.replace(rewritten, wheel)


def _hook_files() -> dict[str, bytes]:
    module = Path(__file__).with_name(f"{HOOK}.py")
    return {f"{HOOK}.pth": PTH_LINE.encode(), module.name: module.read_bytes()}


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980: the same wheel from the same sources
    entry.external_attr = 0o100644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _record_row(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
