"""Who may import whom: DESIGN section 2 as a table. Imports inside functions and under TYPE_CHECKING count too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import ROOT

NOT_SHIPPED = ("tests", "docs", "examples", "build", "build_backend")
PACKAGING = ("setup.py",)

DRIVER = ("driver", "integrations", "bench", "tools", "cli", "__main__", "__init__")
ROOMS = ("base", "tensor_ir", "runtime", "graph_ir", "codegen", "frontend")

# Room -> what it may import of graphc; a dotted name opens that one module and no other of its room.
MAY_IMPORT = {
    "base": ("base",),
    "tensor_ir": ("base", "tensor_ir"),
    "runtime": ("base", "runtime"),
    "graph_ir": ("base", "graph_ir", "tensor_ir"),
    "codegen": ("base", "codegen", "tensor_ir", "runtime.abi", "runtime.artifact"),
    "frontend": ("base", "frontend", "graph_ir"),
    **dict.fromkeys(DRIVER, (*ROOMS, *DRIVER)),
}

CONTENDERS = ("onnxruntime", "openvino", "torch", "jax", "jaxlib")

# Room -> libraries beside the standard library.
OUTSIDE = {
    "base": ("numpy", "ml_dtypes"),
    "tensor_ir": ("numpy",),
    "runtime": ("numpy",),
    "graph_ir": ("numpy", "lark"),  # lark: the text of a graph
    "codegen": ("numpy", "llvmlite"),
    "frontend": ("numpy", "lark", "onnx", "google"),  # google.protobuf: the errors onnx raises
    **dict.fromkeys(DRIVER, ("numpy", "rich")),
    "integrations": ("numpy", "jax"),
    "tools": ("numpy", "rich", "ml_dtypes"),  # the precision of each type
    "bench": ("numpy", "rich", "onnx", *CONTENDERS),
}

OBJECT_LOADER_LIBRARY = "llvmlite.binding"  # for one file of runtime
DYNAMIC = ("import_module", "__import__")


def violations(root: Path) -> list[str]:
    """Every import under `root` that the tables forbid, as `file:line: tensor_ir must not import codegen`."""
    found: list[str] = []
    loaders: set[str] = set()
    for path in _sources(root):
        file = path.relative_to(root).as_posix()
        room = path.relative_to(root).parts[0].removesuffix(".py")
        if room not in MAY_IMPORT:
            found.append(f"{file}:1: '{room}' is not a room of DESIGN section 2")
            continue
        for line, module in _imports(path, root):
            if room == "runtime" and _within(module, OBJECT_LOADER_LIBRARY):
                loaders.add(file)
            elif not _allowed(room, module):
                found.append(f"{file}:{line}: {room} must not import {_shown(module)}")
    if len(loaders) > 1:
        found.append(f"{', '.join(sorted(loaders))}: one file of runtime may import llvmlite")
    return found


def _sources(root: Path) -> Iterator[Path]:
    for path in sorted(root.glob("**/*.py")):
        inside = path.relative_to(root)
        hidden = any(part.startswith(".") for part in inside.parts)
        if not hidden and inside.parts[0] not in NOT_SHIPPED and inside.as_posix() not in PACKAGING:
            yield path


def _imports(path: Path, root: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of each import; modules of this package start with `graphc`."""
    package = ("graphc", *path.relative_to(root).parent.parts)
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            for alias in node.names:
                # `from ..codegen import jit` and `from ..errors import UserError` look alike: keep the longest.
                yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            if name in DYNAMIC:
                yield node.lineno, f"{name}()"


def _allowed(room: str, module: str) -> bool:
    if module.startswith("graphc.") or module == "graphc":
        inside = module.removeprefix("graphc").removeprefix(".")
        if inside == "__version__":
            return room in DRIVER
        return any(_within(inside, door) for door in MAY_IMPORT[room])
    if module.endswith("()"):
        return room in DRIVER
    return module.split(".")[0] in (*sys.stdlib_module_names, *OUTSIDE[room])


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _shown(module: str) -> str:
    """The room or library to name in a message; two parts where a room has doors."""
    parts = module.removeprefix("graphc.").split(".")
    return ".".join(parts[: 2 if parts[0] == "runtime" else 1])


def test_rooms_import_only_what_the_design_allows() -> None:
    assert violations(ROOT) == []


def test_every_room_exists() -> None:
    assert all(
        (ROOT / room / "__init__.py").exists() for room in (*ROOMS, "driver", "integrations")
    )


PLANTED = {
    "tensor_ir imports codegen": (
        "tensor_ir/passes/unroll.py",
        "import numpy\n\n\ndef f():\n    from ...codegen import jit\n",
        "tensor_ir/passes/unroll.py:5: tensor_ir must not import codegen",
    ),
    "a room as a name": (
        "graph_ir/ir/graph.py",
        "from ... import runtime\n",
        "graph_ir/ir/graph.py:1: graph_ir must not import runtime",
    ),
    "an absolute import": (
        "frontend/onnx/reader.py",
        "import graphc.tensor_ir.nodes\n",
        "frontend/onnx/reader.py:1: frontend must not import tensor_ir",
    ),
    "under TYPE_CHECKING": (
        "runtime/executor.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..graph_ir.graph import Graph\n",
        "runtime/executor.py:3: runtime must not import graph_ir",
    ),
    "another door of runtime": (
        "codegen/jit.py",
        "from ..runtime import abi, artifact\nfrom ..runtime.executor import CompiledModel\n",
        "codegen/jit.py:2: codegen must not import runtime.executor",
    ),
    "a leaf looks up": (
        "base/target.py",
        "from ..codegen import host\n",
        "base/target.py:1: base must not import codegen",
    ),
    "llvmlite in graph_ir": (
        "graph_ir/ops/matmul.py",
        "import llvmlite.binding as llvm\n",
        "graph_ir/ops/matmul.py:1: graph_ir must not import llvmlite",
    ),
    "onnx in the driver": (
        "driver/compiler.py",
        "import onnx\n",
        "driver/compiler.py:1: driver must not import onnx",
    ),
    "rich in frontend": (
        "frontend/progress.py",
        "from rich.progress import Progress\n",
        "frontend/progress.py:1: frontend must not import rich",
    ),
    "dynamic": (
        "graph_ir/ir/registry.py",
        "import importlib\nimportlib.import_module('graphc.codegen')\n",
        "graph_ir/ir/registry.py:2: graph_ir must not import import_module()",
    ),
    "a room nobody planned": (
        "helpers/text.py",
        "",
        "helpers/text.py:1: 'helpers' is not a room of DESIGN section 2",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_violation_is_the_only_one_found(planted: str, tmp_path: Path) -> None:
    file, source, message = PLANTED[planted]
    _write(tmp_path, {file: source})
    assert violations(tmp_path) == [message]


def test_a_second_loader_of_objects_is_found(tmp_path: Path) -> None:
    source = "from llvmlite import binding\n"
    _write(tmp_path, {"runtime/loader.py": source})
    assert violations(tmp_path) == []
    _write(tmp_path, {"runtime/memory.py": source})
    assert violations(tmp_path) == [
        "runtime/loader.py, runtime/memory.py: one file of runtime may import llvmlite"
    ]


def test_what_the_design_allows_passes(tmp_path: Path) -> None:
    allowed = {
        "base/errors.py": "",
        "tensor_ir/nodes.py": "import ast\nimport numpy as np\nfrom ..base.dtypes import F32\nfrom . import text\n",
        "graph_ir/ops/matmul.py": "from ...tensor_ir import nodes\nfrom ..ir.graph import Op\n",
        "codegen/jit.py": "from llvmlite import binding\nfrom ..runtime.abi import ENTRY\n",
        "frontend/onnx/reader.py": "import lark, onnx\nfrom ...graph_ir.graph import Graph\n",
        "bench/peers.py": "import openvino\nfrom rich.table import Table\nfrom .. import driver, __version__\n",
        "tests/test_all.py": "import anything\n",
        "setup.py": "import setuptools\n",
    }
    _write(tmp_path, allowed)
    assert violations(tmp_path) == []


def _write(root: Path, files: dict[str, str]) -> None:
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
