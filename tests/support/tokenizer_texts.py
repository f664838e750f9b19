"""Texts that tokenizers are compared on: scripts, spaces, code, digits, and what looks like special tokens."""

from __future__ import annotations

import random
import unicodedata

COUNT = 1000

_WORDS = (
    "hello", "world", "The", "capital", "de", "Straße", "naïve", "Привет", "κόσμε", "東京", "数据", "안녕",
    "שלום", "مرحبا", "नमस्ते", "I'm", "they'LL", "it's", "DON'T", "x's", "e\u0301", "\u1e9b\u0323", "ﬁ",
    "𝔘nicode", "👩\u200d👩\u200d👧", "🇩🇪", "👍🏽", "☃", "e.g.", "3.14", "1234567", "0x1F", "10,000", "٣٤", "²",
    "½", "Ⅷ", "https://example.org/a?b=c#d", "user@example.org", "snake_case", "camelCase", "HTTPServer",
    "__init__", "i++", "a->b", "!==", "&&", "//", "/*", "*/", "${x}", "{}", "[0]", "\\n", "def f(x):", "return",
    "for(int i=0;i<n;++i)", "SELECT * FROM t;", "<div>", "</div>", "<br/>", "&amp;", "#include <a.h>", "<s>",
    "</s>", "<unk>", "<bos>", "<eos>", "<pad>", "<0x0A>", "<0xZZ>", "<start_of_turn>", "<end_of_turn>user",
    "<|im_start|>", "<|endoftext|>", "<|im_end|>", "<|added|>", "[INST]", "<|", "|>", "<unused7>", "<mask>",
    "<start_of_turn", "▁", "▁▁", "▁a", "a▁b", "Ġ", "Ċ", "�", "\u00a0", "\u2028", "\u3000", "\ufeff", "\u200b",
    "\u00ad", "\x07", "\x1b[0m", "\x7f", "\u0300", "\U0010ffff", "\ue000",
)  # fmt: skip
_GAPS = (
    "", "", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\t\t", "    ", ", ", ". ",
    "; ", "-", "...", " " * 15, " " * 31, " " * 32, " " * 33, " " * 70, "\n" * 5, "\n" * 31,
)  # fmt: skip
_RANGES = ((32, 127), (32, 127), (0xA0, 0x250), (0x370, 0x600), (0x900, 0xE00), (0x2000, 0x2C00), (0x3000, 0xD000),
           (0xE000, 0x10000), (0x10000, 0x20000), (1, 32))  # fmt: skip


def texts(count: int = COUNT) -> list[str]:
    """Return texts, the same in every call: half of words, a quarter of random characters, a quarter of repeats."""
    rng = random.Random(0)
    return [_text(rng, number) for number in range(count)]


def _text(rng: random.Random, number: int) -> str:
    size = rng.randint(1, 24)
    if number % 4 == 3:
        return rng.choice((*_WORDS, *_GAPS, "a", "1", "é", "'")) * size
    if number % 4 == 2:
        return "".join(_character(rng) for _ in range(size))
    return "".join(rng.choice(_WORDS) + rng.choice(_GAPS) for _ in range(size))


def _character(rng: random.Random) -> str:
    """A character that old tables of Unicode have: libraries cut text by tables of different age."""
    while True:
        found = chr(rng.randrange(*rng.choice(_RANGES)))
        if unicodedata.category(found) not in ("Cn", "Cs"):
            return found
