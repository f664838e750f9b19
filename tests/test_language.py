"""Words and name patterns to avoid (docs/style.md): none may be anywhere in sources, tests and pages.

A use that is right is exempt by rule, in the pattern, with its reason beside it; no file is exempt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import ROOT

SUFFIXES = (".py", ".md", ".sh", ".js", ".css", ".toml", ".lark", "")
SKIPPED = ("build", "dist", "venv", "tests/golden", "docs/style.md", "tests/test_language.py", "LICENSE")  # fmt: skip
MAX_BYTES = 1_000_000

PATTERNS = {
    # name -> (a text that is present wherever the pattern matches, the pattern), both in lower case. A letter before or
    # after it makes another word, an underscore does not.
    # Exempt: `Counter.most_common` of the standard library.
    "MOST_, most_": ("most_", r"(?<![a-z])most_(?=[a-z])(?!common)"),
    "LEAST_, least_": ("least_", r"(?<![a-z])least_(?=[a-z])"),
    "open size": (
        "open",
        r"(?<![a-z])open[ _](?:sizes?|shapes?|dims?|dimensions?|axis|axes|heights?|lengths?|numbers?|batch)(?![a-z])",
    ),
    "sizes left open": (
        "open",
        r"(?<![a-z])(?:(?:sizes?|shapes?|rows) (?:are|stay) open|(?:leaves?|left) open)(?![a-z])",
    ),
    # Exempt: `_open(`, a function that opens a file.
    "_open": ("_open", r"(?<=[a-z])_open\b(?!\()"),
    "fault": ("fault", r"(?<![a-z])faults?(?![a-z])"),
    "mend": ("mend", r"(?<![a-z])mend(?:s|ed|ing)?(?![a-z])"),
    # Exempt: "in place" (an operation that overwrites its operand), and "units in the last place" (ULP).
    "place": ("place", r"(?<![a-z])(?<!in[\s_-])(?<!last[\s_])places?(?![a-z])"),
    # Exempt: the dot, outer, inner, cross and cumulative product, which have no other name, PyTorch's
    # `householder_product`, `itertools.product`, and a product of sizes, which is one of scalars.
    "product": (
        "product",
        r"(?<![a-z])(?<!dot[\s_])(?<!outer )(?<!inner )(?<!cross )(?<!cumulative )(?<!householder_)"
        r"(?<!itertools\.)products?(?![a-z])(?![\s_]of[\s_]sizes)",
    ),
    # Exempt: a switch or a feature that is turned off or on.
    "turned": ("turned", r"(?<![a-z])turned(?![\s_](?:off|on)\b)(?![a-z])"),
    "asked": ("asked", r"(?<![a-z])asked(?![a-z])"),
    "one by one": ("by", r"\bone[ _]by[ _]one"),
    "side by side": ("side", r"\bside[ _]by[ _]side"),
    "so many": ("so many", r"\bso many\b"),
    "as it is": ("as it is", r"\bas it is\b"),
    "of its own": ("of its own", r"\bof its own\b"),
    "what is left": ("what is left", r"\bwhat is left\b"),
    "damaged": ("damaged", r"(?<![a-z])damaged(?![a-z])"),
    "whole number": ("whole", r"\bwhole[ _]numbers?\b"),
    "but for": ("but for", r"\bbut for\b"),
    "another one": ("another one", r"\banother one\b"),
    "cut into": ("cut", r"\bcut[ _]into\b"),
    "halves to even": ("halves", r"\bhalves to even\b"),
    "time stamp": ("time stamp", r"\btime stamps?\b"),
    "for ever, per cent": ("", r"\b(?:for ever|per cent)\b"),
    # Exempt: "there is no x", and comparisons ("is no longer", "are no denser").
    "is no x": (
        " no ",
        r"(?<!there )\b(?:is|are) no (?!longer|more\b|other|need|way|reason|such|one\b|[a-z]+er\b|less)[a-z]",
    ),
    # A sentence of a docstring has a verb: "Raise UserError if ...".
    "UserError where": (
        "error ",
        r'(?:"""|[.;] |\.\n *)(?:user|unsupported|internal)error (?:where|when|if|for|unless)\b',
    ),
    "British -ise": (
        "is",
        r"(?:im|nt|al|el|or|gn|ar|an|tr|er|ol|on|dom)is(?:e[drs]?|ing|ations?|able)(?![a-z])",
    ),
    "British -our": ("our", r"(?:neighb|col|behavi|fav|hon|lab)our"),
    "British -re, -lled": (
        "",
        r"(?<![a-z])(?:centre[sd]?|labelled|cancelled|modelled|grey|analyse[sd]?)(?![a-z])",
    ),
    "docstring: What, Where, Whether": (
        '"""wh',
        r'"""(?:what|where|whether|which|who)\b',
    ),
    "docstring: How, Those, Such": ('"""', r'"""(?:how|those|such)\b'),
    "docstring: Of, As, That": ('"""', r'"""(?:of|as|that|its|by|why)\b'),
}
COMPILED = {name: (literal, re.compile(text)) for name, (literal, text) in PATTERNS.items()}


def documents(root: Path) -> Iterator[tuple[str, str]]:
    """The path of each source and page, and its text with the path in front."""
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        name = inside.as_posix()
        hidden = any(part.startswith(".") for part in inside.parts if part != ".ci")
        if hidden or name.startswith(SKIPPED) or path.suffix not in SUFFIXES:
            continue
        if path.is_file() and path.stat().st_size < MAX_BYTES:
            text = path.read_text(encoding="utf-8", errors="replace")
            yield name, f"{name}\n{text}".lower()


def hits(root: Path) -> Iterator[tuple[str, str]]:
    """Each use of a pattern: its name, and `path:line: the line`. Line 0 is the path itself."""
    for path, text in documents(root):
        for name, (literal, pattern) in COMPILED.items():
            for found in pattern.finditer(text) if literal in text else ():
                number = text.count("\n", 0, found.start())
                yield name, f"{path}:{number}: {text.splitlines()[number].strip()}"


def test_no_word_to_avoid_is_used() -> None:
    found = [f"{name}: {where}" for name, where in hits(ROOT)]
    assert found == [], "words to avoid, see docs/style.md"


SENTENCES = {
    "MOST_TILE = 3; most_rows; Counter().most_common()": {"MOST_, most_": 2},
    "almost_all, the most": {},
    "open_sizes of an open height, file.open(": {"open size": 2},
    "sizes that a file leaves open, an open file": {"sizes left open": 1},
    "matmul_open.py": {"_open": 1},
    "default, tile_fault, faults": {"fault": 2},
    "recommended, mended, mend": {"mend": 2},
    "replace a placeholder in place, update_in_place": {},
    "the place of a panel": {"place": 1},
    "dot products; itertools.product(a, b); householder_product; a product of sizes": {},
    "a product of matrices, products": {"product": 2},
    "turned off, returned": {},
    "a turned panel; masked, asked": {"turned": 1, "asked": 1},
    "one by one, side by side, so many, one_by_one": {
        "one by one": 2,
        "side by side": 1,
        "so many": 1,
    },
    "a damaged file, a whole number, all but for another one": {
        "damaged": 1,
        "whole number": 1,
        "but for": 1,
        "another one": 1,
    },
    "this is no tensor, there is no tensor, it is no longer one, none is no larger": {"is no x": 1},
    'x = """Read. UserError where it fails."""': {"UserError where": 1},
    'x = """Read. Raise UserError if it fails."""': {},
    "optimise the neighbour's colour, optimize, precise, otherwise": {
        "British -ise": 1,
        "British -our": 2,
    },
    'x = """Whether it is."""': {"docstring: What, Where, Whether": 1},
}


@pytest.mark.parametrize("text", SENTENCES)
def test_patterns_count_words(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    assert Counter(name for name, _ in hits(tmp_path)) == SENTENCES[text]
