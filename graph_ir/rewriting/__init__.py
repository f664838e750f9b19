"""Shared by rewrites: patterns, constant values, groups of ops, subgraphs, the log of decisions.

May import: ir, text, ops.
"""
