"""The version of graphc, defined only here."""

__version__ = "0.1.0"
