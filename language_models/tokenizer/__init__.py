"""Tokenizers of GGUF files: text to tokens, and tokens to bytes."""

from .tokenizer import Tokenizer, tokenizer_of

__all__ = ["Tokenizer", "tokenizer_of"]
