"""ONNX models, opsets 6 to the newest the `onnx` package knows, read; and written."""

from .importer import load_onnx
from .writer import to_onnx, write_onnx

__all__ = ["load_onnx", "to_onnx", "write_onnx"]
