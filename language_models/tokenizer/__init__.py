"""Tokenizers: text to tokens, and tokens to text."""

from .folder import folder_tokenizer
from .tokenizer import TextTokenizer, Tokenizer, tokenizer_of

__all__ = ["TextTokenizer", "Tokenizer", "folder_tokenizer", "tokenizer_of"]
