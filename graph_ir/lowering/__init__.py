"""From scheduled groups of ops to Tensor IR functions (`get_func`), and from a graph to a program.

May import: every floor below: ir to passes.
"""
