"""PNNX models: a `.param` file of operators and a `.bin` archive of weights, read and written."""

from .importer import Others, load_pnnx
from .writer import write_pnnx

__all__ = ["Others", "load_pnnx", "write_pnnx"]
