"""Registration of user-defined ops, kernels, passes and patterns, and a fingerprint of their code.

May import: frontend, graph_ir, tensor_ir, base.
"""
