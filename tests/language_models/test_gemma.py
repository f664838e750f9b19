"""The guide to language models on Gemma 3 270M: its statements and commands, where the package is installed.

The guide itself runs on a tiny model with random weights (`tests/docs/test_docs.py`).
"""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path

import pytest

from graphc.frontend.gguf import read_gguf
from graphc.language_models import LanguageModel, load
from graphc.language_models.model import CHUNK
from graphc.language_models.perplexity import perplexity
from support.page_examples import SEPARATOR, examples, program
from support.process import ROOT, Completed, run_cli, run_python

GUIDE = ROOT / "docs" / "howto" / "language_models.md"
WRITES_TINY = re.compile(r"^TinyDecoder\(.*?^\)\n", re.MULTILINE | re.DOTALL)
FRANCE = "The capital of France is"
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
)


@pytest.fixture(scope="module")
def chatting(gemma: Path) -> Path:
    """Gemma with a chat template, which files of base models lack."""
    key, template = b"tokenizer.chat_template", TEMPLATE.encode()
    template += b" " * (-(8 + len(key) + 4 + 8 + len(template)) % 32)  # the data stay aligned
    pair = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(template)) + template
    raw, path = gemma.read_bytes(), gemma.with_name("chatting.gguf")
    count = struct.pack("<Q", struct.unpack_from("<Q", raw, 16)[0] + 1)
    path.write_bytes(raw[:16] + count + pair + raw[24:])
    assert read_gguf(path).text("tokenizer.chat_template").rstrip() == TEMPLATE.rstrip()
    return path


@pytest.fixture(scope="module")
def exact(gemma: Path) -> LanguageModel:
    return load(gemma, context=4096)


def test_what_the_guide_prints_as_true_is_true_of_gemma(gemma: Path, tmp_path: Path) -> None:
    """Run its program on the real file in place of the tiny one."""
    blocks = examples(GUIDE.read_text(encoding="utf-8"))
    python = [block for block in blocks if block.language == "python"]
    text, found = WRITES_TINY.subn("", program(python, f"print({SEPARATOR!r})"))
    assert found == 1, "the guide writes its tiny model in one statement"
    (tmp_path / "tiny.gguf").symlink_to(gemma)
    (tmp_path / "page.py").write_text(text, encoding="utf-8")
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {"PYTHONPATH": os.pathsep.join(paths)}
    done = run_python("-W", "error", "page.py", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split(SEPARATOR + "\n")
    wanted = ["\n".join(block.lines) for block in blocks if block.language == "output"]
    assert len(wanted) == len(python)
    assert [truths(one) for one in printed[:-1]] == [truths(one) for one in wanted]
    assert sum(len(truths(one)) for one in wanted) >= 8


def truths(text: str) -> list[str]:
    """Return what is printed of conditions."""
    return re.findall(r"\b(?:True|False)\b", text)


def generate(model: Path, *words: str, stdin: str = "") -> Completed:
    done = run_cli("generate", str(model), *words, "--max-tokens", "8", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done


def test_each_command_of_the_guide(gemma: Path, chatting: Path, tmp_path: Path) -> None:
    """Run the command of its block and all commands of its table."""
    page, text = GUIDE.read_text(encoding="utf-8"), tmp_path / "text.txt"
    commands = re.findall(r"^(?:\| `)?graphc generate \S+ ([^`\n]*)", page, re.MULTILINE)
    text.write_text(f"{FRANCE} Paris.\nOnce upon a time\n")
    ran = {}
    for command in commands:
        words = [
            text if one == "FILE" else FRANCE if one == "PROMPT" else one for one in split(command)
        ]
        chats = "--chat" in words
        ran[command] = generate(
            chatting if chats else gemma, *map(str, words), stdin="Hello!\nWhy?\n" if chats else ""
        )
    story, plain, chat, lines, measured, facts = ran.values()
    assert story.stdout.startswith(", ") and "per second" in story.stderr and "MiB" in story.stderr
    assert plain.stdout == " the capital of the country of France.\n", "the tokens of Transformers"
    assert len(chat.stdout.splitlines()) >= 2
    assert [
        json.loads(line)["prompt"] for line in lines.stdout.splitlines()
    ] == text.read_text().splitlines()
    assert measured.stdout.startswith("perplexity ")
    assert json.loads(facts.stdout)["text"] + "\n" == plain.stdout


def split(command: str) -> list[str]:
    """Return the words of a command; `--batch N` takes a number."""
    found = re.findall(r'"[^"]*"|\S+', command.replace("--batch N", "--batch 2"))
    return [word.strip('"') for word in found]


@pytest.mark.exhaustive
def test_greedy_tokens_are_those_of_transformers(gemma: Path) -> None:
    """The first of each prompt; `python tests/measurements/gemma_tokens.py` compares 128."""
    pytest.importorskip("transformers")
    script = ROOT / "tests" / "measurements" / "gemma_tokens.py"
    done = run_python(str(script), str(gemma), "--tokens", "12", "--threads", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 of 10 prompts have equal tokens" in done.stdout


@pytest.mark.exhaustive
def test_rounded_activations_change_perplexity_by_less_than_half_a_percent(
    gemma: Path, exact: LanguageModel
) -> None:
    text = GUIDE.read_text(encoding="utf-8") + (GUIDE.parent / "decoders.md").read_text(
        encoding="utf-8"
    )
    tokens = exact.tokenizer.encode(text)[:4000]
    assert len(tokens) == 4000
    models = exact, load(gemma, context=4096, activations="q8")
    found = [perplexity(one.session, tokens, CHUNK) for one in models]
    assert found[1] == pytest.approx(found[0], rel=5e-3) and found[1] != found[0]


def test_any_number_of_threads_gives_the_same_bits(gemma: Path) -> None:
    tokens = list(range(1000, 1040))
    for activations in ("exact", "q8"):
        logits = []
        for threads in (1, 2):
            session = load(gemma, threads=threads, context=128, activations=activations).session
            logits.append([session.feed(tokens, every=True), session.feed([7])])
        assert all((a == b).all() for a, b in zip(*logits, strict=True))
