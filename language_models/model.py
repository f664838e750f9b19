"""A compiled language model: text in, text out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any, Literal, overload
from weakref import WeakSet

from ..base.dtypes import BF16, F16, F32, S8, DType
from ..base.errors import UserError
from ..runtime.executor import CompiledModel
from .batch import Batch, Continuation, continue_together
from .buffers import CacheBuffers
from .chat import Message, chat_text
from .lookup import looked_up
from .perplexity import perplexity
from .prompts import Prompt, Prompts, given_tokens, is_chat, is_several
from .sampling import Sampler, Sampling, check_integer
from .session import Session
from .source import Source, source_of
from .stops import Stops
from .tokenizer import TextTokenizer
from .usage import Usage

CONTEXT = 4096
"""Tokens that a model is loaded for unless said otherwise, where it was made for as many."""

CHUNK = 512
"""Tokens of a prompt that are fed at once."""

CACHES = {"f32": F32, "f16": F16, "bf16": BF16, "q8": S8}
"""Types of keys and values by name; q8 has scales of groups."""

MAX_BATCH = 32
"""Prompts that are continued together."""

MAX_LOOKUP = 16
"""Tokens that are guessed at once."""


_MODELS: WeakSet[LanguageModel] = WeakSet()


def _free_after_fork() -> None:
    """In a child process, no thread is left that could end a call: its sequence is computed again."""
    for model in list(_MODELS):
        model.free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_after_fork)


class LanguageModel:
    """A decoder, its tokenizer and the sequence it has seen.

    Threads may call one model: a call waits for others. Streams take turns, each token a turn, and what another call
    has overwritten is computed again; a list of prompts is faster.

    Attributes:
        config: Sizes and constants.
        session: The tokens seen and their caches; calls of `generate` reuse what prompts have in common.
        usage: Of the last call of `generate`.
        cache: The type of keys and values.
    """

    def __init__(
        self,
        source: Source,
        step: CompiledModel,
        context: int,
        cache: DType = F32,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.source, self.config, self.step = source, source.config, step
        self.cache, self._options = cache, options or {}
        config, caches = source.config, source.caches(cache)
        buffers = CacheBuffers(caches, config.kv_heads, context, CHUNK, config.window)
        self.session = Session(
            config.vocabulary, source.step_of(step), source.embed, buffers, context, CHUNK
        )
        self.usage = Usage()
        self._lock = RLock()
        _MODELS.add(self)

    @cached_property
    def batch_step(self) -> CompiledModel | None:
        """The decoder of several sequences, which is compiled when it is needed first; None where there is none."""
        make = self.source.batched
        if make is None:
            return None
        return make(MAX_BATCH, self.session.context, self.cache, **self._options)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights, as the compiled model keeps them."""
        return int(self.step.stats["constants_bytes"])

    @property
    def read_bytes(self) -> int:
        """Bytes of weights that a new token reads: all but those of experts that it does not go through."""
        return self.weight_bytes - self.source.idle_bytes

    @cached_property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer of the file or the folder."""
        return self.source.tokenizer()

    @overload
    def generate(
        self, prompt: Prompt, max_tokens: int = ..., *, stream: Literal[True], **how: Any
    ) -> Iterator[str]: ...
    @overload
    def generate(
        self, prompt: Prompt, max_tokens: int = ..., *, stream: Literal[False] = ..., **how: Any
    ) -> str: ...
    @overload
    def generate(
        self, prompt: Prompts, max_tokens: int = ..., *, stream: Literal[False] = ..., **how: Any
    ) -> list[str]: ...
    def generate(
        self,
        prompt: Prompt | Prompts,
        max_tokens: int = 128,
        *,
        stop: str | Sequence[str] = (),
        stream: bool = False,
        lookup: int = 0,
        batch: int = 8,
        **how: Any,
    ) -> Iterator[str] | str | list[str]:
        """Continue a prompt until a token ends the text, a stop text appears, or `max_tokens` are made.

        Args:
            prompt: A text, tokens, or messages `{"role": ..., "content": ...}`, for which the file's template is used.
                A list of such prompts, of any lengths, gives a list of their texts; beginnings that neighbors share are
                computed once.
            max_tokens: Limit of new tokens; the context is another.
            stop: Texts before which the result ends.
            stream: Return an iterator of pieces of text, as they are made.
            lookup: Tokens to guess from the text so far and to compute at once with the next one, 0 to 16. The text is
                the same, and made faster where it repeats itself; each guess costs about as much as a token of a
                prompt.
            batch: Prompts of a list that are continued together, 1 to 32: a new token of all of them is one pass over
                the weights. With `lookup`, and for folders of onnxruntime-genai, one after another.
            **how: Fields of `Sampling`: temperature, top_k, top_p, min_p, repetition_penalty, seed.

        Raises:
            UserError: For an empty prompt, a number outside its range, or a prompt that is longer than the context; for
                several prompts with `stream`.
        """
        if is_several(prompt) and stream:
            raise UserError("generate: stream takes one prompt, got several; call it for each")
        check_integer("max_tokens", max_tokens)
        check_integer("lookup", lookup, high=MAX_LOOKUP)
        check_integer("batch", batch, 1, MAX_BATCH)
        unknown = set(how) - set(Sampling.__dataclass_fields__)
        if unknown:
            raise UserError(f"generate: arguments must be those of Sampling, got '{min(unknown)}'")
        stops, sampling = (stop,) if isinstance(stop, str) else stop, Sampling(**how)
        with self._lock:
            if is_several(prompt):
                count = min(batch, len(prompt))
                if count > 1 and not lookup and self.batch_step is not None:
                    return self._together(prompt, max_tokens, stops, sampling, count)
                return self._each(prompt, max_tokens, stop=stop, lookup=lookup, **how)
            tokens = self.tokens_of(prompt)  # type: ignore[arg-type]
            made = self.stream_tokens(tokens, max_tokens, Sampler(sampling), lookup)
            texts = self._texts(made, Stops(stops))
            return texts if stream else "".join(texts)

    def _each(self, prompts: Prompts, max_tokens: int, **how: Any) -> list[str]:
        """The texts that follow several prompts; `usage` is that of all of them."""
        texts, total = [], Usage()
        for prompt in prompts:
            texts.append(self.generate(prompt, max_tokens, **how))
            for name, value in vars(self.usage).items():
                setattr(total, name, getattr(total, name) + value)
        self.usage = total
        return texts

    def _together(
        self, prompts: Prompts, limit: int, stops: Sequence[str], sampling: Sampling, count: int
    ) -> list[str]:
        """The texts that follow several prompts, `count` at a time."""
        session, step = self.session, self.batch_step
        assert step is not None
        fed = [self.tokens_of(one) for one in prompts]
        for tokens in fed:
            session.check(tokens)
        room = min(max(map(len, fed)) + max(limit, 0), session.context)
        kept = self.source.caches(self.cache)
        batch = Batch(step, self.source.embed, kept, self.config.kv_heads, count, room)
        texts = [
            Continuation(self.tokenizer, Sampler(sampling), Stops(stops), limit, session.context)
            for _ in fed
        ]
        self.usage = continue_together(batch, session, fed, texts)
        return [one.text for one in texts]

    def tokens_of(self, prompt: Prompt) -> list[int]:
        """Return the tokens of a prompt. Raise UserError for messages where the file has no template."""
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        return self._chat_tokens(prompt) if is_chat(prompt) else given_tokens(prompt)

    def _chat_tokens(self, messages: Sequence[Message]) -> list[int]:
        source = self.source
        if not source.template:
            raise UserError(f"'{source.path}' has no chat template; give the prompt as text")
        text = chat_text(source.template, messages, source.names)
        start = source.names["bos_token"]
        return self.tokenizer.encode(text, not (start and text.startswith(start)), control=True)

    def _texts(self, tokens: Iterator[int], stops: Stops) -> Iterator[str]:
        """The pieces of text, of whole characters, up to a stop text."""
        stream = self.tokenizer.stream()
        for token in tokens:
            yield stops.push(stream.push(token))
            if stops.found:
                return
        yield stops.push(stream.rest()) + stops.rest()

    def stream_tokens(
        self, prompt: Sequence[int], limit: int, sampler: Sampler, guesses: int = 0
    ) -> Iterator[int]:
        """Yield new tokens after a prompt, until one ends the text, there are `limit`, or the context is full.

        `guesses`: tokens looked up at once; the session holds none of them when the iterator ends.
        """
        session, ends, text = self.session, self.tokenizer.ends, list(prompt)
        guessed, usage = list[int](), Usage()
        self.usage = usage
        with self._lock, usage.timed("prefill_seconds"):
            fed = session.reuse(text) if text else []
            usage.prompt, usage.reused = len(fed), len(text) - len(fed)
            rows = [session.feed(fed)[-1]]  # logits after the text, and after each guess
        try:
            while usage.new < limit:
                with usage.timed("decode_seconds"):
                    token = sampler.choose(rows.pop(0), text)
                if token in ends:
                    return
                usage.new += 1
                yield token
                if usage.new == limit or len(text) == session.context:
                    return
                if guessed and guessed[0] == token:
                    usage.right += 1
                    text.append(guessed.pop(0))
                    continue
                with self._lock, usage.timed("decode_seconds"):
                    session.resume(text)
                    text.append(token)
                    guessed = self._guessed(text, min(guesses, limit - usage.new - 1))
                    usage.guessed += len(guessed)
                    rows = [*session.feed([token, *guessed], every=True)]
        finally:
            self._forget(text, guessed)

    def free(self) -> None:
        """Forget a call of a thread that is gone, with the sequence."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = RLock()
            self.session.truncate(0)

    def _forget(self, text: list[int], guessed: list[int]) -> None:
        """Remove guesses from the session, unless another call uses it."""
        if self._lock.acquire(blocking=False):
            if self.session.tokens == text + guessed:
                self.session.truncate(len(text))
            self._lock.release()

    def _guessed(self, text: list[int], count: int) -> list[int]:
        """Tokens that may follow, as many as the context holds."""
        return looked_up(text, min(count, self.session.context - len(text)))

    def perplexity(self, text: str) -> float:
        """Return exp of the mean negative log likelihood of the tokens of a text but the first.

        A text longer than the context is split into parts that fill it. Raise UserError for less than two tokens.
        """
        with self._lock:
            return perplexity(self.session, self.tokenizer.encode(text), CHUNK)


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    context: int | None = None,
    cache: str = "f32",
    huge_pages: bool = False,
    **options: Any,
) -> LanguageModel:
    """Load a language model: compiled, or from the compile cache where it was compiled before.

    Args:
        path: A GGUF file, the first file of a split model, or a folder of Hugging Face Transformers or of
            onnxruntime-genai.
        threads: Threads per call, as in `graphc.compile`.
        context: The largest number of tokens of a text; by default 4,096, or what the model was made for.
        cache: Type of keys and values: f32; f16 and bf16, in which a context takes half the memory; or q8, bytes with a
            scale for each 32, which take 0.28 of it. Attention multiplies them in f32.
        huge_pages: Copy the weights into memory of this process, on pages of 2 MB where Linux has them, instead of
            mapping the file that processes share. What is bound by memory, as new tokens are, may be faster.
        **options: Others of `graphc.compile`, such as `target`, or `activations="q8"`, which rounds the rows that meet
            packed weights to 8 bits.

    Raises:
        UserError: The file is corrupt, or the context is larger than the model's.
        UnsupportedError: An architecture, a type or a tokenizer that graphc does not know.
    """
    source, context = source_of(Path(path), context, CONTEXT)
    if cache not in CACHES:
        raise UserError(f"cache must be one of {', '.join(CACHES)}, got '{cache}'")
    kept = CACHES[cache]
    options["threads"] = threads
    step = source.compiled(min(CHUNK, context), context - 1, kept, **options)
    if huge_pages:
        step = CompiledModel(step.artifact.on_huge_pages(), step.threads)
    return LanguageModel(source, step, context, kept, options)
