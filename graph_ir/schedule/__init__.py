"""Candidates for running ops: layouts (`query_format`), tiles, blockings and forms, ranked by a model of the machine.

May import: ir, text, ops, rewriting, nest.
"""
