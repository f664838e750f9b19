"""docs/reference/format_apis.md: each feature of the formats' documents has a command that the page runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "format_apis.md").read_text(
    encoding="utf-8"
)
RUN = re.findall(r"<!-- run -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
FEATURES = [row for row in ROWS if row != ["the document", "here"]]


def test_there_is_a_table_for_each_document():
    assert len(ROWS) - len(FEATURES) == len(re.findall(r"^## ", PAGE, re.MULTILINE)) == 5


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row[0][:40])
def test_every_line_has_commands_that_run(row: list[str]):
    commands = re.findall(r"`([^`]+)`", row[-1])
    missing = [one for one in commands if not any(one in block for block in RUN)]
    assert commands and not missing
