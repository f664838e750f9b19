"""The software bill of materials of a compiled model, as a CycloneDX 1.6 document.

The model it was compiled from is a machine-learning model, identified by the hash of its graph and weights; graphc,
LLVM and the packages that decided the code are libraries; the options of the compilation are properties. The document
has no time and no random number: the same artifact gives the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from typing import Any

from ..runtime.artifact import Artifact
from ..runtime.metadata import Metadata, TensorSpec
from ..runtime.signature import KeyFile

_PACKAGES = ("graphc", "llvmlite", "numpy")
"""Names in `versions` of packages of the Python Package Index."""


def bill_of_materials(path: str | os.PathLike[str], key: KeyFile | None = None) -> dict[str, Any]:
    """Return the document for a `.gcm` file, which is checked first. May raise UserError.

    `key`: the file of the public key by which it must be signed.
    """
    meta = Artifact.read_metadata(path, key=key)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    artifact = {
        "type": "application",
        "bom-ref": "artifact",
        "name": Path(path).name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "properties": _properties(meta),
    }
    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": meta.model,
        "hashes": [{"alg": "SHA-256", "content": meta.model_hash}] if meta.model_hash else [],
        "modelCard": {
            "modelParameters": {
                "inputs": [{"format": repr(spec)} for spec in meta.arguments],
                "outputs": [{"format": repr(spec)} for spec in _results(meta)],
            }
        },
    }
    parts = [_library(name, version) for name, version in meta.versions.items()]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {"component": artifact},
        "components": [model, *parts],
        "dependencies": [
            {"ref": "artifact", "dependsOn": ["model", *(part["bom-ref"] for part in parts)]}
        ],
    }


def _results(meta: Metadata) -> tuple[TensorSpec, ...]:
    return meta.results[: len(meta.outputs) - meta.hidden]


def _properties(meta: Metadata) -> list[dict[str, str]]:
    """The options of the compilation, and what the code needs of a CPU."""
    facts = {f"option:{name}": value for name, value in meta.options.items()} | {
        "triple": meta.triple,
        "cpu_features": ",".join(meta.cpu_features),
    }
    return [{"name": f"graphc:{name}", "value": value} for name, value in facts.items()]


def _library(name: str, version: str) -> dict[str, Any]:
    package = {"purl": f"pkg:pypi/{name}@{version}"} if name in _PACKAGES else {}
    kind = "platform" if name == "python" else "library"
    return {
        "type": kind, "bom-ref": f"library-{name}", "name": name, "version": version, **package,
    }  # fmt: skip
