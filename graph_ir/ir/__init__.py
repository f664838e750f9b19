"""The graph itself: ops, edges, layouts, the op registry and the verifier.

May import: tensor_ir, base.
"""
