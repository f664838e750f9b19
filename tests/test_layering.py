"""Import rules, as tables: rooms, the floors inside rooms, libraries; and no import circle anywhere.

Imports inside functions and under TYPE_CHECKING count too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.imports import circles, imports, module_name, sources
from support.process import ROOT

# Lowest first: each may import the rooms, and those before it. `graphc/__init__.py` opens all of them on demand.
DRIVER = ("driver", "language_models", "integrations", "bench", "tools", "lab", "cli", "__main__")
ROOMS = (
    "base", "targets", "tensor_ir", "runtime", "graph_ir", "codegen", "frontend", "extension", "shipping",
)  # fmt: skip

# Room -> what it may import of graphc; a dotted name opens that one module and no other of its room.
MAY_IMPORT = {
    "base": ("base",),
    "targets": ("base", "targets"),
    "tensor_ir": ("base", "targets", "tensor_ir"),
    "runtime": ("base", "targets", "runtime"),
    "graph_ir": ("base", "targets", "graph_ir", "tensor_ir"),
    "codegen": ("base", "targets", "codegen", "tensor_ir", "runtime.abi", "runtime.artifact"),
    "shipping": ("base", "targets", "shipping", "codegen", "tensor_ir", "runtime"),
    "frontend": ("base", "targets", "frontend", "graph_ir"),
    "extension": ("base", "targets", "extension", "frontend", "graph_ir", "tensor_ir"),
    **{room: (*ROOMS, *DRIVER[: floor + 1]) for floor, room in enumerate(DRIVER)},
    "__init__": (*ROOMS, *DRIVER),
}

# Floor of graph_ir, lowest first -> which of the others it may import.
GRAPH_FLOORS = {
    "ir": (),
    "text": ("ir",),
    "ops": ("ir",),
    "rewriting": ("ir", "text", "ops"),
    "nest": ("ir",),
    "schedule": ("ir", "text", "ops", "rewriting", "nest"),
    "templates": (
        "ir",
        "schedule",
        "nest",
    ),  # plain numbers, tiles and computations: they know no op
    "passes": ("ir", "text", "ops", "rewriting", "nest", "schedule"),
    "lowering": ("ir", "text", "ops", "rewriting", "schedule", "nest", "templates", "passes"),
    "inspect": (
        "ir",
        "text",
        "ops",
        "rewriting",
        "schedule",
        "nest",
        "templates",
        "passes",
        "lowering",
    ),
}

# Room -> its parts, lowest first: none may import a later one. "*": the parts that are not named.
ORDERED = {
    "tensor_ir": ("expressions", "nodes", "*", "passes", "pipeline"),
    "codegen": (
        "vector_ops", "math", "*", "llvm_emitter", "module", "kernel_parts", "kernel_worker", "kernel_pool",
    ),
    "runtime": ("abi", "*", "artifact", "travel", "native", "executor"),
    "frontend": ("*", "ge", "gguf", "hlo", "huggingface", "onnx", "pnnx", "torch", "tvm", "formats"),
}  # fmt: skip

# Parts that do not import each other; a folder stands for the modules in it.
INDEPENDENT = {
    "frontend": ("ge", "gguf", "hlo", "huggingface", "onnx", "pnnx", "torch", "tvm"),
    "graph_ir/passes": ("*",),
    "tensor_ir/passes": ("*",),
}
PIPELINES = ("graph_ir.passes.pipeline",)  # the one module of its folder that imports the others

CONTENDERS = ("onnxruntime", "openvino", "torch", "jax", "jaxlib")

# Room -> libraries beside the standard library.
OUTSIDE = {
    "base": ("numpy", "ml_dtypes"),
    "targets": (),
    "tensor_ir": ("numpy",),
    # ml_dtypes: types in DLPack that NumPy lacks; cryptography: signatures of artifacts
    "runtime": ("numpy", "ml_dtypes", "cryptography"),
    "graph_ir": ("numpy", "lark"),  # lark: the text of a graph
    "codegen": ("numpy", "llvmlite"),
    "shipping": ("numpy",),
    # google.protobuf: the errors onnx raises
    "frontend": ("numpy", "lark", "onnx", "google", "torch", "jax", "jaxlib"),
    "extension": ("numpy",),
    **dict.fromkeys((*DRIVER, "__init__"), ("numpy", "rich")),
    "language_models": ("numpy", "jinja2", "tokenizers"),
    "integrations": ("numpy", "jax", "mlserver", "onnx", "skl2onnx", "torch", "transformers"),
    # ml_dtypes: the precision of each type; onnx: random files of it
    "tools": ("numpy", "rich", "ml_dtypes", "onnx"),
    "lab": ("numpy", "onnx"),
    "bench": ("numpy", "rich", "onnx", *CONTENDERS, "torchvision", "timm", "transformers"),
}

# Files outside of targets/ that name an instruction set. The list may only shrink.
NAMES_OF_ISAS = re.compile("x86|avx", re.IGNORECASE)
NAME_AN_ISA: set[str] = set()

OBJECT_LOADER_LIBRARY = "llvmlite.binding"  # for one file of runtime


def violations(root: Path) -> list[str]:
    """Every import under `root` that the tables forbid, as `file:line: tensor_ir must not import codegen`."""
    found: list[str] = []
    loaders: set[str] = set()
    for path in sources(root):
        file = path.relative_to(root).as_posix()
        room = path.relative_to(root).parts[0].removesuffix(".py")
        if room not in MAY_IMPORT:
            found.append(f"{file}:1: '{room}' is not a room of docs/explanation/architecture.md")
            continue
        for line, module in imports(path, root):
            if room == "runtime" and _within(module, OBJECT_LOADER_LIBRARY):
                loaders.add(file)
            elif not _allowed(room, module):
                found.append(f"{file}:{line}: {room} must not import {_shown(module)}")
            elif _within(module, f"graphc.{room}"):
                found += _inside(file, line, module.removeprefix("graphc."), root)
    if len(loaders) > 1:
        found.append(f"{', '.join(sorted(loaders))}: one file of runtime may import llvmlite")
    return found


def _inside(file: str, line: int, module: str, root: Path) -> list[str]:
    """Return the violation of an import within a room, by the floors and parts of the room."""
    here, there = file.removesuffix(".py").split("/"), module.split(".")
    room, mine, other = here[0], here[1], there[1] if len(there) > 1 else "__init__"
    if room == "graph_ir" and mine != "__init__":
        if mine not in GRAPH_FLOORS:
            return [f"{file}:{line}: '{mine}' is not a floor of graph_ir"]
        if other != mine and other not in GRAPH_FLOORS[mine]:
            return [f"{file}:{line}: {room}.{mine} must not import {room}.{other}"]
    if room in ORDERED and _height(room, other) > _height(room, mine) and mine != "__init__":
        return [f"{file}:{line}: {room}.{mine} must not import {room}.{other}"]
    for folder, parts in INDEPENDENT.items():
        depth = folder.count("/") + 1
        if "/".join(here[:depth]) != folder or "/".join(there[:depth]) != folder:
            continue
        first, second = (where[depth] if len(where) > depth else "" for where in (here, there))
        named = {first, second} <= set(parts) or ("*" in parts and _is_module(root, folder, second))
        if named and first != second and ".".join(here) not in PIPELINES:
            return [f"{file}:{line}: {first} must not import {second}, its neighbor in {folder}"]
    return []


def _height(room: str, part: str) -> int:
    order = ORDERED[room]
    return order.index(part if part in order else "*")


def _is_module(root: Path, folder: str, name: str) -> bool:
    return (root / folder / f"{name}.py").exists() or name == ""


def _allowed(room: str, module: str) -> bool:
    if module.startswith("graphc.") or module == "graphc":
        inside = module.removeprefix("graphc").removeprefix(".")
        return any(_within(inside, door) for door in MAY_IMPORT[room])
    if module.endswith("()"):
        return room in (*DRIVER, "__init__")
    return module.split(".")[0] in (*sys.stdlib_module_names, *OUTSIDE[room])


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _shown(module: str) -> str:
    """The room or library to name in a message; two parts where a room has doors."""
    parts = module.removeprefix("graphc.").split(".")
    return ".".join(parts[: 2 if parts[0] == "runtime" else 1])


def test_rooms_import_only_what_the_design_allows() -> None:
    assert violations(ROOT) == []


def test_one_room_names_instruction_sets() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in sources(ROOT)
        if path.relative_to(ROOT).parts[0] != "targets"
        and NAMES_OF_ISAS.search(path.read_text(encoding="utf-8"))
    }
    assert found == NAME_AN_ISA


def test_no_module_imports_itself_through_others() -> None:
    assert circles(ROOT) == []


def test_every_floor_exists() -> None:
    assert {path.parent.name for path in (ROOT / "graph_ir").glob("*/__init__.py")} == set(
        GRAPH_FLOORS
    )
    for room, parts in ORDERED.items():
        for part in parts:
            file = ROOT / room / part
            assert part == "*" or file.with_suffix(".py").exists() or file.is_dir(), (
                f"{room}/{part}"
            )


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
    "measurements look at tools": (
        "bench/light_cases.py",
        "from ..tools.compare import compare\n",
        "bench/light_cases.py:1: bench must not import tools",
    ),
    "the driver looks at a measurement": (
        "driver/tuning.py",
        "def f():\n    from ..bench.peak import measured_peak\n",
        "driver/tuning.py:2: driver must not import bench",
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
        "helpers/text.py:1: 'helpers' is not a room of docs/explanation/architecture.md",
    ),
}


PLANTED |= {
    "an op looks at its lowering": (
        "graph_ir/ops/matmul.py",
        "def get_func():\n    from ..lowering.matmul import matmul_function\n",
        "graph_ir/ops/matmul.py:2: graph_ir.ops must not import graph_ir.lowering",
    ),
    "the graph looks at a schedule, for its types only": (
        "graph_ir/ir/graph.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..schedule.context import LowerContext\n",
        "graph_ir/ir/graph.py:3: graph_ir.ir must not import graph_ir.schedule",
    ),
    "a template knows an op": (
        "graph_ir/templates/joined.py",
        "from ..ops.movement import Concat\n",
        "graph_ir/templates/joined.py:1: graph_ir.templates must not import graph_ir.ops",
    ),
    "a template looks at rewriting": (
        "graph_ir/templates/joined.py",
        "from ..rewriting import groups\n",
        "graph_ir/templates/joined.py:1: graph_ir.templates must not import graph_ir.rewriting",
    ),
    "a schedule looks at lowering": (
        "graph_ir/schedule/matmul.py",
        "from ..lowering.matmul import matmul_function\n",
        "graph_ir/schedule/matmul.py:1: graph_ir.schedule must not import graph_ir.lowering",
    ),
    "rewriting looks at a pass": (
        "graph_ir/rewriting/groups.py",
        "from ..passes.fuse import fuse\n",
        "graph_ir/rewriting/groups.py:1: graph_ir.rewriting must not import graph_ir.passes",
    ),
    "a pass builds loops": (
        "graph_ir/passes/fuse.py",
        "from ..templates.loops import loop_nest\n",
        "graph_ir/passes/fuse.py:1: graph_ir.passes must not import graph_ir.templates",
    ),
    "a floor nobody planned": (
        "graph_ir/tricks/cut.py",
        "from ..ir import graph\n",
        "graph_ir/tricks/cut.py:1: 'tricks' is not a floor of graph_ir",
    ),
    "nodes look up": (
        "tensor_ir/nodes.py",
        "from .printer import show\n",
        "tensor_ir/nodes.py:1: tensor_ir.nodes must not import tensor_ir.printer",
    ),
    "an analysis looks at a pass": (
        "tensor_ir/analysis.py",
        "from .passes.unroll import unroll\n",
        "tensor_ir/analysis.py:1: tensor_ir.analysis must not import tensor_ir.passes",
    ),
    "vector math looks at the emitter": (
        "codegen/math/exp.py",
        "from ..llvm_emitter import Emitter\n",
        "codegen/math/exp.py:1: codegen.math must not import codegen.llvm_emitter",
    ),
    "an artifact that runs": (
        "runtime/artifact.py",
        "from .executor import CompiledModel\n",
        "runtime/artifact.py:1: runtime.artifact must not import runtime.executor",
    ),
    "what formats share knows one of them": (
        "frontend/op_builder.py",
        "from .onnx import reader\n",
        "frontend/op_builder.py:1: frontend.op_builder must not import frontend.onnx",
    ),
    "a format imports another": (
        "frontend/tvm/reader.py",
        "from ..onnx.reader import read\n",
        "frontend/tvm/reader.py:1: tvm must not import onnx, its neighbor in frontend",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_violation_is_the_only_one_found(planted: str, tmp_path: Path) -> None:
    file, source, message = PLANTED[planted]
    _write(tmp_path, {file: source})
    assert violations(tmp_path) == [message]


def test_a_pass_that_imports_another_is_found_and_the_pipeline_may(tmp_path: Path) -> None:
    for room in ("graph_ir", "tensor_ir"):
        fuse, plan, pipeline = (f"{room}/passes/{x}.py" for x in ("fuse", "plan", "pipeline"))
        imports = "from .fuse import fuse\n"
        _write(tmp_path / room, {fuse: "", plan: imports})
        message = f"{plan}:1: plan must not import fuse, its neighbor in {room}/passes"
        assert violations(tmp_path / room) == [message]
    _write(tmp_path, {"graph_ir/passes/fuse.py": "", "graph_ir/passes/pipeline.py": imports})
    assert "pipeline" not in " ".join(violations(tmp_path))


CIRCLES = {
    "two modules": {"base/a.py": "from .b import x\n", "base/b.py": "from . import a\n"},
    "inside a function": {
        "base/a.py": "from .b import x\n",
        "base/b.py": "def f():\n    from .a import y\n",
    },
    "for types only": {
        "base/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import x\n",
        "base/b.py": "from .a import y\n",
    },
    "through another room": {
        "base/a.py": "from ..cli.c import x\n",
        "cli/c.py": "from ..driver.b import y\n",
        "driver/b.py": "import graphc.base.a\n",
    },
    "through a package": {
        "base/__init__.py": "from .a import x\n",
        "base/a.py": "from . import y\n",
    },
}


@pytest.mark.parametrize("planted", CIRCLES)
def test_a_planted_circle_is_found(planted: str, tmp_path: Path) -> None:
    _write(tmp_path, {"base/lone.py": "from . import two\n", "base/two.py": "", **CIRCLES[planted]})
    modules = (module_name(tmp_path / file, tmp_path) for file in CIRCLES[planted])
    assert circles(tmp_path) == [tuple(sorted(modules))]


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
        "tensor_ir/nodes.py": "import ast\nimport numpy as np\nfrom ..base.dtypes import F32\n",
        "graph_ir/ops/matmul.py": "from ...tensor_ir import nodes\nfrom ..ir.graph import Op\n",
        "codegen/jit.py": "from llvmlite import binding\nfrom ..runtime.abi import ENTRY\n",
        "frontend/onnx/reader.py": "import lark, onnx\nfrom ...graph_ir.graph import Graph\n",
        "bench/peers.py": "import openvino\nfrom rich.table import Table\nfrom .. import driver\n",
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
