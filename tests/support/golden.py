"""Expected texts kept in files: tests/golden/<path of the test>/<name of the test>.txt."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[1]


@dataclass
class Golden:
    """The `golden` fixture: `golden(text)` compares the whole text with the file of the running test.

    A test that compares several texts gives each a `part`: `golden(after, "after")`. A missing file fails;
    `pytest --update-golden` writes it.
    """

    test_file: Path
    test_name: str
    update: bool
    root: Path = TESTS
    _seen: set[str] = field(default_factory=set)

    def path(self, part: str = "") -> Path:
        """The file that holds the expected text of `part`."""
        folder = self.test_file.relative_to(self.root).with_suffix("")
        name = re.sub(r"[^\w.+=-]+", "-", self.test_name).strip("-")
        return self.root / "golden" / folder / f"{name}{'.' if part else ''}{part}.txt"

    def __call__(self, text: str, part: str = "") -> None:
        """Fail unless `text` equals the file (both with one newline at the end)."""
        assert part not in self._seen, f"golden part '{part}' is used twice in one test"
        self._seen.add(part)
        path = self.path(part)
        actual = text.rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        shown = path.relative_to(self.root.parent)
        assert path.exists(), f"{shown} is missing; write it with --update-golden, then read it"
        expected = path.read_text(encoding="utf-8")
        if actual != expected:
            lines = difflib.unified_diff(
                expected.splitlines(), actual.splitlines(), str(shown), "this run", lineterm=""
            )
            raise AssertionError("text differs from its golden file\n" + "\n".join(lines))
