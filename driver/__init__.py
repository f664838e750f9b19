"""The driver: the compile path from model to loaded code, its cache, tuning files and versions.

May import: every room.
"""
