"""GRAPHC_LOG, and that nothing is printed without it."""

from __future__ import annotations

import logging
import re

import pytest

from graphc.base.errors import UserError
from graphc.cli.log_levels import parse_levels
from graphc.graph_ir.passes.pipeline import PIPELINE
from support.process import ROOT, run_cli, run_python

MLP = str(ROOT / "examples" / "mlp.onnx")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("fuse=debug,codegen", {"graphc.fuse": logging.DEBUG, "graphc.codegen": logging.DEBUG}),
        ("info", {"graphc": logging.INFO}),
        (" fuse=error , ", {"graphc.fuse": logging.ERROR}),
    ],
)
def test_names_and_levels(text: str, expected: dict[str, int]) -> None:
    assert parse_levels(text) == expected


@pytest.mark.parametrize("text", ["fuse=loud", "fuse=", "a=b=c"])
def test_a_wrong_level_is_told(text: str) -> None:
    with pytest.raises(UserError, match="level must be one of debug, info, warning, error"):
        parse_levels(text)


def test_only_what_is_requested_is_printed() -> None:
    done = run_cli("compile", MLP, "-q", env={"GRAPHC_LOG": "fuse=debug,codegen"})
    assert done.returncode == 0, done.stderr
    assert {line.split(":")[0] for line in done.stderr.splitlines()} == {
        "graphc.fuse",
        "graphc.codegen",
    }
    assert "anchor fc1" in done.stderr
    typo = run_cli("doctor", env={"GRAPHC_LOG": "fuze=debug"})
    assert (typo.returncode, typo.stderr) == (
        2, "graphc: error: GRAPHC_LOG: 'fuze' is neither a pass nor a logger; did you mean 'fuse'?\n"
    )  # fmt: skip
    wrong = run_cli("doctor", env={"GRAPHC_LOG": "fuse=loud"})
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_every_logger_is_in_the_docs_and_passes_and_stages_log() -> None:
    """Passes log under their own names; the others are literals in the sources."""
    rooms = [
        p for p in ROOT.rglob("*.py") if "tests" not in p.parts and ".mypy_cache" not in p.parts
    ]
    found = {
        name
        for path in rooms
        for name in re.findall(r'getLogger\("(graphc\.\w+)"\)', path.read_text())
    }
    page = (ROOT / "docs" / "tutorials" / "see_inside.md").read_text()
    assert found and found == set(re.findall(r"`(graphc\.[a-z]+)`", page)) - {"graphc.jax"}
    done = run_cli("compile", MLP, "-q", env={"GRAPHC_LOG": "debug", "GRAPHC_JOBS": "1"})
    printed = {line.split(":")[0] for line in done.stderr.splitlines()}
    stages = {f"graphc.{name}" for name in ("compiler", "lower", "loops", "codegen")}
    passes = {f"graphc.{step.__name__}" for step, _ in PIPELINE}
    assert stages <= printed and passes <= printed, (stages | passes) - printed


def test_the_library_prints_nothing_itself() -> None:
    script = f"import graphc; graphc.compile({MLP!r}).close()"
    done = run_python("-c", script, env={"GRAPHC_LOG": "debug"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
