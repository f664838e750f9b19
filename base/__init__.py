"""Leaves: element types, records, errors by blame, options, the target CPU, and files written whole.

May import: nothing of graphc.
"""
