"""Read-only questions about graphs and results: comparisons, reorders left, formulas.

May import: every floor of graph_ir.
"""
