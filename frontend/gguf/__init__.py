"""GGUF files: the container, and the decoder that its metadata and tensors describe."""

from .container import GgufFile, read_gguf
from .decoder import decoder_config

__all__ = ["GgufFile", "decoder_config", "read_gguf"]
