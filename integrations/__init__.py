"""Entry points from other libraries: JAX functions compiled by graphc.

May import: every room; the other library only inside the functions that need it.
"""
