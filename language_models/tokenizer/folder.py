"""The tokenizer of a folder, which the library `tokenizers` reads whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...base.errors import UserError
from ...frontend.huggingface import ModelFolder


class FolderTokenizer:
    """`tokenizer.json`, and the tokens that end a text."""

    def __init__(self, model: Any, ends: frozenset[int]) -> None:
        self._model, self.ends = model, ends

    def encode(self, text: str, begins: bool = True, control: bool = True) -> list[int]:
        """Return the tokens of a text. Texts of control tokens always stand for them, as the library has it."""
        whole = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return list(self._model.encode(whole, add_special_tokens=begins).ids)

    def decode(self, tokens: Iterable[int], control: bool = False) -> str:
        """Return the text of tokens, without those of control unless `control`."""
        return str(self._model.decode(list(tokens), skip_special_tokens=not control))

    def stream(self) -> FolderStream:
        """Return a stream of the text of tokens to come."""
        return FolderStream(self._model)


class FolderStream:
    """The text of tokens, as they come."""

    def __init__(self, model: Any) -> None:
        from tokenizers.decoders import DecodeStream

        self._model, self._stream = model, DecodeStream(skip_special_tokens=True)

    def push(self, token: int) -> str:
        """Return the whole characters that a token completes."""
        return self._stream.step(self._model, token) or ""

    def rest(self) -> str:
        """Return nothing: the library does not show what is not a character."""
        return ""


def folder_tokenizer(folder: ModelFolder) -> FolderTokenizer:
    """Return the tokenizer of a folder. Raise UserError if `tokenizer.json` or the library is missing."""
    path = folder.path / "tokenizer.json"
    if not path.is_file():
        raise UserError(
            f"'{folder.path}' has no tokenizer.json; save the model with its fast tokenizer"
        )
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UserError(
            "a folder's tokenizer needs the package 'tokenizers'; install graphc[llm]"
        ) from None
    try:
        model = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises nothing more specific
        raise UserError(
            f"'{path}' must be a tokenizer of the library 'tokenizers' ({error})"
        ) from None
    return FolderTokenizer(model, _ends(folder, model))


def _ends(folder: ModelFolder, model: Any) -> frozenset[int]:
    """The tokens that end a text: those of the generation settings and of the configuration, and the usual texts."""
    given = [
        one.get("eos_token_id") for one in (folder.json("generation_config.json"), folder.settings)
    ]
    found = {
        n for one in given for n in (one if isinstance(one, list) else [one]) if isinstance(n, int)
    }
    texts = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>")
    return frozenset(found | {n for n in map(model.token_to_id, texts) if n is not None})
