"""GE readable dumps: `ge_readable_<seq>_graph_<id>_<stage>.txt`."""

from .dump_builder import written_names
from .importer import load_ge
from .printer import print_ge
from .reader import read_ge
from .writer import dump_constants, write_ge

__all__ = ["dump_constants", "load_ge", "print_ge", "read_ge", "write_ge", "written_names"]
