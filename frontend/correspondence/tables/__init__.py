"""The rows of every family of ops, one file each."""

from ..row import Table
from . import activation, elementwise, reduction

TABLE = Table((*elementwise.ROWS, *activation.ROWS, *reduction.ROWS))
"""All rows, in the order in which they are tried and listed."""
