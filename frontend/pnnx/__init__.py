"""PNNX models: a `.param` file of operators and a `.bin` archive of weights, read and written."""

from .importer import load_pnnx
from .writer import write_pnnx

__all__ = ["load_pnnx", "write_pnnx"]
