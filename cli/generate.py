"""`graphc generate`: continue a text, or hold a conversation, with a language model."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..base.pipes import read_file
from .file_kinds import FOLDER, LANGUAGE_MODEL
from .model_arguments import add_file_argument, add_options
from .progress import HEADING_WIDTH, progress
from .terminal import say, shown

if TYPE_CHECKING:
    from ..language_models import LanguageModel

HELP = "Continue a text with a language model, or chat with it"
KEYWORDS = ("chat", "llm", "complete", "perplexity")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file_argument(
        parser,
        "model",
        (LANGUAGE_MODEL, FOLDER),
        "GGUF file, the first file of a split model, or a folder of Hugging Face Transformers or onnxruntime-genai",
    )
    parser.add_argument(
        "prompt", nargs="?", help="text to continue (default: what standard input holds)"
    )
    parser.add_argument(
        "--chat", action="store_true",
        help="each line of standard input, and PROMPT before them, is a message; the file's template is used",
    )  # fmt: skip
    parser.add_argument("--system", metavar="TEXT", help="the system's message, with --chat")
    parser.add_argument(
        "--perplexity", metavar="FILE", help="print the perplexity of a text file instead"
    )
    parser.add_argument(
        "--prompts", metavar="FILE",
        help="continue each line of a text file instead, several at once, and print a JSON object for each",
    )  # fmt: skip
    parser.add_argument(
        "--batch", type=int, default=8, metavar="N",
        help="prompts of --prompts that are continued together, 1 to 32 (default: 8)",
    )  # fmt: skip
    add_options(parser, "json")
    parser.add_argument(
        "-v", "--verbose", action="store_true",
        help="also print speeds of prompt and new tokens, bandwidth and memory, to standard error",
    )  # fmt: skip
    add_options(parser, "quiet")
    _add_sampling(parser.add_argument_group("sampling"))
    group = parser.add_argument_group("compilation")
    group.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="largest number of tokens (default: 4096, or the model's)",
    )
    group.add_argument(
        "--cache",
        choices=("f32", "f16", "bf16", "q8"),
        default="f32",
        help="type of the keys and values that are kept (default: f32)",
    )
    group.add_argument(
        "--huge-pages",
        action="store_true",
        help="copy the weights to pages of 2 MB instead of sharing them with other processes",
    )
    add_options(group, "activations", "target", "threads")


_SAMPLING: Mapping[str, tuple[type, Any, str, str]] = {
    "--max-tokens": (int, 128, "N", "most new tokens (default: 128)"),
    "--temperature": (float, 0.0, "X", "0: the likeliest token (default)"),
    "--top-k": (int, 0, "N", "draw from the N likeliest tokens"),
    "--top-p": (float, 1.0, "X", "draw from tokens of this probability in all"),
    "--min-p": (float, 0.0, "X", "draw from tokens of this share of the likeliest"),
    "--repetition-penalty": (float, 1.0, "X", "lower tokens seen before"),
    "--lookup": (
        int, 0, "N", "guess N tokens from the text so far, which makes texts that repeat themselves faster",
    ),
    "--seed": (int, None, "N", "seed of random numbers"),
}  # fmt: skip
"""Numbers that choose the next token: type, default, name and help."""


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    for name, (kind, default, metavar, text) in _SAMPLING.items():
        group.add_argument(name, type=kind, default=default, metavar=metavar, help=text)
    group.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="end before this text (repeatable)",
    )


_ARGUMENTS = ("lookup", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


def run(args: argparse.Namespace) -> int:
    """Load the model, then generate or measure."""
    from ..language_models import load

    if args.system is not None and not args.chat:
        raise UserError("--system needs --chat; add it, or put the text into the prompt")
    if args.max_tokens < 0:
        raise UserError(f"--max-tokens must be at least 0, got {args.max_tokens}")
    if args.prompts and (args.chat or args.perplexity or args.prompt is not None):
        raise UserError(
            "--prompts must be the only prompt; leave PROMPT, --chat and --perplexity out"
        )
    text = ""
    for option in ("perplexity", "prompts"):
        if path := getattr(args, option):
            text = _text_of(path, f"--{option}")
    start = time.perf_counter()
    with progress(args.quiet or args.json or not sys.stderr.isatty()) as report:
        model = load(
            args.model,
            threads=args.threads,
            context=args.context,
            target=args.target,
            activations=args.activations,
            cache=args.cache,
            huge_pages=args.huge_pages,
            on_phase=report,
        )
    if args.verbose:
        _note("load", f"{time.perf_counter() - start:.2f} s")
    if args.perplexity:
        return _measure(model, text, args)
    how = {name: getattr(args, name) for name in _ARGUMENTS}
    if args.prompts:
        return _continue_lines(model, text.splitlines(), args, how)
    if args.chat:
        return _converse(model, args, how)
    prompt = args.prompt if args.prompt is not None else sys.stdin.read()
    _answer(model, prompt, args, how)
    return 0


def _measure(model: LanguageModel, text: str, args: argparse.Namespace) -> int:
    found = model.perplexity(text)
    tokens = len(model.tokenizer.encode(text))
    if args.json:
        say(json.dumps({"perplexity": found, "tokens": tokens}))
    else:
        say(f"perplexity {found:.4f} of {tokens} tokens ({math.log2(found):.3f} bits each)")
    return 0


def _continue_lines(
    model: LanguageModel, prompts: list[str], args: argparse.Namespace, how: dict[str, Any]
) -> int:
    texts = model.generate(prompts, args.max_tokens, stop=args.stop, batch=args.batch, **how)
    for prompt, text in zip(prompts, texts, strict=True):
        say(json.dumps({"prompt": prompt, "text": text}, ensure_ascii=False))
    if args.verbose:
        for heading, line in _speeds(model, is_alone=False):
            _note(heading, line)
    return 0


def _converse(model: LanguageModel, args: argparse.Namespace, how: dict[str, Any]) -> int:
    messages = [{"role": "system", "content": args.system}] if args.system is not None else []
    for line in _messages(args.prompt):
        messages.append({"role": "user", "content": line})
        reply = _answer(model, messages, args, how)
        messages.append({"role": "assistant", "content": reply})
    return 0


def _messages(first: str | None) -> Iterator[str]:
    if first is not None:
        yield first
    if first is not None and not sys.stdin.isatty():
        return
    while True:
        if sys.stdin.isatty():
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")


def _answer(
    model: LanguageModel, prompt: Any, args: argparse.Namespace, how: dict[str, Any]
) -> str:
    """Print the continuation of a prompt piece by piece; Ctrl-C keeps what was printed."""
    parts = []
    texts = model.generate(prompt, args.max_tokens, stop=args.stop, stream=True, **how)
    try:
        for text in texts:
            parts.append(text)
            if not args.json:
                sys.stdout.write(shown(text))
                sys.stdout.flush()
    finally:
        if not args.json:
            sys.stdout.write("\n")
            sys.stdout.flush()
    reply = "".join(parts)
    usage = model.usage
    if args.json:
        facts = {
            "text": reply, "prompt_tokens": usage.prompt + usage.reused, "new_tokens": usage.new,
            "prefill_seconds": usage.prefill_seconds, "decode_seconds": usage.decode_seconds,
        }  # fmt: skip
        say(json.dumps(facts))
    if args.verbose:
        for heading, line in _speeds(model):
            _note(heading, line)
    return reply


def _speeds(model: LanguageModel, is_alone: bool = True) -> Iterator[tuple[str, str]]:
    usage = model.usage
    reused = f", {usage.reused} from the cache" if usage.reused else ""
    yield "prompt", f"{usage.prompt} tokens{reused}, {usage.prefill_rate:.1f} per second"
    if usage.new > 1:
        rate = usage.decode_rate
        bandwidth = f", {rate * model.read_bytes / 1e9:.1f} GB/s of weights" if is_alone else ""
        yield "decode", f"{usage.new} tokens, {rate:.1f} per second{bandwidth}"
    if usage.guessed:
        yield "lookup", f"{usage.right} of {usage.guessed} guessed tokens were right"
    yield (
        "memory",
        f"{_peak_bytes() / 2**20:.0f} MiB at most, packed weights {model.weight_bytes / 2**20:.0f} MiB, "
        f"full caches {model.session.nbytes / 2**20:.1f} MiB",
    )


def _peak_bytes() -> int:
    """The most memory that the process had resident."""
    from resource import RUSAGE_SELF, getrusage

    unit = 1 if sys.platform == "darwin" else 1024
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def _note(heading: str, text: str) -> None:
    print(f"{heading:<{HEADING_WIDTH}} {text}", file=sys.stderr, flush=True)


def _text_of(path: str, option: str) -> str:
    try:
        return read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error, option) from error
