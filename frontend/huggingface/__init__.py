"""Folders of Hugging Face Transformers: `config.json` and safetensors as the configuration and weights of a decoder."""

from .folder import ModelFolder, read_folder, read_json

__all__ = ["ModelFolder", "read_folder", "read_json"]
