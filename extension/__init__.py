"""What user code adds to graphc from outside the package, and a digest of what that code means.

May import: frontend, graph_ir, tensor_ir, base.
"""
