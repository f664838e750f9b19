"""Entry points from other libraries: JAX functions compiled by graphc, and the onnx package's backend.

May import: every room; the other library only inside the functions that need it.
"""
