"""Front doors into other libraries: JAX functions compiled by graphc.

May import: every room; the library it serves only inside the functions that need it.
"""
