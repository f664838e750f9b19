"""The notebooks run from top to bottom, and their cells show tables."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from support.process import ROOT
from support.roofs import plant_roofs

SHOWN = {
    "explore": ["Graph", "CompiledModel", "Graph", "Profile", "KernelTime"],
    "optimize_matmul": ["Walk"] * 8,
}


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; return the value of its last line, an expression."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    update = pytestconfig.getoption("--update-golden")
    if not update:
        plant_roofs(monkeypatch, tmp_path)
    monkeypatch.chdir(ROOT / "examples")
    file = ROOT / "examples" / f"{name}.ipynb"
    book = json.loads(file.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown = []
    for number, cell in enumerate((c for c in book["cells"] if c["cell_type"] == "code"), 1):
        value = run_cell("".join(cell["source"]), names)
        html = value._repr_html_()
        shown.append(type(value).__name__)
        if update:
            data = {"text/html": html, "text/plain": type(value).__name__}
            result = {"data": data, "execution_count": number, "metadata": {}}
            cell["outputs"] = [{"output_type": "execute_result", **result}]
            cell["execution_count"] = number
        (stored,) = cell["outputs"]
        assert "<table>" in stored["data"]["text/html"] and "<table>" in html
    assert shown == SHOWN[name]
    if update:
        file.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
