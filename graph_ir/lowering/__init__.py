"""Lowers scheduled groups of ops to Tensor IR functions (`get_func`), and a graph to a program.

May import: every floor below: ir to passes.
"""
