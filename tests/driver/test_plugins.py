"""Plugins: files and modules named on the command line, and entry points of installed packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.driver.plugins import load_plugin
from graphc.graph_ir.text.printer import print_graph
from support.process import run_cli, run_python
from support.user_ops import graph_with

FACTOR = "FACTOR = {0}\n"
PLUGIN = """
import numpy as np
import graphc
from graphc.base.dtypes import F32
from graphc.tensor_ir import builder as t
from factor import FACTOR

graphc.ops.define(
    "scaled", "x times a factor.", infer=lambda x: x, reference=lambda x: x * np.float32(FACTOR),
    compose=lambda make, x: make("mul", x, make.scalar(FACTOR, F32)),
)

@graphc.kernel("scaled", when=lambda op, target: op.x.details.rank == 2)
def scaled_rows(b, op, x, y):
    with b.loop("i", 0, x.shape[0], "parallel") as i, b.loop("j", 0, x.shape[1], "vector") as j:
        b.store(y, (i, j), x[i, j] * KERNEL_FACTOR)

KERNEL_FACTOR = FACTOR

@graphc.graph_pass(before="decompose")
def seen(graph, ctx):
    print("seen", graph.name)
    return False
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "factor.py").write_text(FACTOR.format(2.0))
    (tmp_path / "my_ops.py").write_text(PLUGIN)
    (tmp_path / "m.graph").write_text(model())
    return tmp_path


def model() -> str:
    """The text of a graph with an op that this process does not keep."""
    return print_graph(graph_with("neg"), full=True).replace("type=neg", "type=scaled")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["my_ops.py", "my_ops"])
def test_commands_load_files_and_modules(plugin: Path, name: str) -> None:
    env = {"PYTHONPATH": f"{plugin}:{_path()}"}
    words = ("m.graph", "--plugin", name, "--jobs", "2", "--run", "--threads", "1", "-v")
    done = run_cli("compile", *words, cwd=plugin, env=env)
    assert done.returncode == 0, done.stderr
    assert "seen m" in done.stdout and "op [kernel scaled_rows]" in done.stdout


def test_verify_and_explain_know_the_kernel(plugin: Path) -> None:
    done = run_cli("dev", "verify", "m.graph", "--plugin", "my_ops.py", cwd=plugin)
    assert done.returncode == 0, done.stderr
    assert "kernel_call op.scaled_rows" in done.stdout and "0 mismatches" in done.stdout
    done = run_cli("explain", "m.graph", "op", "--plugin", "my_ops.py", cwd=plugin)
    assert done.returncode == 0, done.stderr
    assert "the kernel 'scaled_rows' of user code accepts it" in " ".join(done.stdout.split())
    wrong = PLUGIN.replace("KERNEL_FACTOR = FACTOR", "KERNEL_FACTOR = FACTOR + 1")
    (plugin / "my_ops.py").write_text(wrong)
    done = run_cli("dev", "verify", "m.graph", "--plugin", "my_ops.py", cwd=plugin)
    assert done.returncode == 1 and "1 mismatches" in done.stdout


def test_a_changed_plugin_is_compiled_anew(plugin: Path) -> None:
    env = {"GRAPHC_CACHE_DIR": str(plugin / "cache")}
    words = ("compile", "m.graph", "--plugin", "my_ops.py")
    found = []
    for factor in (2.0, 2.0, 3.0):
        (plugin / "factor.py").write_text(FACTOR.format(factor))
        done = run_cli(*words, cwd=plugin, env={**env, "PYTHONDONTWRITEBYTECODE": "1"})
        assert done.returncode == 0, done.stderr
        found.append("had it" in done.stdout)
    assert found == [False, True, False]


INSTALLED = """
import graphc
from graphc.base.dtypes import F32
graph = graphc.Graph("m")
x = graph.make_input(graphc.ops.LogicalTensor(F32, (2, 3)), "x")
graph.make_output(graph.make("scaled", [x]).outputs[0])
"""


@pytest.mark.parametrize("entry", ["my_ops", "my_ops:register"])
def test_an_installed_package_offers_ops(plugin: Path, entry: str) -> None:
    if ":" in entry:
        lines = "".join(f"    {line}\n" for line in PLUGIN.splitlines())
        (plugin / "my_ops.py").write_text(f"def register():\n{lines}")
    install(plugin, entry)
    env = {"PYTHONPATH": f"{plugin}:{_path()}"}
    done = run_python("-c", INSTALLED, env=env)
    assert done.returncode == 0, done.stderr
    done = run_python("-c", INSTALLED, env={**env, "GRAPHC_PLUGINS": ""})
    assert "op 'scaled' is not in the registry" in done.stderr


def test_an_installed_package_that_cannot_be_loaded_is_named_each_time(plugin: Path) -> None:
    install(plugin, "nowhere")
    env = {"PYTHONPATH": f"{plugin}:{_path()}"}
    again = "import graphc\nfor _ in range(2):\n    try:\n        graphc.Graph('m').make('relu')\n" \
        "    except graphc.UserError as error:\n        print(error)\n"  # fmt: skip
    message = (
        "plugin 'mine' of package my-ops cannot be loaded (ModuleNotFoundError: No module named 'nowhere'); uninstall "
        "it, or set GRAPHC_PLUGINS= to load none\n"
    )
    assert run_python("-c", again, env=env).stdout == message * 2


def install(folder: Path, entry: str) -> None:
    info = folder / "my_ops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-ops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[graphc.plugins]\nmine = {entry}\n")


def _path() -> str:
    return ":".join(path for path in sys.path if path)


def test_importing_graphc_looks_for_no_plugins() -> None:
    program = "import graphc, sys; print('graphc.driver.plugins' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_what_cannot_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("1 / 0\n")
    (tmp_path / "declares.py").write_text("import graphc\ngraphc.ops.define('relu', 'm')\n")
    cases = {
        "missing.py": "plugin 'missing.py' must be a Python file or a module, and there is none; check its path",
        "no_module": "plugin 'no_module' raised ModuleNotFoundError: No module named 'no_module'; fix it",
        f"{tmp_path}/raises.py": f"plugin '{tmp_path}/raises.py' raised ZeroDivisionError: division by zero; fix it",
        f"{tmp_path}/declares.py": (
            f"plugin '{tmp_path}/declares.py': op 'relu' must have a unique name: graphc has an op of this name"
        ),
    }
    for name, message in cases.items():
        with pytest.raises(UserError) as caught:
            load_plugin(name)
        assert str(caught.value) == message
