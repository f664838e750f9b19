"""Read-only analysis of graphs and results: comparisons, remaining reorders, formulas.

May import: every floor of graph_ir.
"""
