"""`graphc generate`: text to standard output, figures to standard error, sentences for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc.cli.terminal import shown
from graphc.language_models import load
from support.gguf_files import TinyDecoder
from support.process import ROOT, Completed, run_cli

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tiny = TinyDecoder("llama", layers=1, width=32, heads=2, kv_heads=1, hidden=32, kinds=("q8_0",))
    metadata = tiny.metadata
    tiny.metadata = lambda: metadata() | {"tokenizer.chat_template": TEMPLATE}  # type: ignore[method-assign]
    return tiny.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")[0]


def generate(path: Path, *words: str, stdin: str = "") -> Completed:
    """Run the command with a compile cache that all tests here share."""
    env = {"GRAPHC_CACHE_DIR": str(path.parent / "cache")}
    return run_cli("generate", str(path), *words, env=env, stdin=stdin)


def test_text_is_continued(path: Path) -> None:
    wanted = load(path, threads=1, context=512).generate("hello world", 6)
    common = ("--max-tokens", "6", "--threads", "1")
    done = generate(path, "hello world", *common, "--verbose")
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown(wanted) + "\n"
    for word in ("load", "prompt", "decode", "memory", "per second"):
        assert word in done.stderr
    facts = json.loads(generate(path, "hello world", *common, "--json", "--huge-pages").stdout)
    assert facts["text"] == wanted and (facts["prompt_tokens"], facts["new_tokens"]) == (3, 6)


def test_a_prompt_may_follow_options(path: Path) -> None:
    common = ("--max-tokens", "4", "--threads", "1", "-q")
    wanted = generate(path, "hello", *common)
    assert generate(path, *common, "hello").stdout == wanted.stdout
    env = {"GRAPHC_CACHE_DIR": str(path.parent / "cache")}
    done = run_cli("generate", *common, str(path), "--json", "hello", env=env)
    assert shown(json.loads(done.stdout)["text"]) + "\n" == wanted.stdout
    done = generate(path, *common, "hello", "world")
    assert done.returncode == 2 and "no use for the argument" in done.stderr


def test_a_conversation_of_lines(path: Path) -> None:
    words = ("--chat", "--json", "--max-tokens", "3")
    done = generate(path, *words, stdin="hello\n\nworld\n")
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert second["prompt_tokens"] > first["prompt_tokens"]


def test_perplexity_of_a_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("hello world hello world")
    done = generate(path, "--perplexity", str(tmp_path / "text.txt"), "--json")
    assert json.loads(done.stdout)["tokens"] == 6
    wanted = load(path).perplexity("hello world hello world")
    assert json.loads(done.stdout)["perplexity"] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--context", "99999"), 2, "in [1, 512]"),
        (("--max-tokens", "-1"), 2, "at least 0"),
        (("--system", "x"), 2, "--chat"),
        (("--temperature", "-1"), 2, "temperature"),
        (("--perplexity", "none.txt"), 2, "there is no file"),
    ],
)
def test_wrong_usage(path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done = generate(path, "hello", *words)
    assert done.returncode == code and message in done.stderr and "Traceback" not in done.stderr


def test_other_files_are_called_by_their_names(path: Path) -> None:
    done = run_cli("generate", str(ROOT / "examples" / "mlp.onnx"), "hello")
    assert done.returncode == 2 and "an ONNX model" in done.stderr
    done = run_cli("run", str(path))
    assert done.returncode == 2 and "graphc generate" in done.stderr


def test_lines_of_a_file_are_continued_together(path: Path, tmp_path: Path) -> None:
    lines = ["hello world", "hello", "world hello hello"]
    file = tmp_path / "prompts.txt"
    file.write_text("\n".join(lines))
    common = ("--prompts", str(file), "--max-tokens", "5", "--threads", "1")
    done = generate(path, *common, "--batch", "2", "--verbose")
    assert done.returncode == 0, done.stderr
    wanted = load(path, threads=1, context=512).generate(lines, 5, batch=1)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [
        {"prompt": line, "text": text} for line, text in zip(lines, wanted, strict=True)
    ]
    assert "15 tokens" in done.stderr and "GB/s" not in done.stderr
    assert generate(path, "hello", *common).returncode == 2
