"""The table of switches: complete, and each switch with a test that exists."""

from __future__ import annotations

import ast

import pytest

from graphc.base.options import SWITCHES
from graphc.cli import main
from graphc.cli.switches import VARIANTS, switch_page
from support.process import ROOT


@pytest.mark.parametrize("name", SWITCHES)
def test_the_named_test_exists_and_is_about_the_switch(name: str) -> None:
    file, _, function = SWITCHES[name].test.partition("::")
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    functions = {x.name for x in ast.walk(ast.parse(source)) if isinstance(x, ast.FunctionDef)}
    assert function in functions and f'"{name}"' in source


def test_the_table_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compile", "-X", "help"])
    assert stop.value.code == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [*(f"no-{name}" for name in SWITCHES), *VARIANTS]


def test_the_page_is_the_one_of_the_docs(pytestconfig: pytest.Config) -> None:
    path = ROOT / "docs" / "reference" / "switches.md"
    if pytestconfig.getoption("--update-golden"):
        path.write_text(switch_page(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == switch_page(), "write it with --update-golden"
