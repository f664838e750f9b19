"""A problem as a folder that one can edit: every stage of its kernel, a harness in C, inputs and right results.

problem.json                 the problem, target and schedule
0_lowered.tir ... 7_*.tir    Tensor IR as lowered and after each pass that changed it
kernel.ll kernel.s kernel.o  LLVM IR, assembly and object code of the last
kernel.gcm                   the compiled program, which an edited stage replaces the code of
harness.c Makefile data/     `make run` builds the object into a program that checks and times it, on one thread
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..base.errors import InternalError, UserError
from ..base.file_errors import unreadable
from ..base.records import dataclass
from ..base.whole_file import make_folder, write_file
from ..codegen.aot import assembly, compile_to_object, compile_to_part, one_section
from ..codegen.module import emit_module
from ..driver.stages import Compilation
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.rewriting.known_sizes import with_sizes
from ..runtime.artifact import Artifact
from ..targets.isa import Target
from ..tensor_ir.nodes import Module
from ..tensor_ir.parser import parse_module
from ..tensor_ir.pipeline import PASSES, run
from ..tensor_ir.printer import print_module
from ..tensor_ir.verifier import verify
from .assembled import assembled
from .harness import harness, makefile
from .problem import Problem
from .program import Array
from .trial import Bench, build

FACTS, PROGRAM, LLVM, ASSEMBLY, OBJECT = (
    "problem.json", "kernel.gcm", "kernel.ll", "kernel.s", "kernel.o",
)  # fmt: skip
DATA = "data"
LOWERED = "lowered"


def write_folder(
    folder: Path, problem: Problem, bench: Bench, schedule: Schedule | None = None
) -> Compilation:
    """Write all of it, with inputs and results of the largest sizes. Raise UserError if the folder has files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--export needs a new or empty folder, '{folder}' is not; name another")
    compilation = build(problem, bench, schedule)
    sizes = problem.sizes[-1]
    arrays = problem.arrays(sizes)
    expected = with_sizes(compilation.source, sizes).evaluate([*arrays.values()])
    make_folder(folder / DATA)
    facts = {
        "problem": problem.text, "target": bench.target.isa, "cpu": bench.target.cpu,
        "features": bench.target.features, "sizes": dict(sizes), "schedule": str(schedule or ""),
    }  # fmt: skip
    texts = {
        **_texts(compilation),
        FACTS: json.dumps(facts, indent=2) + "\n",
        "harness.c": harness(compilation.artifact, [*arrays.values()], expected, sizes),
        "Makefile": makefile(),
    }
    for name, text in texts.items():
        write_file(folder / name, text)
    write_file(folder / OBJECT, compile_to_part(compilation.llvm_ir, compilation.target))
    _write_data(folder / DATA, compilation.artifact, [*arrays.values()], expected)
    compilation.artifact.save(folder / PROGRAM)
    return compilation


def _texts(compilation: Compilation) -> dict[str, str]:
    lowered = compilation.lowered.module
    texts = {f"0_{LOWERED}.tir": print_module(lowered)}

    def keep(position: int, name: str, module: Module, changed: bool) -> None:
        if changed:
            texts[f"{position + 1}_{name}.tir"] = print_module(module)

    run(lowered, compilation.target, keep)
    texts[LLVM] = compilation.llvm_ir
    texts[ASSEMBLY] = assembly(compilation.llvm_ir, compilation.target)
    return texts


def _write_data(
    folder: Path, artifact: Artifact, inputs: list[Array], expected: list[Array]
) -> None:
    write_file(folder / "constants.bin", artifact.constants.tobytes())
    for letter, arrays in (("x", inputs), ("y", expected)):
        for number, array in enumerate(arrays):
            write_file(folder / f"{letter}{number}.bin", np.ascontiguousarray(array).tobytes())


@dataclass(frozen=True)
class Version:
    """An exported problem with the code of one stage."""

    label: str
    problem: str
    sizes: Mapping[str, int]
    artifact: Artifact


def read_version(name: str, target: Target) -> Version:
    """Return what `DIR` or `DIR:STAGE` names, built from that stage: a file of the folder, by its name or ending.

    Without a stage, the file edited last, or the object code as exported. Raise UserError if it cannot be built.
    """
    path, colon, stage = name.rpartition(":")
    folder = Path(path if colon else name)
    if not (folder / FACTS).is_file():
        raise UserError(
            f"'{folder}' must be a folder that `graphc dev kernel PROBLEM --export DIR` wrote"
        )
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        file = _stage_file(folder, stage if colon else "")
        content = file.read_bytes()
        exported = Artifact.load(folder / PROGRAM)
        kind = replace(target, isa=facts["target"], cpu=facts["cpu"], features=facts["features"])
        problem, sizes = str(facts["problem"]), dict(facts["sizes"])
    except OSError as error:
        raise unreadable(folder, error) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"'{folder / FACTS}' is corrupt ({error}); export the problem again"
        ) from error
    code = _built(file, content, kind)
    artifact = replace(exported, object_code=code, vector_code=b"")
    return Version(f"{folder}:{file.name}", problem, sizes, artifact)


def _stage_file(folder: Path, stage: str) -> Path:
    files = [folder / OBJECT, folder / ASSEMBLY, folder / LLVM, *sorted(folder.glob("*.tir"))]
    if not stage:
        exported = (folder / FACTS).stat().st_mtime_ns
        edited = [file for file in files[1:] if file.stat().st_mtime_ns > exported]
        return max(edited, key=lambda file: file.stat().st_mtime_ns, default=files[0])
    found = [file for file in files if stage in (file.name, file.suffix[1:])]
    if not found:
        raise UserError(
            f"'{folder}' has no stage '{stage}'; it has {', '.join(file.name for file in files)}"
        )
    return found[0]


def _built(file: Path, content: bytes, target: Target) -> bytes:
    """Return the object code of a stage, which may have been edited. UserError naming the file if it is wrong."""
    if file.suffix == ".o":
        return one_section(content)
    try:
        text = content.decode()
        if file.suffix == ".s":
            return assembled(text, target)
        if file.suffix == ".tir":
            text = emit_module(_finished(text, int(file.name.partition("_")[0]), target), target)
        return compile_to_object(text, target)
    except (UserError, InternalError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: {error}") from error


def _finished(text: str, position: int, target: Target) -> Module:
    """Return Tensor IR that was written behind a number of passes after the others."""
    module = verify(parse_module(text))
    for one in PASSES[position:]:
        module = one(module, target)
    return module
