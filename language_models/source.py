"""The files of a language model, whatever their format: a configuration, weights, a tokenizer and a chat template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..base.dims import Symbol, size
from ..base.dtypes import DType
from ..base.errors import UserError
from ..base.records import dataclass
from ..driver.compiler import compile as compile_model
from ..frontend.decoder.batch import batch_graph
from ..frontend.decoder.caches import Cache, caches
from ..frontend.decoder.config import DecoderConfig
from ..frontend.decoder.graph import EMBEDDINGS, decoder_graph, embedded
from ..frontend.decoder.weights import Weights, idle_bytes
from ..frontend.gguf import decoder_config, read_gguf
from ..frontend.huggingface import ModelFolder, folder_config, read_folder
from ..runtime.executor import CompiledModel
from .genai import GenaiConfig, is_genai, read_genai
from .session import Embed, Step
from .tokenizer import TextTokenizer, folder_tokenizer, tokenizer_of


@dataclass(frozen=True)
class Source:
    """A model before it is compiled.

    Attributes:
        path: The file or the folder.
        config: For the requested context.
        caches: Returns the caches of a type.
        embed: Looks tokens up, for a step.
        tokenizer: Reads the tokenizer.
        template: The chat template, "" where there is none.
        names: Texts of special tokens by the names that templates use.
        compiled: Compiles the decoder for numbers of new and old tokens and a type of caches, with options of
            `graphc.compile`.
        step_of: Returns a compiled decoder as a session calls it.
        idle_bytes: Bytes of weights that one new token does not read.
        batched: Compiles the decoder of several sequences, at most a number, for a room and a type of caches; None
            where there is none.
    """

    path: Path
    config: DecoderConfig | GenaiConfig
    caches: Callable[[DType], Sequence[Cache]]
    embed: Embed
    tokenizer: Callable[[], TextTokenizer]
    template: str
    names: Mapping[str, str]
    compiled: Callable[..., CompiledModel]
    step_of: Callable[[CompiledModel], Step] = lambda model: model
    idle_bytes: int = 0
    batched: Callable[..., CompiledModel] | None = None


def source_of(path: Path, context: int | None, default: int) -> tuple[Source, int]:
    """Return the source and the context: `default`, or less where the model was made for less. May raise UserError."""
    if is_genai(path):
        return _genai(path, context, default)
    return _folder(path, context, default) if path.is_dir() else _gguf(path, context, default)


def _gguf(path: Path, context: int | None, default: int) -> tuple[Source, int]:
    file = read_gguf(path)
    made_for = file.integer(f"{file.text('general.architecture')}.context_length", min_value=1)
    context = _checked(path, context, made_for, default)
    config = decoder_config(file, context)
    tokens = file.metadata.get("tokenizer.ggml.tokens")

    def compiled(new: int, past: int, cache: DType, **options: Any) -> CompiledModel:
        kept = caches(config, cache)
        inputs = {EMBEDDINGS: f"f32[1,T=1..{new},{config.width}]"}
        for is_local, name in ((False, "P"), (True, "W")):
            one = next((one for one in kept if one.is_local == is_local), None)
            if one is not None:
                inputs[one.past] = (
                    f"{cache}[1,{config.kv_heads},{name}=0..{past},{config.key_size}]"
                )
        return compile_model(path, inputs=inputs, alias=_alias(kept), **options)

    def text_of(name: str) -> str:
        number = file.metadata.get(f"tokenizer.ggml.{name}_id")
        if isinstance(tokens, list) and isinstance(number, int) and number < len(tokens):
            return str(tokens[number], "utf-8", "replace")
        return ""

    template = file.text("tokenizer.chat_template", "")
    names = {name: text_of(name) for name in ("bos_token", "eos_token")}
    return Source(
        path,
        config,
        partial(caches, config),
        partial(embedded, config, file.tensors),
        lambda: tokenizer_of(file),
        template,
        names,
        compiled,
        idle_bytes=idle_bytes(file.tensors, config.experts_used),
        batched=partial(_batched, config, file.tensors),
    ), context


def _folder(path: Path, context: int | None, default: int) -> tuple[Source, int]:
    folder = read_folder(path)
    context = _checked(path, context, folder.context, default)
    config = folder_config(folder, context)

    def compiled(new: int, past: int, cache: DType, **options: Any) -> CompiledModel:
        sizes = size(Symbol("T", 1, new)), size(Symbol("P", 0, past))
        graph = decoder_graph(config, folder.weights, *sizes, cache)
        return compile_model(graph, alias=_alias(caches(config, cache)), **options)

    return Source(
        path, config, partial(caches, config), partial(embedded, config, folder.weights),
        lambda: folder_tokenizer(folder), _template(folder), _special_texts(folder), compiled,
        idle_bytes=idle_bytes(folder.weights, config.experts_used),
        batched=partial(_batched, config, folder.weights),
    ), context  # fmt: skip


def _batched(
    config: DecoderConfig, weights: Weights, count: int, room: int, cache: DType, **options: Any
) -> CompiledModel:
    sizes = size(Symbol("B", 1, count)), size(Symbol("R", 1, room))
    graph = batch_graph(config, weights, *sizes, cache)
    return compile_model(graph, alias=_alias(caches(config, cache)), **options)


def _genai(path: Path, context: int | None, default: int) -> tuple[Source, int]:
    config, folder = read_genai(path)
    context = _checked(path, context, config.context, default)
    return Source(
        path, config, config.caches_of, lambda tokens: tokens[None],
        lambda: folder_tokenizer(folder), _template(folder), _special_texts(folder), config.compiled, config.step_of,
    ), context  # fmt: skip


def _alias(kept: Sequence[Cache]) -> dict[str, str]:
    return {one.present: one.past for one in kept}


def _checked(path: Path, context: int | None, made_for: int, default: int) -> int:
    context = min(default, made_for) if context is None else context
    if not 1 <= context <= made_for:
        raise UserError(f"'{path}': the context must be in [1, {made_for}], got {context}")
    return context


def _template(folder: ModelFolder) -> str:
    file = folder.path / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = folder.json("tokenizer_config.json").get("chat_template", "")
    if isinstance(found, list):  # several, by name
        found = next((one.get("template") for one in found if one.get("name") == "default"), "")
    return found if isinstance(found, str) else ""


def _special_texts(folder: ModelFolder) -> dict[str, str]:
    settings, found = folder.json("tokenizer_config.json"), {}
    for name in ("bos_token", "eos_token"):
        given = settings.get(name)
        given = given.get("content") if isinstance(given, dict) else given
        found[name] = given if isinstance(given, str) else ""
    return found
