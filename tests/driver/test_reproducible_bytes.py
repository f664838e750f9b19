"""The same model and options give the same bytes, in any process and folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.process import ROOT, run_python

COMPILE = """
import sys, graphc
options = dict(target="avx2", threads=2, jobs=int(sys.argv[1]), cache=False)
graphc.compile(sys.argv[2], **options).save("m.gcm")
"""


@pytest.mark.parametrize("name", ["mlp.onnx", "mha.onnx", "block.hlo"])
def test_equal_requests_give_equal_bytes(name: str, tmp_path: Path) -> None:
    """Other hash seeds, folders, and numbers of processes that compile."""
    made = []
    for seed, jobs, path in (("1", "1", name), ("2", "2", "../" + name)):
        folder = tmp_path / seed
        folder.mkdir()
        shutil.copy(ROOT / "examples" / name, folder / path)
        environment = {"PYTHONHASHSEED": seed, "TZ": f"UTC{seed}", "HOME": str(folder)}
        done = run_python("-c", COMPILE, jobs, path, cwd=folder, env=environment)
        assert done.returncode == 0, done.stderr
        made.append((folder / "m.gcm").read_bytes())
    assert made[0] == made[1]
