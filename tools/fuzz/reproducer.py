"""A failing case as files: the model as text, its inputs, the setting, and the command that shows the failure again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ...base.errors import UserError
from ...base.whole_file import make_folder, write_array, write_file
from ...graph_ir.text.printer import print_graph
from .case import Case, FileCase
from .outcome import Outcome

CASE_FILE, GRAPH_FILE, MODEL_FILE, TEXT_FILE = (
    "case.json",
    "model.graph",
    "model.onnx",
    "outcome.txt",
)


def write_reproducer(folder: Path, case: Case | FileCase, outcome: Outcome) -> str:
    """Write the case; returns the command that runs it again. Raise UserError if the system refuses it."""
    command = f"graphc dev fuzz --replay {folder}"
    text = (
        f"{outcome.kind} at {outcome.stage}: {outcome.message}\n{case.setting.words()}\n{command}\n"
    )
    make_folder(folder)
    if isinstance(case, FileCase):
        write_file(folder / MODEL_FILE, case.model)
    else:
        write_file(folder / GRAPH_FILE, print_graph(case.graph, full=True))
    write_file(folder / TEXT_FILE, text)
    write_file(folder / CASE_FILE, json.dumps(case.to_json()) + "\n")
    for number, array in enumerate(case.arrays):
        write_array(folder / f"input_{number}.npy", array)
    return command


def read_reproducer(folder: Path) -> Case | FileCase:
    """The case in a folder; its model is that of the file beside it, which may have been edited. May raise
    UserError."""
    try:
        facts = json.loads((folder / CASE_FILE).read_text(encoding="utf-8"))
        if "model" in facts:
            return replace(FileCase.from_json(facts), model=(folder / MODEL_FILE).read_bytes())
        facts["graph"] = (folder / GRAPH_FILE).read_text(encoding="utf-8")
        return Case.from_json(facts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"'{folder}' holds no case of graphc dev fuzz ({error}); give the folder it wrote"
        ) from error
