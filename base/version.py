"""The version of graphc: here and nowhere else."""

__version__ = "0.1.0"
