"""`graphc inspect sbom`: the bill of materials names what decided the bytes of an artifact."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import graphc
from graphc.base.version import __version__
from graphc.cli import main
from support.layers import layer

Capture = pytest.CaptureFixture[str]


def test_the_document(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.gcm"
    model = graphc.compile(layer(8, width=16), precision="bf16", disabled=["fuse", "cse"])
    model.save(path)
    assert main(["inspect", "sbom", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    artifact = found["metadata"]["component"]
    assert artifact["hashes"][0]["content"] == hashlib.sha256(path.read_bytes()).hexdigest()
    options = {one["name"]: one["value"] for one in artifact["properties"]}
    assert options["graphc:option:precision"] == "bf16"
    assert options["graphc:option:disabled"] == "cse,fuse"
    parts = {one["name"]: one for one in found["components"]}
    meta = model.artifact.metadata
    assert parts[meta.model]["hashes"] == [{"alg": "SHA-256", "content": meta.model_hash}]
    assert parts["graphc"]["purl"] == f"pkg:pypi/graphc@{__version__}"
    assert {"llvmlite", "llvm", "numpy", "python"} < set(parts)
    references = {one["bom-ref"] for one in found["components"]}
    assert references == set(found["dependencies"][0]["dependsOn"])


def test_the_same_artifact_gives_the_same_bytes(tmp_path: Path, capsys: Capture) -> None:
    graphc.compile(layer(8, width=16)).save(tmp_path / "m.gcm")
    for name in ("a.json", "b.json"):
        words = ["inspect", "sbom", str(tmp_path / "m.gcm"), "-o", str(tmp_path / name)]
        assert main(words) == 0
        assert capsys.readouterr().out == f"wrote {tmp_path / name}\n"
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_corrupt_artifact_has_none(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.gcm"
    graphc.compile(layer(8, width=16)).save(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert main(["inspect", "sbom", str(path)]) == 2
    assert "is corrupt" in capsys.readouterr().err
