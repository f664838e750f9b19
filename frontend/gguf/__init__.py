"""GGUF files: the container, and the decoder that its metadata and tensors describe."""

from .container import GgufFile
from .decoder import decoder_config
from .split import read_gguf

__all__ = ["GgufFile", "decoder_config", "read_gguf"]
