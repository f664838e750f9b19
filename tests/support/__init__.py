"""Helpers of the tests: `from support.buffers import guarded`."""
