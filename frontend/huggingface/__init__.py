"""Folders of Hugging Face Transformers: `config.json` and safetensors as the configuration and weights of a decoder."""

from .folder import folder_config, read_folder
from .model_folder import ModelFolder, read_json

__all__ = ["ModelFolder", "folder_config", "read_folder", "read_json"]
