"""ONNX models, opsets 7 to the newest the `onnx` package knows."""

from .importer import load_onnx

__all__ = ["load_onnx"]
