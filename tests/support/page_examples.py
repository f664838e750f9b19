"""The marked blocks of a page of documentation, as a program with the line numbers of the page."""

from __future__ import annotations

from dataclasses import dataclass

MARKER = "<!-- run -->"
OUTPUT = "<!-- output -->"
LANGUAGES = {
    MARKER: {"python": "python", "sh": "sh", "bash": "sh"},
    OUTPUT: {"text": "output"},
}
SEPARATOR = "\x1e"  # ASCII's record separator: printed after each Python block


@dataclass(frozen=True)
class Example:
    """A marked block: its language (`output` for what is printed), the line it starts on (from 1) and its lines."""

    language: str
    line: int
    lines: list[str]


def examples(markdown: str) -> list[Example]:
    """The marked blocks. Raise ValueError for a marker without a block after it, or a language nobody runs."""
    found = []
    lines = markdown.splitlines()
    for number, line in enumerate(lines):
        marker = line.strip()
        if marker not in LANGUAGES:
            continue
        fence = lines[number + 1] if number + 1 < len(lines) else ""
        language = fence.removeprefix("```").strip()
        if not fence.startswith("```") or language not in LANGUAGES[marker]:
            wanted = " or ".join(LANGUAGES[marker])
            raise ValueError(f"line {number + 1}: {marker} needs a {wanted} block after it")
        body = lines[number + 2 :]
        if "```" not in body:
            raise ValueError(f"line {number + 2}: the block does not end")
        text = body[: body.index("```")]
        found.append(Example(LANGUAGES[marker][language], number + 3, text))
    return found


def program(blocks: list[Example], after_each: str = "") -> str:
    """The blocks as one text in which every line has the number it has in the document.

    `after_each` stands where the document has the fence that ends a block.
    """
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines)) + block.lines + [after_each]
    return "\n".join(lines) + "\n"
