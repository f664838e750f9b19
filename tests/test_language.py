"""The words to avoid (docs/style.md), counted over the whole tree: the counts may only fall.

`tests/language_counts.json` holds the count of each pattern. A higher count fails, and so does a lower one, until the
table says so: `pytest tests/test_language.py --update-golden` lowers it, and never raises it. A pattern leaves the
table at 0 and must then stay there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import ROOT

COUNTS = Path(__file__).with_name("language_counts.json")
SUFFIXES = (".py", ".md", ".sh", ".js", ".css", ".toml", ".lark", "")
SKIPPED = ("build", "dist", "venv", "tests/golden", "docs/style.md", "tests/test_language.py", "LICENSE")  # fmt: skip
MAX_BYTES = 1_000_000

PATTERNS = {
    # name -> (a text that is present wherever the pattern matches, the pattern), both in lower case. A letter before or
    # after it makes another word, an underscore does not.
    "MOST_, most_": ("most_", r"(?<![a-z])most_(?=[a-z])(?!common)"),
    "LEAST_, least_": ("least_", r"(?<![a-z])least_(?=[a-z])"),
    "open size": (
        "open",
        r"(?<![a-z])open[ _](?:sizes?|shapes?|dims?|axis|axes|heights?|lengths?|numbers?)\b",
    ),
    "_open": ("_open", r"(?<=[a-z])_open\b(?!\()"),
    "fault": ("fault", r"(?<![a-z])faults?(?![a-z])"),
    "mend": ("mend", r"(?<![a-z])mend(?:s|ed|ing)?(?![a-z])"),
    "place": (
        "place",
        r"(?<![a-z])(?<!in[\s_-])(?<!last[\s_])places?(?![a-z])",
    ),
    "product": (
        "product",
        r"(?<![a-z])(?<!dot[\s_])(?<!outer )(?<!inner )(?<!cross )(?<!cumulative )(?<!householder_)"
        r"(?<!itertools\.)products?(?![a-z])(?![\s_]of[\s_]sizes)",
    ),
    "turned": ("turned", r"(?<![a-z])turned(?![\s_](?:off|on)\b)(?![a-z])"),
    "asked": ("asked", r"(?<![a-z])asked(?![a-z])"),
    "one by one": ("by", r"\bone[ _]by[ _]one"),
    "side by side": ("side", r"\bside[ _]by[ _]side"),
    "so many": ("so many", r"\bso many\b"),
    "as it is": ("as it is", r"\bas it is\b"),
    "of its own": ("of its own", r"\bof its own\b"),
    "what is left": ("what is left", r"\bwhat is left\b"),
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
}
COUNTED = {name: (literal, re.compile(text)) for name, (literal, text) in PATTERNS.items()}


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


def count(root: Path) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """How often each pattern occurs, and in which files."""
    total: Counter[str] = Counter()
    files: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
    for path, text in documents(root):
        for name, (literal, pattern) in COUNTED.items():
            if literal in text and (found := len(pattern.findall(text))):
                total[name] += found
                files[name][path] = found
    return total, files


def test_words_to_avoid_become_fewer(pytestconfig: pytest.Config) -> None:
    allowed = json.loads(COUNTS.read_text(encoding="utf-8"))
    total, files = count(ROOT)
    more = {
        name: f"{total[name]}, at most {allowed.get(name, 0)}; most of them in {files[name].most_common(5)}"
        for name in total
        if total[name] > allowed.get(name, 0)
    }
    assert not more, "words to avoid, see docs/style.md"
    fewer = {name: total[name] for name in allowed if total[name] < allowed[name]}
    if pytestconfig.getoption("--update-golden"):
        lowered = {name: number for name in allowed if (number := total[name])}
        COUNTS.write_text(json.dumps(lowered, indent=1) + "\n", encoding="utf-8")
    else:
        assert not fewer, "fewer than in the table: lower it with --update-golden"


def test_every_count_has_a_pattern() -> None:
    assert set(json.loads(COUNTS.read_text(encoding="utf-8"))) <= set(COUNTED)


SENTENCES = {
    "MOST_TILE = 3; most_rows; Counter().most_common()": {"MOST_, most_": 2},
    "almost_all, the most": {},
    "open_sizes of an open height, file.open(": {"open size": 2},
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
    "optimise the neighbour's colour, optimize, precise, otherwise": {
        "British -ise": 1,
        "British -our": 2,
    },
    'x = """Whether it is."""': {"docstring: What, Where, Whether": 1},
}


@pytest.mark.parametrize("text", SENTENCES)
def test_patterns_count_words(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    assert dict(count(tmp_path)[0]) == SENTENCES[text]
