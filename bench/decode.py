"""Language models: tokens per second of prompts and of new tokens, beside other engines in the same process.

A prompt of n tokens is fed to an empty context; new tokens follow a context of n tokens, one at a time. Rounds
alternate between the engines; a row has the median of each. llama.cpp is the package `xllamacpp`;
onnxruntime-genai runs another folder (`decode_genai`).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.records import dataclass
from ..language_models import LanguageModel, load
from ..targets.isa import Target
from .decode_genai import CONTEXT, GENAI, NEW, Genai
from .engines import OnStep, mean_of
from .peers import package_of
from .roofline import read_seconds

PROMPTS, CONTEXTS = (16, 128, 1024), (0, 512, 2048)
LONG = 5.0
"""Seconds of a first round that counts: caches are warm long before its end."""
PAUSE = 0.08
"""Pause after a call, relative to its time. Linux stops a process of real-time priority for 50 ms of a second that it
fills: where a round takes half a second, always in the call of the same engine."""
EXACT, ROUNDED, LLAMA = "graphc", "graphc q8", "llama.cpp"
PEERS = (LLAMA, GENAI)


@dataclass(frozen=True)
class DecodeRow:
    """One measurement: `prompt 128` or `decode at 512`, tokens per second by engine.

    `roof`: the new tokens per second that the memory bandwidth of this run allows, which reads weights and caches; 0
    for prompts.
    """

    name: str
    rates: dict[str, float]
    roof: float = 0.0

    @property
    def ratio(self) -> float | None:
        """Return graphc's best rate relative to llama.cpp's; None where that was not timed."""
        if LLAMA not in self.rates:
            return None
        return self.own / self.rates[LLAMA]

    @property
    def own(self) -> float:
        """Return graphc's best rate."""
        return max(rate for name, rate in self.rates.items() if name not in PEERS)


class Own:
    """graphc's model as an engine."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def prefill(self, tokens: Sequence[int]) -> float:
        """Seconds of a prompt."""
        self.model.session.truncate(0)
        return _seconds(lambda: self.model.session.feed(tokens))

    def decode(self, tokens: Sequence[int]) -> float:
        """Seconds of a token, the mean of `NEW` - 1."""
        session = self.model.session
        rest = session.reuse(tokens) if tokens else []
        if rest:
            session.feed(rest)
        else:
            session.truncate(0)
        session.feed([1])
        return _seconds(lambda: [session.feed([1]) for _ in range(NEW - 1)]) / (NEW - 1)


class LlamaCpp:
    """llama.cpp, with its own timings: those of its functions without HTTP."""

    def __init__(self, path: Path, threads: int) -> None:
        package = package_of(f"peer '{LLAMA}'", "xllamacpp", "xllamacpp")
        parameters = package.CommonParams()
        parameters.model.path = str(path)
        parameters.verbosity = 0
        parameters.n_ctx, parameters.n_parallel, parameters.n_batch = CONTEXT, 1, 512
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        self._server = package.Server(parameters)

    def prefill(self, tokens: Sequence[int]) -> float:
        """Seconds of a prompt."""
        return float(self._timings(tokens, 1, False)["prompt_ms"]) / 1e3

    def decode(self, tokens: Sequence[int]) -> float:
        """Seconds of a token, as llama.cpp counts them."""
        return float(self._timings(tokens or [1], NEW, True)["predicted_per_token_ms"]) / 1e3

    def _timings(self, tokens: Sequence[int], count: int, reuse: bool) -> dict[str, Any]:
        request = {
            "prompt": list(tokens), "n_predict": count, "temperature": 0, "cache_prompt": reuse, "ignore_eos": True,
        }  # fmt: skip
        found = self._server.handle_completions(request)
        answer: dict[str, Any] = found if isinstance(found, dict) else json.loads(found)
        timings: dict[str, Any] = answer["timings"]
        return timings


def decode_rows(
    path: Path,
    target: Target,
    threads: int,
    peers: Sequence[str],
    rounds: int,
    report: OnStep,
    prompts: Sequence[int] = PROMPTS,
    contexts: Sequence[int] = CONTEXTS,
    genai: Path | None = None,
) -> list[DecodeRow]:
    """Return a row for each prompt and each context that the model holds.

    `genai`: the folder of that peer, if it has one. Raise UserError for an unknown peer.
    """
    unknown = [name for name in peers if name not in PEERS]
    if unknown:
        raise UserError(
            f"peers of language models must be {' or '.join(PEERS)}, got '{unknown[0]}'"
        )
    models = {
        name: load(path, threads=threads, target=target, activations=activations)
        for name, activations in ((EXACT, "exact"), (ROUNDED, "q8"))
    }
    engines: dict[str, Own | LlamaCpp | Genai] = {
        name: Own(model) for name, model in models.items()
    }
    if LLAMA in peers:
        engines[LLAMA] = LlamaCpp(path, threads)
    if genai is not None and GENAI in peers:
        engines[GENAI] = Genai(genai, threads)
    model = models[ROUNDED]
    held = model.session.context
    rows: list[DecodeRow] = []
    steps = [("prompt", n) for n in prompts if n <= held]
    steps += [("decode at", n) for n in contexts if n + NEW <= held]
    for kind, count in steps:
        name = f"{kind} {count}"
        report(name, len(rows), len(steps))
        tokens = _tokens(count, model.config.vocabulary)
        rates = _rates(engines, kind == "prompt", tokens, rounds)
        read = model.read_bytes + model.session.bytes_read(count + NEW // 2)
        roof = 0.0 if kind == "prompt" else 1 / read_seconds(target, threads, read)
        rows.append(DecodeRow(name, rates, roof))
        report(name, len(rows), len(steps))
    return rows


def _rates(
    engines: dict[str, Own | LlamaCpp | Genai], is_prompt: bool, tokens: Sequence[int], rounds: int
) -> dict[str, float]:
    """Return tokens per second: medians of rounds that alternate between the engines."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(rounds + 1):
        for name, engine in engines.items():
            if len(seconds[name]) == rounds:
                continue
            start = time.perf_counter()
            taken = engine.prefill(tokens) if is_prompt else engine.decode(tokens)
            whole = time.perf_counter() - start
            if number or (is_prompt and whole > LONG):
                seconds[name].append(taken)  # the first round warms caches
            time.sleep(PAUSE * whole)
    count = len(tokens) if is_prompt else 1
    return {name: count / statistics.median(taken) for name, taken in seconds.items()}


def _tokens(count: int, vocabulary: int) -> list[int]:
    """Return tokens that do not repeat themselves."""
    found = np.random.default_rng(0).integers(vocabulary // 4, vocabulary, count)
    return [int(token) for token in found]


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def geometric_mean(rows: Sequence[DecodeRow], kind: str) -> float | None:
    """Return the geometric mean of the ratios of prompts or of decoding; None without llama.cpp."""
    return mean_of(row.ratio for row in rows if row.name.startswith(kind))


def decode_facts(path: Path, rows: Sequence[DecodeRow], threads: int) -> dict[str, Any]:
    """Return the rows as numbers: tokens per second."""
    return {
        "model": path.name,
        "threads": threads,
        "rows": [
            {"case": row.name, "tokens_per_second": row.rates, "roof": row.roof, "ratio": row.ratio}
            for row in rows
        ],
    }
