"""GE readable dumps: `ge_readable_<seq>_graph_<id>_<stage>.txt`."""

from .importer import load_ge
from .printer import print_ge
from .reader import read_ge

__all__ = ["load_ge", "print_ge", "read_ge"]
